"""The port through which all durable bytes of a job pass, except the commits of Delta tables."""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from state_engine.errors import JobDefinitionError, StorageError

Data = bytes | bytearray | memoryview | pa.Buffer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class ObjectInfo(NamedTuple):
    """One object of a listing: its path relative to the job's root, length in bytes, time of last change in ms."""

    path: str
    size: int
    modified_ms: int


class ObjectWriter(Protocol):
    """A new object that is written piece by piece. Nothing is guaranteed before `close` returns."""

    def write(self, data: Data) -> None:
        """Adds bytes; the caller may change them afterwards."""
        ...

    def sync(self) -> None:
        """Makes what was written so far as durable as the storage can before the end."""
        ...

    def close(self) -> None:
        """Ends the object; durable on return. Does *not* remove what it wrote when it fails."""
        ...

    def discard(self) -> None:
        """Ends the object and removes it if it can; never raises. Does nothing after a `close` that returned."""
        ...


class ObjectReader(Protocol):
    """Reads immutable objects under the root of one job; paths and errors are those of `CheckpointStorage`."""

    @property
    def url(self) -> str:
        """Where the job's root is; the absolute path on a local disk."""
        ...

    def get(self, path: str) -> bytes:
        """Returns the whole object; `NotFoundError` if it does not exist."""
        ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`; fewer when the object ends before, none when it ends at `offset`."""
        ...


class CheckpointStorage(ObjectReader, Protocol):
    """Immutable objects under the root of one job.

    Paths are relative to the root, separated by `/`, without empty, `.` or `..` segments. An object is written once
    and then only read or deleted: no method replaces bytes. After an error of a put other than `AlreadyExistsError`
    the outcome is unknown; the caller reads back and compares. No method retries, and none takes a lock.

    Errors: `NotFoundError`, `AlreadyExistsError`, `NotWritableError`, and `StorageError` for everything else.
    """

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        """Creates the object from the concatenated buffers; durable on return.

        The name itself is created exclusively: `AlreadyExistsError` if it is taken. A reader may see a part of the
        object while it is written, so the caller must not pass the name on before this returns. Does *not* remove what
        it wrote when it fails.
        """
        ...

    def open_exclusive(self, path: str) -> ObjectWriter:
        """Begins an object that is written piece by piece; otherwise as `put_exclusive`.

        `AlreadyExistsError` is raised at once if the storage can tell, and by `ObjectWriter.close` otherwise.
        """
        ...

    def put_if_absent(self, path: str, data: Data) -> None:
        """Creates the object atomically: all of it or nothing is ever seen under the name; durable on return.

        Of several concurrent calls exactly one returns. The others raise `AlreadyExistsError`, which guarantees that
        the object exists, durably. So after any other error the caller makes the same call again.
        """
        ...

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        """Returns the objects below the folder `prefix` (`""` is the root), sorted by path; none if it is absent.

        Not recursive: only those directly in the folder. Objects that are still being put are not listed.
        """
        ...

    def folders(self, prefix: str) -> Sequence[str]:
        """Returns the sorted names of the folders directly in `prefix`. Empty folders may or may not be listed."""
        ...

    def exists(self, path: str) -> bool:
        """Returns whether an object exists at this path."""
        ...

    def delete(self, path: str) -> None:
        """Removes the object; an absent one is fine. Not necessarily durable on return."""
        ...

    @property
    def deletes_at_once(self) -> int:
        """How many objects one request removes; 1 on a disk."""
        ...

    def delete_together(self, paths: Sequence[str]) -> None:
        """Removes at most `deletes_at_once` objects, as `delete`. After an error some of them may be gone."""
        ...

    def abandoned(self) -> Sequence[ObjectInfo]:
        """Returns what processes that died in a put have left, which `list` never lists; nothing of a live writer.

        If the storage cannot tell which writers live, only age can: the caller that removes these objects checks the
        time of their last change.
        """
        ...

    def check_writable(self) -> None:
        """Creates and removes a small object; `NotWritableError` with a remedy when that fails."""
        ...


def is_name(name: str) -> bool:
    """Returns whether `check_name` accepts a name."""
    return _NAME.fullmatch(name) is not None


def check_name(what: str, name: str) -> str:
    """Returns `name` if it may be used in a path, such as a job's name or an operator's uid.

    Raises:
        JobDefinitionError: it has other characters than letters, digits, `.`, `_`, `-`, begins with a sign, or is
            longer than 128 characters.
    """
    if not is_name(name):
        raise JobDefinitionError(
            f"The {what} {name!r} cannot be used in paths.",
            action="Use 1 to 128 letters, digits, '.', '_' or '-', beginning with a letter or digit.",
        )
    return name


def check_path(path: str) -> str:
    """Returns `path` if it is relative, normal and stays below the root; raises `StorageError` otherwise."""
    segments = path.split("/")
    if any(segment in ("", ".", "..") or "\\" in segment or "\0" in segment for segment in segments):
        raise StorageError(
            f"The path {path!r} is not a normal path below the job's root.",
            action="Use relative paths without '.', '..', backslashes and empty segments.",
        )
    return path


def check_prefix(prefix: str) -> str:
    """Returns the folder `prefix` without a slash at its end; `""` is the root."""
    stripped = prefix[:-1] if prefix.endswith("/") else prefix
    return check_path(stripped) if stripped else ""


__all__ = [
    "CheckpointStorage",
    "Data",
    "ObjectInfo",
    "ObjectWriter",
    "check_name",
    "check_path",
    "check_prefix",
    "is_name",
]
