"""A sink's table in memory, with a log like Delta's: versions, files, application transactions, conflicts.

It implements `state_engine.storage.table_log.OutputTable`, so `TableSink` uses it as it uses Delta. A commit names the
version on which it was decided, and takes effect only as the next version. This also holds for a commit that arrives
late.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from state_engine.errors import AlreadyExistsError, DamagedFileError, MissingFileError, NotFoundError
from state_engine.log.records import OutputFile
from state_engine.storage.delta_append import Appender, AppendVersion
from state_engine.storage.delta_digests import HINT, LOG
from state_engine.storage.port import Data
from state_engine.storage.table_log import Commit, CommitConflictError, DeltaFile, Obstacle

Rows = tuple[tuple[int, str, int], ...]
ResultT = TypeVar("ResultT")


class LoggedVersion(NamedTuple):
    """The contents of one version of the table."""

    files: frozenset[str]
    transactions: Mapping[str, int]
    altered: bool = False  # whether its owner changed it so that finished files do not fit it
    entry: bytes = b""  # its entry in the log, if an appending writer of ours made it


def _at_once(name: str, effect: Callable[[], ResultT]) -> ResultT:
    return effect()


@dataclass
class SimulatedTable:
    """A table, and the files in its folder.

    Attributes:
        path: Its name in messages.
        versions: Its log; empty before the table is created.
        rows: The rows of each file in its folder, in whatever version.
        call: Makes each call of a writer (`open`, `commit`); a simulator may delay it or let it fail.
        spoilt: Whether an application added files that do not fit it.
    """

    path: str = "memory://table"
    versions: list[LoggedVersion] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    call: Callable[[str, Callable[[], object]], object] = _at_once
    spoilt: bool = False

    def open_to_append(self, app_ids: Sequence[str]) -> AppendVersion:
        """Loads it each time; `AppendingTable` is what a sink of production has."""
        return AppendingTable(self).open_to_append(app_ids)

    def open(self) -> "SimulatedVersion":
        version = self.call("open", self._opened)
        assert isinstance(version, SimulatedVersion)
        return version

    def _opened(self) -> "SimulatedVersion":
        if not self.versions:
            raise NotFoundError(f"There is no table at {self.path}.")
        return SimulatedVersion(self, len(self.versions) - 1, self.versions[-1])

    def create(self) -> None:
        if not self.versions:
            self.versions.append(LoggedVersion(frozenset(), {}))

    def exists(self, path: str) -> bool:
        return path in self.rows

    def check_files(self, added: Sequence[DeltaFile]) -> None:
        for add in added:
            if add.path not in self.rows:
                raise MissingFileError(f"{add.path} was to be added to {self.path}, but is gone.")
            if len(self.rows[add.path]) != add.rows:
                raise DamagedFileError(f"{add.path} has {len(self.rows[add.path])} rows, expected {add.rows}.")

    def verify(self, files: Sequence[OutputFile]) -> None:
        self.check_files([DeltaFile(file.path, file.length, file.rows) for file in files])

    def write_file(self, path: str, rows: Rows) -> None:
        """Stages a file in the table's folder.

        Raises:
            AlreadyExistsError: A file of this name exists.
        """
        if path in self.rows:
            raise AlreadyExistsError(f"There is a file {path} in {self.path} already.")
        self.rows[path] = rows

    def append(self, path: str, rows: Rows) -> None:
        """Adds a file, as another application does."""
        self.write_file(path, rows)
        self._log(self.versions[-1].files | {path}, self.versions[-1].transactions)

    def rewrite(self, path: str, replaced: Sequence[str]) -> None:
        """Replaces several files by one with the same rows, as another application's OPTIMIZE does."""
        self.write_file(path, tuple(row for file in replaced for row in self.rows[file]))
        self._log(self.versions[-1].files - set(replaced) | {path}, self.versions[-1].transactions)

    @property
    def live(self) -> list[tuple[int, str, int]]:
        """The rows of the newest version, sorted; none without a table."""
        files = self.versions[-1].files if self.versions else frozenset()
        return sorted(row for file in files for row in self.rows[file])

    def commit_on(self, version: int, commit: Commit, entry: bytes = b"") -> None:
        """Creates the version after `version`.

        Raises:
            CommitConflictError: This version already exists.
        """
        if len(self.versions) != version + 1:
            raise CommitConflictError(f"version {version + 1} of {self.path} was committed by another process")
        before = self.versions[version]
        self.spoilt |= before.altered and bool(commit.added)
        files = before.files - set(commit.removed) | {add.path for add in commit.added}
        self._log(files, {**before.transactions, commit.app_id: commit.version, **commit.marks}, entry)

    def alter(self, *, altered: bool) -> None:
        """Changes the table, as its owner does, so that finished files do not fit it, or changes it back."""
        if self.versions and self.versions[-1].altered != altered:
            self.versions.append(self.versions[-1]._replace(altered=altered, entry=b""))

    def _log(self, files: frozenset[str], transactions: Mapping[str, int], entry: bytes = b"") -> None:
        altered = bool(self.versions) and self.versions[-1].altered
        self.versions.append(LoggedVersion(files, transactions, altered, entry))


