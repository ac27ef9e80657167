"""State tables as the publisher sees them: sets of files, changed by transactions that take effect once.

Jobs use `DeltaTables`. `PlainTables` does the same with JSON documents on any storage: for storages that delta-rs
cannot write (`memory://`), and for tests that inject faults.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa

from state_engine.errors import AlreadyExistsError, CorruptionError, DamagedFileError, NotFoundError, StorageError
from state_engine.log.envelope import seal, unseal
from state_engine.storage.port import CheckpointStorage, Data
from state_engine.storage.table_log import Fence

PLAIN_FORMAT = "lakestate.plain-table"
TABLE_LOGS = ("_delta_log/", "_plain_log/")
"""Folders in which tables keep their logs."""


class TableFile(NamedTuple):
    """One Parquet file to add: its name below the table's folder, length in bytes, rows, Delta's statistics (JSON)."""

    name: str
    length: int
    rows: int
    statistics: str = ""


class ActiveFiles(NamedTuple):
    """A table's newest version and the names of its files, relative to the table's folder."""

    version: int
    names: tuple[str, ...]


class Tables(Protocol):
    """All tables of one job; names of tables are paths relative to the job's root."""

    def active(self, table: str) -> ActiveFiles | None:
        """Returns the table's files, or None if the table does not exist.

        Raises:
            StorageError: It exists, and it cannot be loaded.
        """
        ...

    def commit(
        self,
        table: str,
        files: Sequence[TableFile],
        *,
        schema: pa.Schema,
        app_id: str,
        version: int,
        overwrite: bool = False,
        info: Mapping[str, str] | None = None,
        fence: Fence | None = None,
    ) -> int:
        """Adds files in one transaction, creates the table if it is missing, and returns the table's version.

        Does nothing if `app_id` has committed `version` or a later one. The transaction of `fence` is part of the same
        commit. With `overwrite` all other files leave the table (their bytes stay).

        Raises:
            FencedError: The application of `fence` has a later transaction; nothing was committed.
            StorageError: The outcome is unknown; committing again is safe.
        """
        ...


def put_once(storage: CheckpointStorage, path: str, data: Data) -> bool:
    """Writes an object under a name that identifies its content; whole or not at all.

    Returns:
        True if the object now holds `data`, durably; False if an earlier attempt left other bytes under the name.

    Raises:
        StorageError: It could not be written, or it is unknown whether it is durable.
    """
    try:
        try:
            storage.put_if_absent(path, data)
        except AlreadyExistsError:
            raise
        except StorageError:
            if not storage.exists(path):
                raise
            storage.put_if_absent(path, data)  # it took effect, but may not be durable: make sure
    except AlreadyExistsError:
        return storage.get(path) == bytes(memoryview(data))
    return True


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    transactions: dict[str, int] = {}
    info: dict[str, str] = {}


class PlainTables:
    """Tables as a series of JSON documents, one per version, each put if absent."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._storage = storage

    def active(self, table: str) -> ActiveFiles | None:
        newest = self._newest(table)
        return ActiveFiles(newest[0], newest[1].names) if newest else None

    def commit(
        self,
        table: str,
        files: Sequence[TableFile],
        *,
        schema: pa.Schema,
        app_id: str,
        version: int,
        overwrite: bool = False,
        info: Mapping[str, str] | None = None,
        fence: Fence | None = None,
    ) -> int:
        while True:
            number, newest = self._newest(table) or (-1, _Version())
            if newest.transactions.get(app_id, -1) >= version:
                return number
            if fence is not None:
                fence.check(newest.transactions.get(fence.app_id), table)
            names = tuple(file.name for file in files)
            after = _Version(
                names=names if overwrite else newest.names + names,
                transactions={**newest.transactions, app_id: version, **dict((fence,) if fence is not None else ())},
                info=dict(info or {}),
            )
            try:
                self._storage.put_if_absent(_version_path(table, number + 1), seal(PLAIN_FORMAT, after)[0])
            except AlreadyExistsError:
                continue
            return number + 1

    def _newest(self, table: str) -> tuple[int, _Version] | None:
        listed = self._storage.list(f"{table}/_plain_log")
        if not listed:
            return None
        number = len(listed) - 1
        path = _version_path(table, number)
        try:
            return number, unseal(PLAIN_FORMAT, _Version, self._storage.get(path), DamagedFileError, path=path)[0]
        except (NotFoundError, CorruptionError) as error:
            raise StorageError(
                f"The table {table} cannot be loaded: {error}.", action="Take a FULL checkpoint."
            ) from error


def _version_path(table: str, number: int) -> str:
    return f"{table}/_plain_log/{number:020d}.json"


__all__ = ["TABLE_LOGS", "ActiveFiles", "PlainTables", "TableFile", "Tables", "put_once"]
