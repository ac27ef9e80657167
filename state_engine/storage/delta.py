"""Commits to Delta tables: the only module that commits through `deltalake`.

Every commit is idempotent by (application id, version), Delta's own application transactions. `DeltaVersion` reads the
version that a table holds and commits on one handle, which is never refreshed in between and never retried by delta-rs.
So a commit of another writer in between is a conflict, and `commit_once` loads the table and decides again.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, TableFeatures, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError, StorageError
from state_engine.storage import delta_digests, delta_durable, delta_features
from state_engine.storage.delta_digests import LogCheck
from state_engine.storage.table_log import (
    CONFLICTS,
    Commit,
    CommitConflictError,
    DeltaFile,
    Fence,
    Obstacle,
    commit_once,
)

STATE_TABLE_PROPERTIES: Mapping[str, str] = {
    # time travel; pins and bases rely on files, never on versions
    "delta.logRetentionDuration": "interval 3650 days",
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 30 days",
    "delta.checkpointInterval": "50",
}

# A sink's table belongs to its owner: it gets Delta's own defaults, and no settings of ours. A repeated commit is
# recognised by its application transaction, which checkpoints of the log carry on. A restore gets the files of the
# table from the newest version, and the files to move from manifests. So neither needs old entries of the log. A
# restore may have to bring back files that an earlier one removed; VACUUM keeps them for its retention duration.
SINK_TABLE_PROPERTIES: Mapping[str, str] = {}

PATIENCE = 4
"""Up to this number of conflicts in a row the next try follows at once."""

_LONGEST_PAUSE_S = 1.0

_CHECKPOINT_INTERVAL = 100
"""Delta's own default, in commits."""


class DeltaVersion:
    """One loaded version of a table: what it holds, and a commit that takes effect only on top of it.

    Args:
        path: Root of the table.
        table: Its handle, which is never refreshed.
        wanted: Columns of the files that its writer adds.
        on_conflict: Called when a commit finds that another writer has made the next version.
        partition_by: Columns by which its writer divides the files.
    """

    def __init__(
        self,
        path: str,
        table: DeltaTable,
        wanted: pa.Schema | None = None,
        on_conflict: Callable[[], None] = lambda: None,
        partition_by: Sequence[str] = (),
    ) -> None:
        self._partition_by = tuple(partition_by)
        self._path = path
        self._on_conflict = on_conflict
        self._table = table
        self._wanted = pa.schema([]) if wanted is None else wanted
        self._version = table.version()  # delta-rs moves the handle on after a commit

    @property
    def version(self) -> int:
        return self._version

    def files(self) -> set[str]:
        return {str(file) for file in pa.table(self._table.get_add_actions()).column("path").to_pylist()}

    def transaction_version(self, app_id: str) -> int | None:
        return self._table.transaction_version(app_id)

    def others(self, schema: pa.Schema) -> list["OtherColumn"]:
        """Returns the columns of `schema` that the table lacks or has with another type."""
        types = {field.name: field.type for field in self._table.schema().fields}
        different = [field for field in Schema.from_arrow(schema).fields if types.get(field.name) != field.type]
        names = {name.lower(): name for name in types}
        return [
            OtherColumn(f.name, _spelled(f.type), _spelled(types.get(f.name)), names.get(f.name.lower(), f.name))
            for f in different
        ]

    def other_columns(self) -> list[str]:
        """Describes what `others` returns for the columns that the writer adds."""
        return [str(column) for column in self.others(self._wanted)]

    def obstacles(self) -> list[Obstacle]:
        """Returns the reasons why files of ours cannot be added to the table or removed again."""
        return delta_features.obstacles(self._table, self._partition_by)

    def commit(self, commit: Commit) -> None:
        self.write(commit, self._table.schema())

    def write(self, commit: Commit, schema: pa.Schema | Schema, *, overwrite: bool = False) -> None:
        """Commits; with `overwrite` all other files go, and the table gets `schema`. Raises as `commit` does."""
        removed = [RemoveAction(file, True, commit.now_ms) for file in commit.removed]
        all_removed = [*commit.removed, *map(unquote, self.files())] if overwrite else commit.removed
        added = [file._replace(statistics=file.statistics_json()) for file in commit.added]
        transactions = {commit.app_id: commit.version, **commit.marks}
        try:
            self._table.create_write_transaction(
                [*removed, *map(_add_action, added)],
                "overwrite" if overwrite else "append",
                schema,
                partition_by=self._table.metadata().partition_columns or None,
                commit_properties=CommitProperties(
                    custom_metadata={
                        **commit.info,
                        delta_digests.INFO: delta_digests.digest_of(added, all_removed, transactions),
                    },
                    max_commit_retries=0,
                    app_transactions=[Transaction(*transaction) for transaction in transactions.items()],
                ),
                post_commithook_properties=_hooks(self._path),
            )
        except CommitFailedError as error:
            self.note_conflict()
            raise CommitConflictError(str(error)) from error
        except (DeltaError, OSError) as error:
            what = f"committed for version {commit.version} of {commit.app_id!r}"
            raise _failed(self._path, what, error) from error
        # The next version is that of this commit: it is never retried after another writer's commit.
        _make_durable(self._path, self._table, self.version + 1)

    def note_conflict(self) -> None:
        self._on_conflict()

    @property
    def checkpoint_interval(self) -> int:
        """The number of commits between two checkpoints of the log."""
        return _checkpoint_interval(self._table)

    def make_durable(self) -> None:
        _make_durable(self._path)


