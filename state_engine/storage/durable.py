"""Making names and contents on local disks survive a power cut: contents before their name, the folder after it."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from state_engine.storage.port import Data

TEMPORARY = ".tmp-"
"""What the names of files begin with that get another name when they are durable. Nobody lists them."""

_PIECE = 8 << 20  # bytes that are written at once
_durable: set[tuple[str, int]] = set()
"""Path and inode of the folders whose names this process has made durable."""


def sync(path: str) -> None:
    """Makes a file, or the names in a folder, durable.

    Raises:
        OSError: Nobody knows whether they are.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: str, root: str) -> None:
    """Makes a folder and those above it, and makes their names durable from the outermost to the innermost.

    Whoever made a folder that is there may have died before its name was durable. So each process makes the names from
    `root` on durable once, also of folders that it finds.

    Args:
        folder: An absolute path: `root`, or below it.
        root: The outermost folder that is this program's own.

    Raises:
        OSError: It is not there, or nobody knows whether it is durable.
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
    except FileExistsError:  # somebody else was first
        if not os.path.isdir(folder):
            raise NotADirectoryError(f"{folder} is no folder") from None


def create(full: str, mode: int = 0o644) -> int:
    """Creates a file exclusively and returns its descriptor, for writing."""
    return os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def write_all(descriptor: int, data: Data) -> None:
    """Writes all bytes, however few the system takes at once."""
    view = memoryview(data).cast("B")
    while view:
        written = os.write(descriptor, view[:_PIECE])
        if written == _PIECE:
            _begin_to_store(descriptor, written)
        view = view[written:]


def _begin_to_store(descriptor: int, written: int) -> None:
    """Lets the disk begin with the last bytes, while more are written: the fsync then waits two thirds of the time.

    Linux begins to write pages out when it is told that nobody needs them; being written they stay in the cache.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # only advice
            end = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.posix_fadvise(descriptor, end - written, written, os.POSIX_FADV_DONTNEED)


@contextmanager
def written(full: str, *buffers: Data, is_temporary: bool = False, mode: int = 0o644) -> Iterator[None]:
    """Creates a file exclusively with durable content; a temporary one is locked, and gone after the block.

    Raises:
        FileExistsError: The name is taken.
        OSError: Nobody knows what is durable of it.
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
    """Puts a new file in the place of another, durably: the name has the whole of the one or of the other.

    Raises:
        OSError: Nobody knows which.
    """
    folder = os.path.dirname(path)
    draft = os.path.join(folder, TEMPORARY + secrets.token_hex(8))
    with written(draft, data, is_temporary=True, mode=mode):
        os.replace(draft, path)
        sync(folder)


def has_writer(temporary: str) -> bool:
    """Returns whether a process may be writing a temporary file; also where locks do not tell."""
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
