"""Rows of `_checkpoints`: the only place that makes a checkpoint or a savepoint visible.

`docs/formats/checkpoints-table.md` explains every column. Rows are appended and never changed.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.errors import DamagedFileError, NotFoundError
from state_engine.log.lineage import contains
from state_engine.log.paths import CHECKPOINTS
from state_engine.log.records import BaseReference, Manifest
from state_engine.storage.port import CheckpointStorage, Data
from state_engine.storage.table_log import Fence
from state_engine.storage.tables import TableFile, Tables, put_once

CheckpointKind = Literal["checkpoint", "savepoint"]
CheckpointStatus = Literal["completed", "failed", "declined", "expired", "subsumed", "aborted"]
CheckpointType = Literal["FULL", "INCREMENTAL", "PIN", "CANONICAL"]

_NAME = re.compile(r"part-(.+?)(-failed)?-([0-9a-f]{32})\.parquet")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FEW = 8  # rows of a file that compression would make no smaller, and take two thirds of the time to write and read
_TIME = pa.timestamp("us", tz="UTC")


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One state in a checkpoint.

    `log_rows` counts the rows of all files, deletes included; `changed_rows` those that this checkpoint added. `rows`
    and `keys` count live ones, as the subtasks reported them. `version` is the Delta version of `table`.

    Of the rows that this checkpoint wrote, `groups` is the number of key groups that have any, and `largest_group` the
    one that has most.
    """

    uid: str
    state: str
    table: str
    version: int | None = None
    full: bool
    reason: str = ""
    files: int
    rows: int | None = None
    keys: int | None = None
    log_rows: int
    changed_rows: int
    bytes: int
    groups: int | None = None
    largest_group: int | None = None
    largest_group_rows: int | None = None


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `_checkpoints`. Times are milliseconds since the Unix epoch; in the table they are timestamps."""

    id: str
    kind: CheckpointKind
    checkpoint_id: int | None = None
    status: CheckpointStatus
    type: CheckpointType | None = None
    generation: int
    epoch: int
    manifest: str
    base_path: str | None = None
    base_checksum: str | None = None
    triggered_at: int
    completed_at: int
    duration_ms: int
    phases_ms: dict[str, int] = {}
    bytes: int = 0
    state_bytes: int = 0
    rows: int | None = None
    log_rows: int = 0
    changed_rows: int = 0
    keys: dict[str, int] = {}
    states: tuple[StateRow, ...] = ()
    trigger: str = ""
    label: str = ""
    note: str = ""
    failure: str = ""

    @property
    def base(self) -> BaseReference | None:
        """The base that this checkpoint made visible."""
        if self.base_path is None or self.base_checksum is None or self.checkpoint_id is None:
            return None
        return BaseReference(
            path=self.base_path,
            checksum=self.base_checksum,
            generation=self.generation,
            epoch=self.epoch,
            checkpoint_id=self.checkpoint_id,
        )


_STATE = pa.struct(
    [
        pa.field("uid", pa.string()),
        pa.field("state", pa.string()),
        pa.field("table", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("full", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("files", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("keys", pa.int64()),
        pa.field("log_rows", pa.int64()),
        pa.field("changed_rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("groups", pa.int64()),
        pa.field("largest_group", pa.int64()),
        pa.field("largest_group_rows", pa.int64()),
    ]
)

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("checkpoint_id", pa.int64()),
    pa.field("status", pa.string(), nullable=False),
    pa.field("type", pa.string()),
    pa.field("generation", pa.int64(), nullable=False),
    pa.field("epoch", pa.int64(), nullable=False),
    pa.field("manifest", pa.string(), nullable=False),
    pa.field("base_path", pa.string()),
    pa.field("base_checksum", pa.string()),
    pa.field("triggered_at", _TIME),
    pa.field("completed_at", _TIME),
    pa.field("duration_ms", pa.int64()),
    pa.field("phases_ms", pa.map_(pa.string(), pa.int64())),
    pa.field("bytes", pa.int64()),
    pa.field("state_bytes", pa.int64()),
    pa.field("rows", pa.int64()),
    pa.field("log_rows", pa.int64()),
    pa.field("changed_rows", pa.int64()),
    pa.field("keys", pa.map_(pa.string(), pa.int64())),
    pa.field("states", pa.list_(pa.field("element", _STATE))),
    pa.field("trigger", pa.string()),
    pa.field("label", pa.string()),
    pa.field("note", pa.string()),
    pa.field("failure", pa.string()),
]

SCHEMA = pa.schema(_FIELDS)


def to_table(rows: Sequence[CheckpointRow]) -> pa.Table:
    """Returns rows in the Arrow form of the table."""
    values = []
    for row in rows:
        value: dict[str, Any] = msgspec.to_builtins(row)
        for name in ("triggered_at", "completed_at"):
            value[name] = _EPOCH + value[name] * _MILLISECOND
        values.append(value)
    return pa.Table.from_pylist(values, SCHEMA)


def from_table(table: pa.Table) -> list[CheckpointRow]:
    """Returns the rows of the table; columns that this release does not know are left out."""
    columns = [name for name in SCHEMA.names if name in table.column_names]
    rows = []
    for value in table.select(columns).to_pylist():
        for name in ("triggered_at", "completed_at"):
            value[name] = (value[name] - _EPOCH) // _MILLISECOND
        for name in ("phases_ms", "keys"):
            value[name] = dict(value[name] or ())
        rows.append(msgspec.convert(value, CheckpointRow))
    return rows


def encode_rows(rows: Sequence[CheckpointRow]) -> tuple[str, pa.Buffer]:
    """Returns the name and the bytes of the file of the table that holds these rows.

    The name has a digest of the content: the same rows give the same file, other rows of another attempt another file.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(rows), sink, compression="none" if len(rows) <= _FEW else "zstd")
    data = sink.getvalue()
    suffix = "" if any(row.status == "completed" for row in rows) else "-failed"
    return f"part-{rows[-1].id}{suffix}-{_digest(data)}.parquet", data


