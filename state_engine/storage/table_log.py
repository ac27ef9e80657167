"""Commits that take effect once, on tables with a log of versions and application transactions, such as Delta's.

Each commit is made on one version of the table and takes effect only if no other writer has committed since. So
everything that a writer reads from that version (the application's last transaction, the files) is still true at the
moment of its commit. After a conflict the writer opens the table again and decides again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from state_engine.errors import FencedError, StorageError
from state_engine.log.records import OutputFile

CONFLICTS = 50


class DeltaFile(NamedTuple):
    """A durable Parquet file to add. `path` is relative to the table's root, `statistics` Delta's JSON."""

    path: str
    size: int
    rows: int
    statistics: str = ""
    modified_ms: int = 0
    partition_values: Mapping[str, str | None] = {}

    def statistics_json(self) -> str:
        """Returns the statistics, which give at least the number of rows."""
        return self.statistics or f'{{"numRecords":{self.rows}}}'


class Obstacle(NamedTuple):
    """A reason why finished files cannot be added to a table, or be removed from it again, and what would help."""

    what: str
    remedy: str


class Commit(NamedTuple):
    """One transaction.

    Attributes:
        app_id: The application.
        version: The application's transaction; it grows with each commit of the application.
        removed: Paths of files to remove, relative to the table's root. Their bytes stay.
        added: Files to add; they are durable.
        now_ms: Time of removal, in ms since the epoch.
        info: JSON values for the commit's `commitInfo`.
        marks: Further application transactions, by application.
    """

    app_id: str
    version: int
    removed: Sequence[str] = ()
    added: Sequence[DeltaFile] = ()
    now_ms: int = 0
    info: Mapping[str, Any] = {}
    marks: Mapping[str, int] = {}


class CommitConflictError(Exception):
    """Another writer has committed since this version of the table was opened; `commit_once` decides again."""


class TableHead(Protocol):
    """The newest version of a table, for a writer that adds files."""

    @property
    def version(self) -> int:
        """The number of this version."""
        ...

    def transaction_version(self, app_id: str) -> int | None:
        """Returns the last transaction of an application, None if the application has never committed."""
        ...

    def other_columns(self) -> Sequence[str]:
        """Describes each column of the output that the table lacks or has with another type."""
        ...

    def obstacles(self) -> Sequence[Obstacle]:
        """Returns the reasons why finished files cannot be added to it or removed again."""
        ...

    def commit(self, commit: Commit) -> None:
        """Makes the next version and makes it durable.

        Raises:
            CommitConflictError: Another writer made the next version; nothing was committed.
            StorageError: It is unknown whether it was committed.
        """
        ...

    def make_durable(self) -> None:
        """Makes this version durable: the process that committed it may have died before it did so."""
        ...


class TableVersion(TableHead, Protocol):
    """One version of a table."""

    def files(self) -> Collection[str]:
        """Returns the paths of its files, relative to the table's root."""
        ...

    def note_conflict(self) -> None:
        """Notes that another writer has made the next version; it may be opened with less work, or after a pause."""
        ...


class OutputTable(Protocol):
    """The table of one sink, wherever it is stored. It may not exist yet."""

    @property
    def path(self) -> str:
        """Where the table is, for messages."""
        ...

    def open(self) -> TableVersion:
        """Opens the newest version.

        Raises:
            NotFoundError: The table does not exist.
            StorageError: It cannot be read.
        """
        ...

    def open_to_append(self, app_ids: Sequence[str]) -> TableHead:
        """Opens the newest version to add files to it; does not load it if this very object has committed it.

        Args:
            app_ids: Applications whose last transactions the caller will ask for.

        Raises:
            NotFoundError: The table does not exist.
            StorageError: It cannot be read.
        """
        ...

    def create(self) -> None:
        """Creates the table unless it exists.

        Raises:
            StorageError: It was not created, or has other columns; trying again is safe.
        """
        ...

    def exists(self, path: str) -> bool:
        """Returns whether a file is in the table's folder, whichever version it belongs to."""
        ...

    def check_files(self, added: Sequence[DeltaFile]) -> None:
        """Checks files that are about to be added.

        Raises:
            MissingFileError: One is gone.
            DamagedFileError: One has another length.
            SinkError: One was staged for other partitions than the table has.
        """
        ...

    def verify(self, files: Sequence[OutputFile]) -> None:
        """Reads files and compares them with the checksums of when they were staged.

        Raises:
            MissingFileError: One is gone.
            DamagedFileError: One is not what was staged.
        """
        ...


class Fence(NamedTuple):
    """A transaction in the same commit, of an application that several writers share: none goes back before it."""

    app_id: str
    version: int

    def check(self, passed: int | None, path: str) -> None:
        """Compares it with the application's last transaction in a table.

        Raises:
            FencedError: The last transaction is a later one.
        """
        if passed is not None and passed > self.version:
            raise FencedError(
                f"{path} is at {passed} of {self.app_id!r}: a commit of {self.version} comes too late.",
                action="Nothing; the job went on without it.",
            )


VersionT = TypeVar("VersionT", bound=TableHead)


def commit_once(
    path: str,
    open_table: Callable[[], VersionT],
    app_id: str,
    version: int,
    commit: Callable[[VersionT], None],
    fence: Fence | None = None,
) -> int:
    """Commits once for (app_id, version), also while other writers commit.

    Does nothing if the table holds this transaction of the application or a later one.

    Args:
        path: Where the table is, for messages.
        open_table: Opens its newest version.
        app_id: The application.
        version: The application's transaction.
        commit: Decides on the version that it is given, and commits to that very version.
        fence: Nothing is committed if its application has a later transaction.

    Returns:
        The table's version that this commit made; if it had taken effect before, the newest one.

    Raises:
        FencedError: The fence was passed.
        StorageError: There were too many conflicts, or what `open_table` and `commit` raise.
    """
    conflict: CommitConflictError | None = None
    for _ in range(CONFLICTS):
        table = open_table()
        done = table.transaction_version(app_id)
        if done is not None and done >= version:
            table.make_durable()
            return table.version
        if fence is not None:
            fence.check(table.transaction_version(fence.app_id), path)
        try:
            commit(table)
        except CommitConflictError as error:
            conflict = error
            continue
        return table.version + 1
    raise StorageError(
        f"{CONFLICTS} commits to {path} were refused because other writers committed at the same time.",
        action="Find out which other program writes to this table; the next start tries the commit again.",
    ) from conflict


__all__ = [
    "CONFLICTS",
    "Commit",
    "CommitConflictError",
    "DeltaFile",
    "Fence",
    "Obstacle",
    "OutputTable",
    "TableHead",
    "TableVersion",
    "commit_once",
]
