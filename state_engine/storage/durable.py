"""Makes names and contents on local disks survive a power cut: contents before their name, the folder after it."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from state_engine.storage.port import Data

TEMPORARY = ".tmp-"
"""Prefix of the names of temporary files, which get another name when they are durable. They are never listed."""

_PIECE = 8 << 20  # bytes of one write
_durable: set[tuple[str, int]] = set()
"""Path and inode of the folders whose names this process has made durable."""


def sync(path: str) -> None:
    """Makes a file, or the names in a folder, durable.

    Raises:
        OSError: It is unknown whether they are durable.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: str, root: str) -> None:
    """Makes a folder and those above it, and makes their names durable from the outermost to the innermost.

    The process that made an existing folder may have died before the folder's name was durable. So each process makes
    the names from `root` on durable once, also those of existing folders.

    Args:
        folder: An absolute path: `root`, or below it.
        root: The outermost folder that belongs to this program.

    Raises:
        OSError: It does not exist, or it is unknown whether it is durable.
    """
    names: list[str] = []
    while _inode(folder) is None or (len(folder) >= len(root) and (folder, _inode(folder)) not in _durable):
        names.append(folder)
        if folder == (folder := os.path.dirname(folder)):
            break
    for name in reversed(names):
        is_new = _inode(name) is None
        if is_new:
            _make(name)
        try:
            sync(os.path.dirname(name))
        except PermissionError:
            if is_new or name != root:
                raise  # a folder above the root may be closed to this user
        _durable.add((name, os.stat(name).st_ino))


def _inode(folder: str) -> int | None:
    try:
        return os.stat(folder).st_ino
    except FileNotFoundError:
        return None


def _make(folder: str) -> None:
    try:
        os.mkdir(folder)
    except FileExistsError:  # another process was first
        if not os.path.isdir(folder):
            raise NotADirectoryError(f"{folder} is no folder") from None


def create(full: str, mode: int = 0o644) -> int:
    """Creates a file exclusively and returns its descriptor, for writing."""
    return os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def write_all(descriptor: int, data: Data) -> None:
    """Writes all bytes, even if the system takes only some of them at once."""
    view = memoryview(data).cast("B")
    while view:
        written = os.write(descriptor, view[:_PIECE])
        if written == _PIECE:
            _begin_to_store(descriptor, written)
        view = view[written:]


def _begin_to_store(descriptor: int, written: int) -> None:
    """Lets the disk begin with the last bytes, while more are written: the fsync then waits two thirds of the time.

    Linux begins to write pages out when it is told that they are not needed; while they are being written they stay in
    the cache.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # only advice
            end = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.posix_fadvise(descriptor, end - written, written, os.POSIX_FADV_DONTNEED)


@contextmanager
def written(full: str, *buffers: Data, is_temporary: bool = False, mode: int = 0o644) -> Iterator[None]:
    """Creates a file exclusively with durable content; a temporary one is locked, and removed after the block.

    Raises:
        FileExistsError: The name is taken.
        OSError: It is unknown how much of it is durable.
    """
    descriptor = create(full, mode)
    try:
        if is_temporary:
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for buffer in buffers:
            write_all(descriptor, buffer)
        os.fsync(descriptor)
        yield
    finally:
        if is_temporary:
            with suppress(OSError):
                os.unlink(full)
        os.close(descriptor)


def replace(path: str, data: Data, mode: int = 0o644) -> None:
    """Replaces a file by a new one, durably: the name always has the whole of the old file or of the new one.

    Raises:
        OSError: It is unknown which of them.
    """
    folder = os.path.dirname(path)
    draft = os.path.join(folder, TEMPORARY + secrets.token_hex(8))
    with written(draft, data, is_temporary=True, mode=mode):
        os.replace(draft, path)
        sync(folder)


def has_writer(temporary: str) -> bool:
    """Returns whether a process may be writing a temporary file; True also if the lock cannot be tested."""
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # its writer has just removed it
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


__all__ = ["TEMPORARY", "create", "has_writer", "make_folder", "replace", "sync", "write_all", "written"]
