"""Adds digests to what we write into the log of a Delta table, and compares them when we read the log.

Delta has no checksum for the entries of its log, nor for its checkpoints. So each commit of ours records the hash of
its actions in its `commitInfo`, and `_last_checkpoint` records the hash of our checkpoint of the log in its `tags`.
Entries and checkpoints of other writers are read as they are.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import msgspec

from state_engine.errors import DamagedFileError, NotFoundError
from state_engine.storage.open import open_root
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.roots import local_path
from state_engine.storage.table_log import DeltaFile
from state_engine.text import UNDECODABLE

LOG = "_delta_log"
HINT = "_last_checkpoint"
INFO = "lakestate.digest"
"""Key in `commitInfo`."""
_TAG = "lakestate.sha256."
_READERS = 16
"""The number of entries that are read at the same time from a log in a bucket."""


class Hint(msgspec.Struct):
    """The fields of `_last_checkpoint` that we read."""

    version: int
    tags: dict[str, str] | None = None

    def digests(self) -> Mapping[str, str]:
        """Returns the SHA-256 of the files of the checkpoint, by name; empty if another program wrote it."""
        tags = self.tags or {}
        return {name.removeprefix(_TAG): digest for name, digest in tags.items() if name.startswith(_TAG)}


def with_digests(hint: bytes, files: Mapping[str, bytes]) -> bytes:
    """Returns the `_last_checkpoint` that names a checkpoint's files, with the digests of these files."""
    fields = msgspec.json.decode(hint)
    tags = {_TAG + name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return msgspec.json.encode({**fields, "tags": {**(fields.get("tags") or {}), **tags}})


def digest_of(added: Sequence[DeltaFile], removed: Sequence[str], transactions: Mapping[str, int]) -> str:
    """Returns the digest of a commit that is about to be made.

    Args:
        added: Files to add.
        removed: Paths of files to remove, relative to the table's root.
        transactions: Application transactions, by application.
    """
    adds = [_added(f.path, f.size, f.modified_ms, dict(f.partition_values), f.statistics) for f in added]
    removes = [_removed(path) for path in removed]
    return _digest([*adds, *removes, *(_transaction(app, version) for app, version in transactions.items())])


def _digest(actions: Sequence[list[Any]]) -> str:
    lines = sorted(json.dumps(action, sort_keys=True) for action in actions)
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _added(path: str, size: int, modified_ms: int, partition: Mapping[str, str | None], statistics: str) -> list[Any]:
    return ["add", path, size, modified_ms, partition, statistics]


def _removed(path: str) -> list[Any]:
    return ["remove", path]


def _transaction(app_id: str, version: int) -> list[Any]:
    return ["txn", app_id, version]


class Loaded(Protocol):
    """A loaded version of a Delta table, as of `deltalake.DeltaTable`."""

    def version(self) -> int: ...

    def transaction_version(self, app_id: str) -> int | None: ...


LoadedT = TypeVar("LoadedT", bound=Loaded)


class LogCheck:
    """Verifies what a reader of a table's newest version reads; each entry and each checkpoint once.

    Args:
        path: Root of the table.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._entries = -1  # the newest version that was compared
        self._checkpoint = -1

    def load(self, load: Callable[[], LoadedT]) -> LoadedT:
        """Loads the table, and verifies what was not verified before.

        Args:
            load: Loads the newest version.

        Raises:
            DamagedFileError: An entry or a checkpoint of ours is not what was written, or the table lacks a transaction
                of ours that its log has.
        """
        log = _Log(self._path)
        hint = log.hint()  # before the table is loaded, so that all entries that it reads are compared
        table = load()
        if hint.version > self._checkpoint:
            log.check_checkpoint(hint)
            self._checkpoint = hint.version
        first = max(self._entries + 1, hint.version)
        for app_id, version in log.check_entries(range(first, table.version() + 1)).items():
            if (table.transaction_version(app_id) or 0) < version:  # a checkpoint of another writer may be damaged
                raise _damaged(self._path, f"The checkpoint's transaction of {app_id!r}")
        self._entries = max(self._entries, table.version())
        return table


class _Log:
    """The log of one table."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._storage: CheckpointStorage = open_root(path)

    def hint(self) -> Hint:
        with suppress(NotFoundError, *UNDECODABLE):  # delta-rs ignores a hint that it cannot read
            return msgspec.json.decode(self._storage.get(f"{LOG}/{HINT}"), type=Hint)
        return Hint(0)

    def check_checkpoint(self, hint: Hint) -> None:
        for name, digest in hint.digests().items():
            with suppress(NotFoundError):  # delta-rs has read an older one, or has raised an error
                if hashlib.sha256(self._storage.get(f"{LOG}/{name}")).hexdigest() != digest:
                    raise _damaged(self._path, name)

    def check_entries(self, versions: range) -> Mapping[str, int]:
        """Verifies those entries that are ours, and returns the last transaction of each application in them."""
        names = [f"{version:020d}.json" for version in versions]
        if len(names) < 2 or local_path(self._path) is not None:
            by_entry = list(map(self._check_entry, names))
        else:
            with ThreadPoolExecutor(_READERS, thread_name_prefix="delta-log") as readers:
                by_entry = list(readers.map(self._check_entry, names))
        return {app_id: version for transactions in by_entry for app_id, version in transactions.items()}

    def _check_entry(self, name: str) -> Mapping[str, int]:
        try:
            entry = self._storage.get(f"{LOG}/{name}")
        except NotFoundError:
            return {}  # cleaned up since: a checkpoint replaces it
        if INFO.encode() not in entry:
            return {}
        try:
            actions = [action for line in entry.splitlines() for action in json.loads(line).items()]
            whole = list(_actions(actions))
            (expected,) = [info[INFO] for kind, info in actions if kind == "commitInfo"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(self._path, name) from error
        if _digest(whole) != expected:
            raise _damaged(self._path, name)
        return {app_id: version for kind, app_id, version in (a for a in whole if a[0] == "txn")}


def _actions(actions: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[list[Any]]:
    """Yields the actions that the digest covers: not `commitInfo`, nor those of a table's creation or a new schema."""
    for kind, of in actions:
        if kind == "add":
            path = unquote(of["path"])  # delta-rs quotes it
            yield _added(path, of["size"], of["modificationTime"], of["partitionValues"], of["stats"])
        elif kind == "remove":
            yield _removed(unquote(of["path"]))
        elif kind == "txn":
            yield _transaction(of["appId"], of["version"])


def _damaged(path: str, name: str) -> DamagedFileError:
    return DamagedFileError(
        f"{name} in the log of the Delta table {path} is not what was written.",
        action="Put the file back from a backup of the table. Without a backup, use Delta's RESTORE to a version "
        "before it, and a savepoint of that time.",
    )


__all__ = ["HINT", "INFO", "LOG", "Hint", "LogCheck", "digest_of", "with_digests"]
