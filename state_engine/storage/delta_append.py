"""Appends finished files to a Delta table: loads it once, and again only after another writer's commit.

A writer knows what the table holds after its own commit. As long as the table's log has a beginning, this writer's
newest entry is in it, no checkpoint is later, and the next number is free, no other writer has committed: neither the
columns nor the protocol nor the application's transaction can have changed. So the next entry is put under the next
number, without loading the table. Otherwise the table is loaded, as if nothing was known
(docs/adr/0038-appends-without-loading.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from state_engine.errors import AlreadyExistsError, NotFoundError
from state_engine.storage.delta_digests import HINT, INFO, LOG, Hint, digest_of
from state_engine.storage.port import Data
from state_engine.storage.table_log import Commit, CommitConflictError, DeltaFile, Obstacle, TableVersion
from state_engine.text import UNDECODABLE


class EntryLog(Protocol):
    """The folder of a table: its log's entries. A part of `CheckpointStorage`, with its guarantees and errors."""

    def get(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def put_if_absent(self, path: str, data: Data) -> None: ...


class Known(NamedTuple):
    """What is known of a table's newest version.

    Attributes:
        version: Its number.
        transactions: The last transactions of the applications that the writer asks for; None if there is none.
        other_columns: As `TableHead.other_columns`.
        obstacles: As `TableHead.obstacles`.
        entry: The version's entry in the log, if the writer made it.
    """

    version: int
    transactions: Mapping[str, int | None]
    other_columns: Sequence[str]
    obstacles: Sequence[Obstacle]
    entry: bytes | None = None


class Appender:
    """Opens one table again and again, to append to it. Not for several threads at once.

    Args:
        path: Root of the table, for messages.
        log: The table's folder.
        load: Loads the newest version.
        made: Called with the number of each version that was made.
    """

    def __init__(
        self, path: str, log: EntryLog, load: Callable[[], TableVersion], made: Callable[[int], None] = lambda _: None
    ) -> None:
        self._path = path
        self._log = log
        self._load = load
        self._made = made
        self._kept: Known | None = None

    def open(self, app_ids: Sequence[str]) -> "AppendVersion":
        """Returns the newest version; loads it unless this writer has made it.

        Args:
            app_ids: Applications whose last transactions the caller will ask for.

        Raises:
            NotFoundError: The table does not exist.
            StorageError: It cannot be read.
        """
        kept = self._kept
        if kept is not None and kept.transactions.keys() >= set(app_ids) and self._is_there(kept):
            return AppendVersion(self._path, self._log, kept, self._learn)
        table = self._load()
        transactions = {app_id: table.transaction_version(app_id) for app_id in app_ids}
        known = Known(table.version, transactions, table.other_columns(), table.obstacles())
        return AppendVersion(self._path, self._log, known, self._learn, table)

    def _is_there(self, kept: Known) -> bool:
        """Returns whether this writer's entry is still the newest that can be.

        The table may have been removed, even while the entry was put, and made anew. Other writers may have committed,
        made a checkpoint and removed the entries before it: then the next number is free again.
        """
        try:
            hint = msgspec.json.decode(self._log.get(f"{LOG}/{HINT}"), type=Hint).version
            has_beginning = hint <= kept.version
        except (NotFoundError, *UNDECODABLE):
            has_beginning = self._log.exists(name_of(0))
        try:
            return has_beginning and self._log.get(name_of(kept.version)) == kept.entry
        except NotFoundError:
            return False

    def _learn(self, made: Known | None) -> None:
        self._kept = made
        if made is not None:
            self._made(made.version)


class AppendVersion:
    """The newest version of a table, and a commit that takes effect only on top of it.

    Args:
        path: Root of the table, for messages.
        log: The table's folder.
        known: What is known of the version.
        learn: Called with None before a commit, and with what is known of the next version after it.
        loaded: The same version as it was loaded; None if this writer has made it.
    """

    def __init__(
        self,
        path: str,
        log: EntryLog,
        known: Known,
        learn: Callable[[Known | None], None],
        loaded: TableVersion | None = None,
    ) -> None:
        self._path, self._log = path, log
        self._known = known
        self._learn = learn
        self._loaded = loaded

    @property
    def version(self) -> int:
        return self._known.version

    def transaction_version(self, app_id: str) -> int | None:
        return self._known.transactions[app_id]

    def other_columns(self) -> Sequence[str]:
        return self._known.other_columns

    def obstacles(self) -> Sequence[Obstacle]:
        return self._known.obstacles

    def commit(self, commit: Commit) -> None:
        assert not commit.removed, "a version that is opened to append to it removes nothing"
        version, entry = self.version + 1, entry_of(commit)
        name = name_of(version)
        self._learn(None)  # if the put fails or is not answered, the table is loaded
        try:
            self._log.put_if_absent(name, entry)
        except AlreadyExistsError as error:
            if not self._is_ours(name, entry):
                if self._loaded is not None:
                    self._loaded.note_conflict()
                conflict = f"version {version} of {self._path} was committed by another writer"
                raise CommitConflictError(conflict) from error
        transactions = {**self._known.transactions, commit.app_id: commit.version, **commit.marks}
        self._learn(self._known._replace(version=version, transactions=transactions, entry=entry))

    def _is_ours(self, name: str, entry: bytes) -> bool:
        """Returns whether a name is taken by the very entry: obstore may have repeated a put that had succeeded."""
        try:
            return self._log.get(name) == entry
        except NotFoundError:  # a store refuses one of two puts at the same time, and the other one may fail
            return False

    def make_durable(self) -> None:
        if self._loaded is not None:  # what this writer has put is durable
            self._loaded.make_durable()


def name_of(version: int) -> str:
    """Returns the path of a version's entry, relative to the table's root."""
    return f"{LOG}/{version:020d}.json"


def entry_of(commit: Commit) -> bytes:
    """Returns the entry of the log for a commit that adds files: actions of Delta's protocol, a line of JSON each."""
    added = [file._replace(statistics=file.statistics_json()) for file in commit.added]
    transactions = {commit.app_id: commit.version, **commit.marks}
    info = {
        "timestamp": commit.now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": msgspec.json.encode(_columns(commit)).decode()},
        **commit.info,
        INFO: digest_of(added, (), transactions),
    }
    # Without `lastUpdated`, as delta-rs writes them: a transaction with it may expire, and with it the fence.
    txns = [{"appId": app, "version": last} for app, last in transactions.items()]
    actions = [{"commitInfo": info}, *({"txn": txn} for txn in txns), *({"add": _add_action(file)} for file in added)]
    return b"\n".join(map(msgspec.json.encode, actions))


def _columns(commit: Commit) -> list[str]:
    return list(commit.added[0].partition_values) if commit.added else []


def _add_action(file: DeltaFile) -> Mapping[str, object]:
    return {
        "path": quote(file.path, safe="/="),
        "partitionValues": dict(file.partition_values),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": file.statistics,
    }


__all__ = ["AppendVersion", "Appender", "EntryLog", "Known", "entry_of", "name_of"]
