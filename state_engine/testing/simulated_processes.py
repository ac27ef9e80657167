"""Processes of the simulated cluster: one runs at a time, and stops in front of any call to storage or to a table.

Each process is a greenlet (from the package `greenlet`, of the development group), so that a switch costs less than a
microsecond. A call may also go wrong in one of the ways of `FAULTS`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from state_engine.checkpoint import table as checkpoint_rows
from state_engine.errors import StorageError
from state_engine.storage.memory import MemoryStorage

FAULTS = ("fail", "lost", "late", "torn", "full", "flip")
"""What becomes of one call. It fails; it takes effect and its answer is lost (so does a write whose fsync fails); it is
reported as failed and takes effect later; half of an object is written; the disk is full from now on; a bit of what was
read is flipped."""

READS = ("get", "list", "folders", "exists")
WRITES = ("put_if_absent", "put_exclusive", "delete")
ResultT = TypeVar("ResultT")


class Killed(BaseException):
    """The process is gone. Not an `Exception`: nothing may catch it on the way."""


@dataclass(eq=False)
class Process:
    """One process of the cluster.

    Attributes:
        name: What it does.
        work: Does it.
        faults: By the number of the call that goes wrong: how.
        owner: The process that dies together with this one.
        calls: How many calls it has made.
        left: How many more calls it may make before it stops; None for all.
        counted: Which calls these are; any, or those whose name begins so.
        full: Whether its disk is full.
        misread: Whether it has read a flipped bit.
        error: What it ended with.
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
    """All processes of a cluster. Calls that none of them makes, such as those of a check, are passed through.

    Attributes:
        current: The process that runs.
        parked: Those that stand in front of a call.
        played: How many faults of each kind have come about.
        in_flight: What was reported as failed and is still to take effect.
        is_spared: Says of which objects no bit is flipped.
        on_put: Is told the path of each object as a running process puts it; not of what arrives late.
    """

    def __init__(self) -> None:
        self.current: Process | None = None
        self.parked: list[Process] = []
        self.played: Counter[str] = Counter()
        self.in_flight: list[Callable[[], object]] = []
        self.is_spared: Callable[[str], bool] = lambda path: False
        self.on_put: Callable[[str], None] = lambda path: None

    def run(self, process: Process, calls: int | None = None, counted: str = "") -> None:
        """Lets a process go on until it ends, or stops in front of a call after `calls` more of them.

        With `counted` only calls whose name begins so are counted, and it stops in front of such a call.
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
        """Leaves a new process in front of its first step."""
        self.parked.append(process)

    def kill(self, process: Process) -> None:
        """Ends a process, and those that die together with it."""
        for one in [p for p in self.parked if p is process or p.owner is process]:
            one.killed = True
            self.run(one)

    def pause(self, name: str = "") -> Process | None:
        """A place at which the running process may stop or die; returns the process, None if none runs."""
        process = self.current
        if process is None:
            return None
        while process.left is not None and name.startswith(process.counted) and not process.killed:
            process.left -= 1
            if process.left >= 0:
                break
            process.let.parent.switch()  # and goes on when it is run again, with another number of calls
        if process.killed:
            raise Killed
        return process

    def call(
        self, name: str, path: str, effect: Callable[[], ResultT], torn: Callable[[], object] | None = None
    ) -> Any:
        """Makes one call of the running process, as its faults say.

        Args:
            name: The call.
            path: What it is about.
            effect: Makes it.
            torn: Makes half of it, where that can happen.
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
            found = effect()
            process.misread = True
            return _flipped(found, process.calls)
        if kind == "lost":
            effect()
        elif kind == "late" and writes:
            self.in_flight.append(effect)
        elif kind in ("torn", "full") and torn is not None:
            torn()
        raise StorageError(f"simulated: {name} of {path} ({kind})")

    def tell(self, path: str) -> None:
        """Says that an object was put; nobody comes in between while that is looked at."""
        before, self.current = self.current, None
        if before is not None:
            self.on_put(path)
        self.current = before

    def deliver(self) -> None:
        """Lets arrive what was on its way."""
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
    """From now on storages in memory belong to these processes, and write at this time."""
    _Installed.processes, _Installed.now_ms = processes, staticmethod(now_ms)


@contextmanager
def stepping() -> Iterator[None]:
    """Makes each call to a storage in memory a place at which a process may stop; once, also if blocks are nested."""
    if _Installed.is_stepping:
        yield
        return
    plain = {name: MemoryStorage.__dict__[name] for name in (*READS, *WRITES)}
    decode = checkpoint_rows.decode_rows
    # most of the time of a history would go into decoding the same few rows of `_checkpoints` again and again
    checkpoint_rows.decode_rows = cache(decode)
    _Installed.is_stepping = True
    try:
        for name, method in plain.items():
            setattr(MemoryStorage, name, _stepped(name, method, plain["put_if_absent"]))
        yield
    finally:
        for name, method in plain.items():
            setattr(MemoryStorage, name, method)
        checkpoint_rows.decode_rows = decode
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