@lru_cache(maxsize=256)
def decode_rows(data: bytes) -> tuple[CheckpointRow, ...]:
    """Returns the rows of one file of the table.

    The same bytes are decoded once: each look at a job reads the files of its newest checkpoints, and decoding takes
    2 ms for each.
    """
    # threads cost more for a few rows
    return tuple(from_table(pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)))


class RowFile(NamedTuple):
    """What the name of a file of the table contains; the file is not read.

    Attributes:
        name: The name.
        id: The highest id of its rows: of a checkpoint, or of a savepoint.
        completed: False if every row is of a checkpoint that did not complete.
    """

    name: str
    id: str
    completed: bool

    @property
    def checkpoint_id(self) -> int:
        """The id as a number; 0 of a savepoint."""
        return int(self.id) if self.id.isdecimal() else 0


class CheckpointTable:
    """Reads and appends rows of `_checkpoints` of one job."""

    def __init__(self, storage: CheckpointStorage, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables

    def append(self, rows: Sequence[CheckpointRow], *, app_id: str, version: int, fence: Fence | None = None) -> None:
        """Makes all rows visible together, or none; does nothing when (app_id, version) was committed before.

        Args:
            rows: What to append.
            app_id: The application.
            version: The application's transaction.
            fence: Nothing is appended if its application has a later transaction.

        Raises:
            FencedError: The fence was passed.
            StorageError: The outcome is unknown; appending again with the same transaction is safe.
        """
        name, data = encode_rows(rows)
        put_once(self._storage, f"{CHECKPOINTS}/{name}", data)
        file = TableFile(name=name, length=data.size, rows=len(rows))
        self._tables.commit(CHECKPOINTS, [file], schema=SCHEMA, app_id=app_id, version=version, fence=fence)

    def rows(self) -> list[CheckpointRow]:
        """Returns all rows, oldest first; none when the job never published.

        Raises:
            DamagedFileError: A file of the table cannot be read.
        """
        rows = [row for name in self._names() for row in self.read(name)]
        return sorted(rows, key=lambda row: (row.completed_at, row.generation, row.epoch))

    def newest_first(self) -> Iterator[CheckpointRow]:
        """Yields the rows of checkpoints from the highest id down; reads a file only when the iteration reaches it.

        A file is named after its highest id. If files have other names, because another process compacted the table,
        all files are read first.
        """
        files = self.files()
        if files is None:
            yield from sorted(
                (row for row in self.rows() if row.checkpoint_id is not None), key=lambda row: -(row.checkpoint_id or 0)
            )
            return
        for file in sorted((file for file in files if file.checkpoint_id), key=_checkpoint_id, reverse=True):
            yield from reversed(self.read(file.name))

    def highest_id(self) -> int:
        """Returns the highest checkpoint id of all rows, 0 when there are none."""
        return next((row.checkpoint_id or 0 for row in self.newest_first()), 0)

    def savepoint_ids(self) -> set[str]:
        """Returns the ids of the completed savepoints."""
        files = self.files()
        if files is None:
            return {row.id for row in self.rows() if row.kind == "savepoint" and row.status == "completed"}
        return {file.id for file in files if not file.checkpoint_id}

    def files(self) -> list[RowFile] | None:
        """Returns the content of all file names, in no order; None if some have other names (`newest_first`)."""
        row_files = []
        for name in self._names():
            match = _NAME.fullmatch(name)
            if match is None:
                return None
            row_files.append(RowFile(name, match[1], match[2] is None))
        return row_files

    def savepoint(self, savepoint_id: str) -> CheckpointRow | None:
        """Returns the row of a savepoint; reads one file, or all files if another process compacted the table."""
        files = self.files()
        names = [file.name for file in files or () if file.id == savepoint_id]
        rows = self.rows() if files is None else [row for name in names for row in self.read(name)]
        return next((row for row in rows if (row.kind, row.id) == ("savepoint", savepoint_id)), None)

    def _names(self) -> tuple[str, ...]:
        active = self._tables.active(CHECKPOINTS)
        return active.names if active is not None else ()

    def read(self, name: str) -> list[CheckpointRow]:
        """Returns the rows of one file, those with the highest id last.

        Files with other names, of a table that another process compacted, have no digest to compare.

        Raises:
            DamagedFileError: The file cannot be read, or is not what its name says.
        """
        remedy = "Restore by savepoint id or epoch, which need no row; restore the file from a backup."
        match = _NAME.fullmatch(name)
        try:
            data = self._storage.get(f"{CHECKPOINTS}/{name}")
            if match is not None and match[3] != (digest := _digest(data)):
                raise DamagedFileError(f"{CHECKPOINTS}/{name} has other bytes, of digest {digest}.", action=remedy)
            return list(decode_rows(data))
        except (pa.ArrowException, NotFoundError) as error:
            raise DamagedFileError(f"{CHECKPOINTS}/{name} cannot be read: {error}.", action=remedy) from error


def _digest(data: Data) -> str:
    return hashlib.sha256(memoryview(data)).hexdigest()[:32]


def _checkpoint_id(file: RowFile) -> int:
    return file.checkpoint_id


def newest_base(rows: Iterable[CheckpointRow], head: Manifest) -> BaseReference | None:
    """Returns the newest visible base on the lineage of `head`, at or before its epoch.

    Args:
        rows: From the highest id down (`newest_first`): along a lineage ids grow as epochs do.
        head: The epoch to begin from.
    """
    for row in rows:
        base = row.base if row.kind == "checkpoint" and row.status == "completed" else None
        if base is not None and base.epoch <= head.epoch and contains(head.lineage, base.generation, base.epoch):
            return base
    return None


__all__ = [
    "SCHEMA",
    "CheckpointRow",
    "CheckpointTable",
    "RowFile",
    "StateRow",
    "encode_rows",
    "from_table",
    "newest_base",
    "to_table",
]
