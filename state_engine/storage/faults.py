"""A storage that fails where a test wants it: before or after the effect, with puts that arrive late, or slowly."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from state_engine.errors import LakestateError, StorageError
from state_engine.storage.deleting import DeletesOneByOne
from state_engine.storage.port import CheckpointStorage, Data, ObjectInfo, ObjectWriter

Operation = Literal[
    "get",
    "get_range",
    "put_exclusive",
    "open_exclusive",
    "write",
    "close",
    "put_if_absent",
    "list",
    "folders",
    "exists",
    "delete",
]
Kind = Literal["before", "after", "in_flight", "slow"]

Result = TypeVar("Result")


@dataclass
class Fault:
    """One failure that is going to happen.

    Args:
        kind: `before`: raises, without the effect. `after`: raises after the effect, so that the answer is lost.
            `in_flight` (puts only): raises, and the effect happens when the test calls `release`. `slow`: succeeds.
        operation: Which calls; None for all.
        path: Which paths: those that contain this text.
        skip: How many matching calls succeed first.
        times: How many calls fail; None for all from then on.
        error: Makes the exception to raise, from a message.
        latency_s: Time to wait before anything else, in seconds.
    """

    kind: Kind
    operation: Operation | None = None
    path: str = ""
    skip: int = 0
    times: int | None = 1
    error: Callable[[str], Exception] = StorageError
    latency_s: float = 0.0

    def hits(self, operation: Operation, path: str) -> bool:
        """Returns whether this call fails, and counts it."""
        if (self.operation or operation) != operation or self.path not in path or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times = self.times if self.times is None else self.times - 1
        return True


@dataclass
class InFlight:
    """A put that has raised, so that the caller takes it for failed, but that has not arrived yet."""

    path: str
    arrive: Callable[[], None]
    outcome: LakestateError | None = field(default=None)


class FaultyStorage(DeletesOneByOne):
    """Wraps a storage and makes chosen calls fail. Without faults it behaves as the wrapped storage does.

    Args:
        inner: The storage that really stores. A test may access it directly, without faults.
        faults: Tried in order; the first that hits decides. More may be appended at any time.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self, inner: CheckpointStorage, faults: Sequence[Fault] = (), *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.inner = inner
        self.faults = list(faults)
        self.in_flight: list[InFlight] = []
        self.calls: list[tuple[Operation, str]] = []
        self._sleep = sleep
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.inner.url

    def release(self, path: str = "") -> list[InFlight]:
        """Lets the puts in flight with `path` in their path arrive, in order.

        Returns:
            Those that arrived; `outcome` is the error that no caller gets any more, such as `AlreadyExistsError`.
        """
        with self._lock:
            released = [put for put in self.in_flight if path in put.path]
            self.in_flight = [put for put in self.in_flight if path not in put.path]
        for put in released:
            try:
                put.arrive()
            except LakestateError as error:
                put.outcome = error
        return released

    def get(self, path: str) -> bytes:
        return self._call("get", path, lambda: self.inner.get(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call("get_range", path, lambda: self.inner.get_range(path, offset, length))

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self._call("put_exclusive", path, lambda: self.inner.put_exclusive(path, *buffers))

    def open_exclusive(self, path: str) -> ObjectWriter:
        opened: list[ObjectWriter] = []
        try:
            self._call("open_exclusive", path, lambda: opened.append(self.inner.open_exclusive(path)))
        except Exception:
            for writer in opened:  # the caller has no writer to close: the object exists, and is empty
                writer.close()
            raise
        return _FaultyWriter(self, path, opened[0])

    def put_if_absent(self, path: str, data: Data) -> None:
        self._call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        return self._call("list", prefix, lambda: self.inner.list(prefix, recursive=recursive))

    def folders(self, prefix: str) -> Sequence[str]:
        return self._call("folders", prefix, lambda: self.inner.folders(prefix))

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: self.inner.exists(path))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def abandoned(self) -> Sequence[ObjectInfo]:
        return self.inner.abandoned()

    def check_writable(self) -> None:
        self.inner.check_writable()

    def _call(self, operation: Operation, path: str, effect: Callable[[], Result]) -> Result:
        with self._lock:
            self.calls.append((operation, path))
            fault = next((fault for fault in self.faults if fault.hits(operation, path)), None)
        if fault is None:
            return effect()
        if fault.latency_s:
            self._sleep(fault.latency_s)
        if fault.kind == "slow":
            return effect()
        if fault.kind == "after":
            effect()
        elif fault.kind == "in_flight":
            if operation not in ("put_exclusive", "put_if_absent"):
                raise ValueError(f"Only a put can be in flight, not {operation} of {path!r}.")
            with self._lock:
                self.in_flight.append(InFlight(path, lambda: _forget(effect())))
        raise fault.error(f"Injected: {operation} of {path!r} failed {fault.kind.replace('_', ' ')}.")


class _FaultyWriter:
    """Writing to it and closing it are calls like others; `discard` never fails."""

    def __init__(self, storage: FaultyStorage, path: str, inner: ObjectWriter) -> None:
        self._storage, self._path, self._inner = storage, path, inner

    def write(self, data: Data) -> None:
        self._storage._call("write", self._path, lambda: self._inner.write(data))

    def sync(self) -> None:
        self._inner.sync()

    def close(self) -> None:
        self._storage._call("close", self._path, self._inner.close)

    def discard(self) -> None:
        self._inner.discard()


def _forget(_: object) -> None:
    """Drops a result."""


__all__ = ["Fault", "FaultyStorage", "InFlight", "Kind", "Operation"]