class DeltaOpener:
    """Opens the newest version of a table, again and again until a commit succeeds.

    After a conflict it reads only the new entries of the log instead of the whole table. After several conflicts in a
    row it waits first, longer each time and at random: so writers that commit all the time do not keep another one out.

    Args:
        path: Root of the table.
        wanted: Columns of the files that its writer adds.
        partition_by: Columns by which its writer divides them.
    """

    def __init__(self, path: str, wanted: pa.Schema | None = None, partition_by: Sequence[str] = ()) -> None:
        self._path, self._wanted, self._partition_by = path, wanted, partition_by
        self._check = LogCheck(path)
        self._lost: DeltaTable | None = None
        self._conflicts = 0

    def open(self) -> DeltaVersion:
        """Opens it; raises as `open_version`. What it has verified once it does not verify again."""
        table = self._check.load(lambda: self._caught_up() or _load(self._path))
        if self._lost is None:
            self._conflicts = 0
        self._lost = None

        def lost() -> None:
            self._lost, self._conflicts = table, self._conflicts + 1

        return DeltaVersion(self._path, table, self._wanted, lost, self._partition_by)

    def _caught_up(self) -> DeltaTable | None:
        """Returns the handle of the commit that lost, updated to the newest version; None if it cannot be updated."""
        table = self._lost
        if table is None:
            return None
        if self._conflicts > PATIENCE:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.01 * 2 ** (self._conflicts - PATIENCE))))
        before = table.version()
        try:
            table.update_incremental()
        except (DeltaError, OSError):
            return None
        return table if table.version() > before else None


def ensure_table(path: str, schema: pa.Schema, properties: Mapping[str, str] = STATE_TABLE_PROPERTIES) -> None:
    """Creates the table unless it exists; several callers at once are fine.

    Raises:
        StorageError: it exists with other columns or types. Nullability and order are not compared.
    """
    create_table(path, schema, properties)
    _refuse_others(path, other_columns(path, schema))


def prepare_schema(path: str, schema: pa.Schema, properties: Mapping[str, str] = STATE_TABLE_PROPERTIES) -> None:
    """Makes sure that a commit with `overwrite` can give the table this schema: creates it, adds table features.

    Columns stay as they are until that commit. Calling it again, or from several places at once, is fine.

    Raises:
        StorageError: The table cannot be created, or changed.
    """
    create_table(path, schema, properties)
    table = _load(path)
    version = table.version()
    if (
        "timestampNtz" in (table.protocol().writer_features or ())
        or "timestamp_ntz" not in Schema.from_arrow(schema).to_json()
    ):
        return
    try:
        table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone,
            allow_protocol_versions_increase=True,
            commit_properties=CommitProperties(max_commit_retries=0),
            post_commithook_properties=_hooks(path),
        )
    except CommitFailedError:
        return  # another writer commits; if it was not this feature, the commit after this one fails
    except (DeltaError, OSError) as error:
        raise _failed(path, "given timestamps without time zone", error) from error
    _make_durable(path, table, version + 1)


