"""Processes of the simulated cluster: one runs at a time, and may stop before any call to storage or to a table.

Each process is a greenlet (from the package `greenlet`, of the development group), so that a switch takes less than a
microsecond. A call may also fail in one of the ways of `FAULTS`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from state_engine.errors import StorageError
from state_engine.storage.memory import MemoryStorage

FAULTS = ("fail", "lost", "late", "torn", "full", "flip")
"""What may happen to one call, in this order: it fails; it takes effect but its answer is lost (as when the fsync of a
write fails); it is reported as failed and takes effect later; half of an object is written; the disk is full from now
on; a bit of the data that was read is flipped."""

READS = ("get", "list", "folders", "exists")
WRITES = ("put_if_absent", "put_exclusive", "delete")
ResultT = TypeVar("ResultT")


class Killed(BaseException):
    """The process died. Not an `Exception`, so that no code of the process catches it."""


@dataclass(eq=False)
class Process:
    """One process of the cluster.

    Attributes:
        name: What it does.
        work: The function that does it.
        faults: Faults by the number of the call that they hit.
        owner: The process with which this one dies.
        calls: Number of calls that it has made.
        left: Number of calls that it may still make before it stops; None for no limit.
        counted: Prefix of the names of calls that count for `left`; empty for all calls.
        full: Whether its disk is full.
        misread: Whether it has read a flipped bit.
        error: The error with which it ended.
    """

    name: str
    work: Callable[[], object]
    faults: dict[int, str] = field(default_factory=dict)
    owner: "Process | None" = None
    calls: int = 0
    left: int | None = None
    counted: str = ""
    full: bool = False
    misread: bool = False
    done: bool = False
    killed: bool = False
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.let = greenlet(self._main)

    def _main(self) -> None:
        try:
            if not self.killed:
                self.work()
        except BaseException as error:
            self.error = error
        self.done = True


class Processes:
    """All processes of a cluster. Calls from outside these processes, such as those of a check, pass through.

    Attributes:
        current: The running process.
        parked: Processes that are stopped before a call.
        played: Number of faults of each kind that happened.
        in_flight: Effects that were reported as failed and are still to happen.
        is_spared: Returns whether the bits of an object are never flipped.
        on_put: Called with the path of each object that a running process puts, but not for late effects.
    """

    def __init__(self) -> None:
        self.current: Process | None = None
        self.parked: list[Process] = []
        self.played: Counter[str] = Counter()
        self.in_flight: list[Callable[[], object]] = []
        self.is_spared: Callable[[str], bool] = lambda path: False
        self.on_put: Callable[[str], None] = lambda path: None

    def run(self, process: Process, calls: int | None = None, counted: str = "") -> None:
        """Runs a process until it ends, or until it has made `calls` more calls and stops before the next one.

        With `counted`, only calls with names that begin with it are counted, and it stops before such a call.
        """
        if process.done:
            return
        before, process.left, process.counted = self.current, calls, counted
        process.let.parent = getcurrent()
        self.current = process
        try:
            process.let.switch()
        finally:
            self.current = before
        self.parked = [one for one in dict.fromkeys((*self.parked, process)) if not one.done]

    def park(self, process: Process) -> None:
        """Parks a new process before its first step."""
        self.parked.append(process)

    def kill(self, process: Process) -> None:
        """Ends a process, and the processes that it owns."""
        for one in [p for p in self.parked if p is process or p.owner is process]:
            one.killed = True
            self.run(one)

    def pause(self, name: str = "") -> Process | None:
        """Lets the running process stop or die at this point; returns the process, or None if none is running."""
        process = self.current
        if process is None:
            return None
        while process.left is not None and name.startswith(process.counted) and not process.killed:
            process.left -= 1
            if process.left >= 0:
                break
            process.let.parent.switch()  # it continues here when it is run again, with another number of calls
        if process.killed:
            raise Killed
        return process

    def call(
        self, name: str, path: str, effect: Callable[[], ResultT], torn: Callable[[], object] | None = None
    ) -> Any:
        """Makes one call of the running process, with its faults.

        Args:
            name: Name of the call.
            path: The object or folder.
            effect: Makes the call.
            torn: Does half of the call; None if this cannot happen.
        """
        process = self.pause(name)
        if process is None:
            return effect()
        process.calls += 1
        kind = process.faults.pop(process.calls, "full" if process.full else None)
        if kind is None:
            return effect()
        writes = name not in READS and name != "table open"
        if kind == "full":
            process.full = True
            if not writes or name == "delete":
                return effect()
        self.played[kind] += 1
        if kind == "flip" and name == "get" and not self.is_spared(path):
            data = effect()
            process.misread = True
            return _flipped(data, process.calls)
        if kind == "lost":
            effect()
        elif kind == "late" and writes:
            self.in_flight.append(effect)
        elif kind in ("torn", "full") and torn is not None:
            torn()
        raise StorageError(f"simulated: {name} of {path} ({kind})")

    def tell(self, path: str) -> None:
        """Reports that an object was put; no process may stop while `on_put` runs."""
        before, self.current = self.current, None
        if before is not None:
            self.on_put(path)
        self.current = before

    def deliver(self) -> None:
        """Lets all effects in flight happen."""
        arriving, self.in_flight = self.in_flight, []
        for effect in arriving:
            try:
                effect()
            except Exception:
                continue


def _flipped(data: Any, seed: int) -> Any:
    if not isinstance(data, bytes) or not data:
        return data
    place = seed * 7919 % (len(data) * 8)
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


class _Installed:
    is_stepping = False
    processes: Processes | None = None
    now_ms: Callable[[], int] = staticmethod(lambda: 0)


def watch(processes: Processes, now_ms: Callable[[], int]) -> None:
    """Connects storages in memory to these processes, and to a clock for their writes."""
    _Installed.processes, _Installed.now_ms = processes, staticmethod(now_ms)


@contextmanager
def stepping() -> Iterator[None]:
    """Lets a process stop at each call to a storage in memory; nested blocks have no further effect."""
    if _Installed.is_stepping:
        yield
        return
    plain = {name: MemoryStorage.__dict__[name] for name in (*READS, *WRITES)}
    _Installed.is_stepping = True
    try:
        for name, method in plain.items():
            setattr(MemoryStorage, name, _stepped(name, method, plain["put_if_absent"]))
        yield
    finally:
        for name, method in plain.items():
            setattr(MemoryStorage, name, method)
        _Installed.is_stepping, _Installed.processes = False, None


def _stepped(name: str, plain: Callable[..., Any], put: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(storage: MemoryStorage, path: str, *args: Any, **kwargs: Any) -> Any:
        processes = _Installed.processes
        if processes is None:
            return plain(storage, path, *args, **kwargs)
        if not name.startswith("put"):
            return processes.call(name, path, lambda: plain(storage, path, *args, **kwargs))
        data = b"".join(memoryview(buffer).cast("B") for buffer in args)
        torn = (lambda: _put(storage, path, data[: len(data) // 2])) if name == "put_exclusive" else None
        return processes.call(name, path, lambda: _put(storage, path, data), torn)

    def _put(storage: MemoryStorage, path: str, data: bytes) -> None:
        put(storage, path, data)
        storage.objects[path] = (data, _Installed.now_ms())
        processes = _Installed.processes
        if processes is not None:
            processes.tell(path)

    return stepped


__all__ = ["FAULTS", "Killed", "Process", "Processes", "stepping", "watch"]