@dataclass
class SimulatedVersion:
    """One version of a table; it does not change."""

    table: SimulatedTable
    version: int
    held: LoggedVersion

    def files(self) -> frozenset[str]:
        return self.held.files

    def transaction_version(self, app_id: str) -> int | None:
        return self.held.transactions.get(app_id)

    def other_columns(self) -> list[str]:
        return []

    def obstacles(self) -> list[Obstacle]:
        return [Obstacle("it was altered", "alter it back")] if self.held.altered else []

    def commit(self, commit: Commit) -> None:
        self.table.call("commit", lambda: self.table.commit_on(self.version, commit))

    def make_durable(self) -> None:
        """Does nothing: memory is the durable storage of this table."""

    def note_conflict(self) -> None:
        """Does nothing: there is no pause, and no work to save."""


class AppendingTable:
    """The table as one sink of one process has it: with what production's `Appender` knows of its last commit.

    Args:
        table: The table, which all processes share.
    """

    def __init__(self, table: SimulatedTable) -> None:
        self._table = table
        self.path, self.open, self.create = table.path, table.open, table.create
        self.check_files, self.verify = table.check_files, table.verify
        self.open_to_append = Appender(table.path, self, table.open).open

    def get(self, path: str) -> bytes:
        """Returns an entry of the table's log."""
        if path == f"{LOG}/{HINT}":
            raise NotFoundError(f"{self.path} has no checkpoints of its log.")
        entry = self._table.call("get", lambda: self._entry(_number(path)))
        assert isinstance(entry, bytes)
        return entry

    def exists(self, path: str) -> bool:
        """Returns whether a file is in the table's folder, or an entry in its log."""
        if not path.startswith(LOG):
            return self._table.exists(path)
        return self._table.call("get", lambda: _number(path) < len(self._table.versions)) is True

    def _entry(self, version: int) -> bytes:
        if version >= len(self._table.versions):
            raise NotFoundError(f"There is no version {version} of {self.path}.")
        return self._table.versions[version].entry

    def put_if_absent(self, path: str, data: Data) -> None:
        """Makes a version from its entry; raises `AlreadyExistsError` if there is one of this number."""
        entry = bytes(data)
        self._table.call("commit", lambda: self._put(_number(path), entry))

    def _put(self, version: int, entry: bytes) -> None:
        try:
            self._table.commit_on(version - 1, _commit_of(entry), entry)
        except CommitConflictError as error:
            raise AlreadyExistsError(str(error)) from error


def _number(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".json"))


def _commit_of(entry: bytes) -> Commit:
    """Returns the commit that an entry of Delta's log describes."""
    actions = [action for line in entry.splitlines() for action in json.loads(line).items()]
    adds = [of for kind, of in actions if kind == "add"]
    added = [DeltaFile(of["path"], of["size"], json.loads(of["stats"])["numRecords"]) for of in adds]
    (app_id, version), *marks = [(of["appId"], of["version"]) for kind, of in actions if kind == "txn"]
    return Commit(app_id, version, added=added, marks=dict(marks))


__all__ = ["AppendingTable", "LoggedVersion", "Rows", "SimulatedTable", "SimulatedVersion"]
