"""Finds what dead processes left of savepoints: complete ones that no row lists, and tables in other folders."""

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
"""A savepoint that is younger may still get its row."""


class Unlisted(NamedTuple):
    """A complete savepoint without a row: it can be restored and disposed of by its id, and keeps its files.

    Attributes:
        savepoint_id: Its id.
        kind: `native` or `canonical`.
        bytes: Size of all files that it keeps; several savepoints may keep the same ones.
        directory: The directory with it, or with a note of it, if not below the job's root.
    """

    savepoint_id: str
    kind: str
    bytes: int
    directory: str | None


class Abandoned(NamedTuple):
    """Files that a dead writer of a canonical savepoint left in a folder outside of the job's root.

    Attributes:
        savepoint_id: The id that the savepoint was to have.
        directory: The folder.
        files: Number of files there.
        bytes: Their size.
    """

    savepoint_id: str
    directory: str
    files: int
    bytes: int


def find_unlisted(
    storage: CheckpointStorage, folders: Mapping[str, Sequence[str]], listed: Collection[str], now_ms: int
) -> tuple[Unlisted, ...]:
    """Finds complete savepoints that no row lists.

    Args:
        storage: Of the job.
        folders: Id of each savepoint that has files, to their paths.
        listed: Ids of savepoints that have rows.
        now_ms: The present.
    """
    unlisted = []
    for name in sorted(folders.keys() - set(listed)):
        savepoint = None
        with suppress(NotFoundError, CorruptionError):  # what is damaged is no complete savepoint
            savepoint = _complete(storage, name, folders[name])
        if savepoint is not None and savepoint.created_at + SETTLED_MS <= now_ms:
            unlisted.append(Unlisted(name, savepoint.kind, savepoint.bytes, savepoint.directory))
    return tuple(unlisted)


def left_elsewhere(pin: Pin) -> Abandoned | None:
    """Returns what the writer of a canonical savepoint left in another folder.

    None if the savepoint is finished, or the folder is not its own. None also if the folder cannot be reached: then its
    content is not known.
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
    """Removes what a dead writer left in another folder; the next retention deletes its pin, which names the folder.

    Returns:
        Whether files were still there, and were removed.

    Raises:
        StorageError: Not all of them could be removed; calling again continues.
    """
    path = pin_path(abandoned.savepoint_id)
    try:
        leftover = left_elsewhere(decode_pin(storage.get(path), path=path).pin)
    except NotFoundError:
        return False
    if leftover is None or leftover.directory != abandoned.directory:
        return False
    folder = open_root(leftover.directory)
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