def create_table(
    path: str,
    schema: pa.Schema,
    properties: Mapping[str, str] = STATE_TABLE_PROPERTIES,
    partition_by: Sequence[str] = (),
) -> None:
    """Creates the table unless it exists; an existing one may have any columns.

    Raises:
        StorageError: It was not created, or the answer was lost.
    """
    if not DeltaTable.is_deltatable(path):
        try:
            delta_durable.make_root(path)
            DeltaTable.create(
                path,
                schema=schema,
                mode="ignore",
                partition_by=list(partition_by) or None,
                configuration=dict(properties),
                raise_if_key_not_exists=False,
                # delta-rs would repeat a lost creation as version 1, which is a second set of table properties
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=_hooks(path),
            )
        except CommitFailedError:
            pass  # another writer was first
        except (DeltaError, OSError) as error:
            raise _failed(path, "created", error) from error
        _make_durable(path)


class OtherColumn(NamedTuple):
    """A column that a table lacks, or has with another type. Types are spelled as in Delta's schema.

    `called` is the table's name of a column that differs only in capital letters, else `name`: for Spark they are one
    column, for other readers of the files they are two.
    """

    name: str
    wanted: str
    found: str | None
    called: str

    def __str__(self) -> str:
        if self.called != self.name:
            return f"{self.name!r} is called {self.called!r} there"
        return f"{self.name!r} is {self.found or 'missing'}, wanted {self.wanted}"


def other_columns(path: str, schema: pa.Schema) -> list[OtherColumn]:
    """Returns the columns of `schema` that a table lacks or has with another type; changes nothing.

    Nullability and order are not compared, nor are columns that only the table has. Without a table none differ.
    """
    try:
        return open_version(path).others(schema)
    except NotFoundError:
        return []


def _refuse_others(path: str, others: list[OtherColumn]) -> None:
    if others:
        raise StorageError(
            f"The Delta table {path} has other columns than wanted: {'; '.join(map(str, others))}.",
            action="Give the sink or state a new name, or migrate the table.",
        )


def table_version(path: str) -> int | None:
    """Returns the newest version of the table, None without a table."""
    try:
        return _load(path).version()
    except NotFoundError:
        return None


def transaction_version(path: str, app_id: str) -> int | None:
    """Returns the last version that an application committed, None if it never did or the table does not exist."""
    try:
        return open_version(path).transaction_version(app_id)
    except NotFoundError:
        return None


def append_files(
    path: str,
    adds: Sequence[DeltaFile],
    *,
    app_id: str,
    version: int,
    schema: pa.Schema,
    overwrite: bool = False,
    checked: bool = False,
    info: Mapping[str, Any] | None = None,
    fence: Fence | None = None,
) -> int:
    """Adds files in one commit, once for (app_id, version).

    Does nothing if the table holds this version of the application or a higher one, even if the files differ.

    Args:
        path: Root of the table.
        adds: Files that are durable below it.
        app_id: The application; a forked job has another one.
        version: Grows with every commit of the application.
        schema: Schema of the files.
        overwrite: Remove all other files of the table in the same commit; the table gets `schema`.
        checked: Refuse a table with other columns or types, as `ensure_table` does, without loading it once more.
        info: JSON values for the commit's `commitInfo`.
        fence: Committed in the same commit.

    Returns:
        The version of the commit; if it had taken effect before, the newest one.

    Raises:
        FencedError: The application of `fence` has a later transaction.
        NotFoundError: no table; `ensure_table` first.
        MissingFileError: a file to add does not exist (local tables).
        StorageError: anything else; whether it was committed is unknown, and calling again is safe.
    """
    check_files(path, adds)
    marks = {fence.app_id: fence.version} if fence is not None else {}
    wanted = Commit(app_id, version, added=adds, info=info or {}, marks=marks)

    def commit(table: DeltaVersion) -> None:
        if checked:
            _refuse_others(path, table.others(schema))
        table.write(wanted, schema, overwrite=overwrite)

    return commit_once(path, DeltaOpener(path).open, app_id, version, commit, fence)


