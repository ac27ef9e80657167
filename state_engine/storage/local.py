"""Checkpoint storage on a local or mounted disk: every put is fsynced, file and directory."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from state_engine.clock import Ids, RandomIds
from state_engine.errors import AlreadyExistsError, NotFoundError, NotWritableError, StorageError
from state_engine.storage.deleting import DeletesOneByOne
from state_engine.storage.durable import TEMPORARY, create, has_writer, make_folder, sync, write_all, written
from state_engine.storage.port import Data, ObjectInfo, ObjectWriter, check_path, check_prefix

_SPACE = {errno.ENOSPC: "The disk is full", errno.EDQUOT: "The disk quota is used up"}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}
_NO_LINKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_NOT_THERE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class LocalStorage(DeletesOneByOne):
    """Objects are files below `root`, an absolute directory that the first put makes.

    `put_if_absent` writes and fsyncs a temporary file, links it under the final name and fsyncs the directory. The file
    system must therefore have hard links. It raises `AlreadyExistsError` only once the existing name is durable, too:
    the process that linked it may have died before that. Temporary files are removed also after an error. Those of a
    killed process begin with `.tmp-`, are not listed, and are `abandoned`: a live writer holds a lock (flock) on its
    own. A final name is never removed on error, because the object may have become durable. Symbolic links inside the
    root are followed.
    """

    def __init__(self, root: str | Path, *, ids: Ids | None = None) -> None:
        self._root = os.path.abspath(root)
        self._ids = ids or RandomIds()

    @property
    def url(self) -> str:
        return self._root

    def get(self, path: str) -> bytes:
        with _reading(path), open(self._full(path), "rb") as file:
            return file.read()

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        with _reading(path), open(self._full(path), "rb", buffering=0) as file:
            file.seek(offset)
            return _read_up_to(file.fileno(), length)

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        full = self._full(path)
        with _writing(path, self._root):
            make_folder(os.path.dirname(full), self._root)
            with written(full, *buffers):
                sync(os.path.dirname(full))

    def open_exclusive(self, path: str) -> ObjectWriter:
        full = self._full(path)
        with _writing(path, self._root):
            make_folder(os.path.dirname(full), self._root)
            return _FileWriter(path, self._root, full)

    def put_if_absent(self, path: str, data: Data) -> None:
        full = self._full(path)
        folder = os.path.dirname(full)
        temporary = os.path.join(folder, TEMPORARY + self._ids.new_id())
        with _writing(path, self._root):
            make_folder(folder, self._root)
            with written(temporary, data, is_temporary=True):
                try:
                    os.link(temporary, full)
                finally:  # also if the name is taken: its writer may have died before it was durable
                    sync(folder)

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        folder = check_prefix(prefix)
        with _reading(prefix):
            return sorted(_walk(os.path.join(self._root, folder), folder, recursive))

    def folders(self, prefix: str) -> Sequence[str]:
        try:
            with _reading(prefix), os.scandir(os.path.join(self._root, check_prefix(prefix))) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except NotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def delete(self, path: str) -> None:
        with _writing(path, self._root), suppress(*_NOT_THERE):
            os.unlink(self._full(path))

    def abandoned(self) -> Sequence[ObjectInfo]:
        with _reading(""):
            hidden = _walk(self._root, "", True, hidden=True)
            return sorted(info for info in hidden if not has_writer(os.path.join(self._root, info.path)))

    def check_writable(self) -> None:
        probe = f"{TEMPORARY}writable-{self._ids.new_id()}"
        try:
            self.put_if_absent(probe, b"lakestate")
        except NotWritableError:
            raise
        except StorageError as error:
            raise NotWritableError(
                f"The state root {self._root} cannot be written: {error.message}",
                action="Point the state root at a directory on a writable disk.",
            ) from error
        finally:
            with suppress(StorageError):
                self.delete(probe)

    def _full(self, path: str) -> str:
        return os.path.join(self._root, check_path(path))


class _FileWriter:
    """A file that was created exclusively and is open."""

    def __init__(self, path: str, root: str, full: str) -> None:
        self._path, self._root, self._full = path, root, full
        self._descriptor: int | None = create(full)

    def write(self, data: Data) -> None:
        with _writing(self._path, self._root):
            write_all(self._open(), data)

    def sync(self) -> None:
        with _writing(self._path, self._root):
            os.fsync(self._open())

    def close(self) -> None:
        with _writing(self._path, self._root):
            os.fsync(self._open())
            sync(os.path.dirname(self._full))
            self._release()

    def discard(self) -> None:
        if self._descriptor is None:
            return
        with suppress(OSError):
            self._release()
        with suppress(OSError):
            os.unlink(self._full)

    def _open(self) -> int:
        if self._descriptor is None:
            raise StorageError(f"{self._path!r} has been closed already.", action="Write a new object.")
        return self._descriptor

    def _release(self) -> None:
        descriptor, self._descriptor = self._open(), None
        os.close(descriptor)


def _read_up_to(descriptor: int, length: int) -> bytes:
    """Reads until `length` bytes or the end of the file; one `read` may return fewer."""
    parts: list[bytes] = []
    while length > 0 and (part := os.read(descriptor, length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _walk(full: str, folder: str, recursive: bool, *, hidden: bool = False) -> Iterator[ObjectInfo]:
    """Yields the objects in a folder, or with `hidden` the temporary files."""
    try:
        entries = list(os.scandir(full))
    except _NOT_THERE:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir():
            if recursive and not entry.name.startswith(TEMPORARY):
                yield from _walk(entry.path, path, recursive, hidden=hidden)
            continue
        if entry.name.startswith(TEMPORARY) != hidden:
            continue
        try:
            status = entry.stat()
        except FileNotFoundError:  # deleted since the directory was read
            continue
        yield ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except _NOT_THERE as error:
        raise NotFoundError(f"There is no object at {path!r}.") from error
    except OSError as error:
        raise StorageError(
            f"{path!r} could not be read: {error}.", action="Check the disk and the permissions of the state root."
        ) from error


@contextmanager
def _writing(path: str, root: str) -> Iterator[None]:
    """Turns the operating system's errors into ours; each says what to do."""
    try:
        yield
    except FileExistsError as error:
        raise AlreadyExistsError(f"There is an object at {path!r} already.") from error
    except OSError as error:
        if error.errno in _SPACE:
            message = f"{_SPACE[error.errno]}: {path!r} below {root} was not written."
            raise NotWritableError(
                message, action="Free space or raise the quota, or lower what retention keeps; then start again."
            ) from error
        if error.errno in _DENIED:
            raise NotWritableError(
                f"{path!r} below {root} was not written: {error}.",
                action="Give this user write permission to the state root, or choose another root.",
            ) from error
        if error.errno in _NO_LINKS:
            raise NotWritableError(
                f"The file system below {root} has no hard links, which an atomic put needs: {error}.",
                action="Choose a root on a POSIX file system or an object store.",
            ) from error
        raise StorageError(
            f"{path!r} could not be written, and may or may not exist: {error}.",
            action="Check the disk of the state root.",
        ) from error


__all__ = ["LocalStorage"]
