"""Streams for writing the state of a checkpoint, and the handles that they return.

Semantics: Flink's `CheckpointStateOutputStream`, `FsCheckpointStateOutputStream` and `MemCheckpointOutputStream`.

```
write ─► buffer ─┬─ full, or flush above the threshold ─► a new file, opened now ─► close_and_get_handle: file
                 └─ closed with no more than the threshold ───────────────────────► close_and_get_handle: inlined
```
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from state_engine.api.checkpoint_storage import FileSystemCheckpointStorage
from state_engine.clock import Ids
from state_engine.errors import NotWritableError, StateTooLargeError, StorageError
from state_engine.storage.create import ATTEMPTS
from state_engine.storage.port import CheckpointStorage, Data, ObjectWriter

MAX_FILE_STATE_THRESHOLD = FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD


class StreamStateHandle(NamedTuple):
    """What was written: a durable file, or, if `inlined` is set, bytes that the owner of the handle has to store.

    An inlined one has a path too, as a unique name; no file exists at it.
    """

    path: str
    length: int
    inlined: bytes | None = None


class CheckpointStateOutputStream(Protocol):
    """A stream that returns a handle if it is closed as finished, and leaves nothing if it is closed otherwise."""

    def write(self, data: Data) -> int:
        """Adds bytes and returns how many. `StorageError` once it is closed, or if it cannot accept the bytes."""
        ...

    def flush(self) -> None:
        """Writes what is buffered to the file, if it is too much to be inlined anyway."""
        ...

    def sync(self) -> None:
        """Flushes, and makes what the file has durable."""
        ...

    def get_pos(self) -> int:
        """Returns the number of bytes written so far."""
        ...

    def is_closed(self) -> bool:
        """Returns whether it was closed in either way."""
        ...

    def close_and_get_handle(self) -> StreamStateHandle | None:
        """Finishes the stream; its content is durable then, or inlined. None if nothing was ever written.

        Raises:
            StorageError: It was closed before, or could not be finished; nothing remains of it then.
        """
        ...

    def close(self) -> None:
        """Discards the stream and the file that it may have begun; does nothing if it is closed already."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Closing(ABC):
    """Discards a stream that was not finished when the `with` block ends."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FsCheckpointStateOutputStream(_Closing):
    """Writes to a new file, which it opens with the first bytes that do not fit in the buffer.

    Args:
        storage: Where the file is made.
        ids: Make its name.
        name: Makes a path from a new id; up to 10 are tried.
        buffer_size: Bytes that are gathered; at least the threshold.
        local_state_threshold: A content of up to this number of bytes is inlined; at most 1 MiB.

    Raises:
        ValueError: The sizes do not fit each other.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        ids: Ids,
        name: Callable[[str], str],
        buffer_size: int,
        local_state_threshold: int,
    ) -> None:
        if not 0 <= local_state_threshold <= MAX_FILE_STATE_THRESHOLD:
            raise ValueError(f"The threshold is {local_state_threshold}, not 0 to {MAX_FILE_STATE_THRESHOLD}.")
        if buffer_size < local_state_threshold:
            raise ValueError(f"The buffer of {buffer_size} is smaller than the threshold {local_state_threshold}.")
        self._storage, self._ids, self._name = storage, ids, name
        self._size, self._threshold = buffer_size, local_state_threshold
        self._buffer = bytearray()
        self._file: ObjectWriter | None = None
        self._path = ""
        self._in_file = 0
        self._closed = False

    def write(self, data: Data) -> int:
        self._check_open()
        view = memoryview(data).cast("B")
        if len(self._buffer) + len(view) > self._size:
            self._flush_to_file()
        if len(view) <= self._size:
            self._buffer += view
        else:
            self._hand_on(view)
        return len(view)

    def flush(self) -> None:
        self._check_open()
        if len(self._buffer) > self._threshold:
            self._flush_to_file()

    def sync(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.sync()

    def get_pos(self) -> int:
        return self._in_file + len(self._buffer)

    def is_closed(self) -> bool:
        return self._closed

    def close_and_get_handle(self) -> StreamStateHandle | None:
        self._check_open()
        if self._file is None and not self._buffer:
            self._closed = True
            return None
        if self._file is None and len(self._buffer) <= self._threshold:
            self._closed = True
            return StreamStateHandle(self._name(self._ids.new_id()), len(self._buffer), bytes(self._buffer))
        try:
            self._flush_to_file()
            assert self._file is not None
            self._file.close()
        except BaseException:
            self.close()
            raise
        self._closed = True
        return StreamStateHandle(self._path, self._in_file)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._buffer.clear()
        if self._file is not None:
            self._file.discard()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(
                "The state stream has been closed already.", action="Write to a new stream; this one is finished."
            )

    def _flush_to_file(self) -> None:
        if self._file is None:
            self._open()
        if self._buffer:
            self._hand_on(self._buffer)
            self._buffer = bytearray()

    def _hand_on(self, data: Data) -> None:
        if self._file is None:
            self._open()
        assert self._file is not None
        self._file.write(data)
        self._in_file += len(memoryview(data))

    def _open(self) -> None:
        last: StorageError | None = None
        for _ in range(ATTEMPTS):
            self._path = self._name(self._ids.new_id())
            try:
                self._file = self._storage.open_exclusive(self._path)
            except NotWritableError:  # another name would not help
                raise
            except StorageError as error:
                last = error
            else:
                return
        raise StorageError(
            f"No new file could be opened in {self._storage.url} in {ATTEMPTS} attempts; the last name was "
            f"{self._path!r}.",
            action="Check the storage; the next checkpoint tries again.",
        ) from last


class MemCheckpointOutputStream(_Closing):
    """Keeps the bytes in memory, up to a limit that is checked when it is closed as finished.

    Args:
        path: Its unique name.
        max_size: In bytes.
        what: The state, for the error.
    """

    def __init__(self, path: str, max_size: int, what: str) -> None:
        self._path, self._max_size, self._what = path, max_size, what
        self._buffer = bytearray()
        self._written = 0
        self._closed = False

    def write(self, data: Data) -> int:
        if self._closed:
            raise StorageError("The state stream has been closed already.", action="Write to a new stream.")
        view = memoryview(data).cast("B")
        self._written += len(view)
        if self._written <= self._max_size:  # beyond the limit the close is refused, so the bytes need not be kept
            self._buffer += view
        return len(view)

    def flush(self) -> None:
        """Does nothing."""

    def sync(self) -> None:
        """Does nothing."""

    def get_pos(self) -> int:
        return self._written

    def is_closed(self) -> bool:
        return self._closed

    def close_and_get_handle(self) -> StreamStateHandle | None:
        if self._closed:
            raise StorageError("The state stream has been closed already.", action="Write to a new stream.")
        self._closed = True
        if not self._written:
            return None
        check_size(self._what, self._written, self._max_size)
        return StreamStateHandle(self._path, self._written, bytes(self._buffer))

    def close(self) -> None:
        self._closed = True
        self._buffer.clear()


def check_size(what: str, size: int, max_size: int) -> None:
    """Refuses a state that is too large for the record of a checkpoint.

    Raises:
        StateTooLargeError: `size` is above `max_size`.
    """
    if size > max_size:
        raise StateTooLargeError(
            f"{what} has {size} bytes, more than the {max_size} that the checkpoint storage 'memory' takes.",
            action="Use another checkpoint storage: DeltaCheckpointStorage or FileSystemCheckpointStorage. Or raise "
            "max_state_size of JobManagerCheckpointStorage, as long as it stays a few MiB.",
        )


__all__ = [
    "MAX_FILE_STATE_THRESHOLD",
    "CheckpointStateOutputStream",
    "FsCheckpointStateOutputStream",
    "MemCheckpointOutputStream",
    "StreamStateHandle",
    "check_size",
]