def _add_action(add: DeltaFile) -> AddAction:
    return AddAction(add.path, add.size, dict(add.partition_values), add.modified_ms, True, add.statistics)


def live_files(path: str) -> list[str]:
    """Returns the files of the newest version, relative to the table's root, sorted."""
    return version_and_files(path)[1]


def version_and_files(path: str) -> tuple[int, list[str]]:
    """Returns the newest version and its files, relative to the table's root, sorted.

    Raises:
        NotFoundError: There is no table.
    """
    table = open_version(path)
    return table.version, sorted(table.files())


def open_version(path: str) -> DeltaVersion:
    """Loads the newest version of a table.

    Args:
        path: Root of the table.

    Raises:
        NotFoundError: There is no table.
        DamagedFileError: An entry or a checkpoint of ours in its log is not what was written.
        StorageError: It cannot be loaded.
    """
    return DeltaVersion(path, LogCheck(path).load(lambda: _load(path)))


def _load(path: str) -> DeltaTable:
    try:
        return DeltaTable(path)
    except TableNotFoundError as error:
        raise NotFoundError(f"There is no Delta table at {path}.") from error
    except BaseException as error:
        if not isinstance(error, DeltaError | OSError) and type(error).__name__ != "PanicException":  # Rust's
            raise
        raise StorageError(
            f"The Delta table {path} cannot be loaded: {error}.", action="Check the table's _delta_log."
        ) from error


def _spelled(kind: Any) -> Any:
    return None if kind is None else kind.to_json().strip('"')


def _failed(path: str, what: str, error: Exception) -> StorageError:
    return StorageError(
        f"The Delta table {path} was not {what}, or the answer was lost: {error}.",
        action="Check disk, permissions and credentials; trying again is safe.",
    )


def check_files(path: str, adds: Sequence[DeltaFile]) -> None:
    """Checks files that are about to be added, on local disks.

    A commit that names a missing file makes the whole table unreadable, and delta-rs does not check.

    Raises:
        MissingFileError: One is gone.
        DamagedFileError: One has another length.
    """
    root = delta_durable.local_root(path)
    if root is None:
        return
    for add in adds:
        file = root / unquote(add.path)
        if not file.is_file():
            raise MissingFileError(f"{file} was to be added to {path}, but is gone.", action="Run the epoch again.")
        if file.stat().st_size != add.size:
            raise DamagedFileError(f"{file} has {file.stat().st_size} bytes, expected {add.size}.")


def _hooks(path: str) -> PostCommitHookProperties:
    """Returns what delta-rs does after a commit: checkpoints, which make loading cheap, but no cleaning of the log.

    On local disks `_make_durable` writes the checkpoints instead, durably.
    """
    is_local = delta_durable.local_root(path) is not None
    return PostCommitHookProperties(create_checkpoint=not is_local, cleanup_expired_logs=False)


def _checkpoint_interval(table: DeltaTable) -> int:
    wanted = table.metadata().configuration.get("delta.checkpointInterval", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else _CHECKPOINT_INTERVAL


def _make_durable(path: str, table: DeltaTable | None = None, committed: int = 0) -> None:
    """Makes a local table's log durable: all of it, or what a handle has committed, with a checkpoint if one is due.

    Raises:
        StorageError: It is unknown whether it is durable; committing again makes sure.
    """
    try:
        if table is None:
            delta_durable.sync_log(path)
            return
        delta_durable.sync_commit(path, committed)
        if delta_durable.local_root(path) is not None and (committed + 1) % _checkpoint_interval(table) == 0:
            delta_durable.write_checkpoint(path, committed)
    except (DeltaError, OSError) as error:
        raise _failed(path, "made durable", error) from error


__all__ = [
    "CONFLICTS",
    "SINK_TABLE_PROPERTIES",
    "STATE_TABLE_PROPERTIES",
    "DeltaFile",
    "DeltaOpener",
    "DeltaVersion",
    "OtherColumn",
    "append_files",
    "check_files",
    "create_table",
    "ensure_table",
    "live_files",
    "open_version",
    "other_columns",
    "prepare_schema",
    "table_version",
    "transaction_version",
    "version_and_files",
]
