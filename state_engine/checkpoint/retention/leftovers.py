"""What processes left of savepoints that died on the way: complete ones that no row lists, tables in other folders."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from state_engine.errors import CorruptionError, NotFoundError, StorageError
from state_engine.log.documents import decode_pin, decode_savepoint
from state_engine.log.paths import METADATA, elsewhere_path, metadata_path, pin_path
from state_engine.log.records import Pin
from state_engine.log.savepoints import Savepoint
from state_engine.storage.open import open_root
from state_engine.storage.port import CheckpointStorage

SETTLED_MS = 600_000
"""A savepoint that is younger may still be on its way into the list."""


class Unlisted(NamedTuple):
    """A complete savepoint without a row: it can be restored and disposed of by its id, and keeps what it holds.

    Attributes:
        savepoint_id: Its id.
        kind: `native` or `canonical`.
        bytes: Of all files that it holds; several savepoints may hold the same ones.
        directory: Where it lies or is noted, if not below the job's root.
    """

    savepoint_id: str
    kind: str
    bytes: int
    directory: str | None


class Abandoned(NamedTuple):
    """What is left, in a folder outside of the job's root, of a canonical savepoint whose writer died.

    Attributes:
        savepoint_id: The id that it was to have.
        directory: The folder.
        files: How many files lie there.
        bytes: Of these.
    """

    savepoint_id: str
    directory: str
    files: int
    bytes: int


def find_unlisted(
    storage: CheckpointStorage, folders: Mapping[str, Sequence[str]], listed: Collection[str], now_ms: int
) -> tuple[Unlisted, ...]:
    """Finds complete savepoints that nobody lists.

    Args:
        storage: Of the job.
        folders: Id of each savepoint that there are files of, to their paths.
        listed: Ids of savepoints that have rows.
        now_ms: The present.
    """
    found = []
    for name in sorted(folders.keys() - set(listed)):
        savepoint = None
        with suppress(NotFoundError, CorruptionError):  # what is damaged is no complete savepoint
            savepoint = _complete(storage, name, folders[name])
        if savepoint is not None and savepoint.created_at + SETTLED_MS <= now_ms:
            found.append(Unlisted(name, savepoint.kind, savepoint.bytes, savepoint.directory))
    return tuple(found)


def left_elsewhere(pin: Pin) -> Abandoned | None:
    """Returns what the writer of a canonical savepoint left in another folder; None if that is finished, or not ours.

    Nobody can tell of a folder that cannot be reached.
    """
    if not pin.folds or pin.directory is None or pin.directory.rpartition("/")[2] != pin.savepoint_id:
        return None
    try:
        sizes = {info.path: info.size for info in open_root(pin.directory).list("")}
    except StorageError:
        return None
    if not sizes or METADATA in sizes:
        return None
    return Abandoned(pin.savepoint_id, pin.directory, len(sizes), sum(sizes.values()))


def clear_elsewhere(storage: CheckpointStorage, abandoned: Abandoned) -> bool:
    """Removes what a dead writer left in another folder; its pin, which tells of it, goes with the next retention.

    Returns:
        Whether it was still there, and was removed.

    Raises:
        StorageError: Not all of it could be removed; again goes on.
    """
    path = pin_path(abandoned.savepoint_id)
    try:
        found = left_elsewhere(decode_pin(storage.get(path), path=path).pin)
    except NotFoundError:
        return False
    if found is None or found.directory != abandoned.directory:
        return False
    folder = open_root(found.directory)
    for info in folder.list(""):
        folder.delete(info.path)
    return True


def _complete(storage: CheckpointStorage, name: str, own: Sequence[str]) -> Savepoint | None:
    for path in (metadata_path(name), elsewhere_path(name)):
        if path in own:
            return decode_savepoint(storage.get(path), path=path).savepoint
    if pin_path(name) not in own:
        return None
    pin = decode_pin(storage.get(pin_path(name)), path=pin_path(name)).pin
    return None if pin.folds else pin


__all__ = ["SETTLED_MS", "Abandoned", "Unlisted", "clear_elsewhere", "find_unlisted", "left_elsewhere"]
