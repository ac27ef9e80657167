"""Runs several processes against storages in memory, one storage call at a time, in the order of a schedule.

Each process is a thread that is parked before each of its storage calls; only one of them runs at a time. The same
schedule gives the same run. A schedule is a line of text:

```
retention:41 savepoint:9 | savepoint retention | kill savepoint@12
```

`retention` takes 41 steps (a step ends before the next storage call), then `savepoint` takes 9. Then `savepoint` runs
to its end, then `retention`, then all others. `savepoint` dies before its twelfth storage call.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from state_engine.storage.memory import MemoryStorage

CALLS = ("get", "put_if_absent", "list", "folders", "exists", "delete")
WRITES = ("put_if_absent", "delete")
WAIT_S = 120.0
Process = Callable[[], None]
Segments = tuple[tuple[str, int], ...]


class Killed(BaseException):
    """The process died. Not an `Exception`, so that no code of the process catches it."""


class Call(NamedTuple):
    """One storage call: the process, the method, the storage, and the object or folder.

    `names` lists the jobs below a root; its `url` is that of the root.
    """

    process: str
    name: str
    url: str
    path: str


@dataclass(frozen=True)
class Schedule:
    """The order in which processes take their steps.

    In `segments` and `rest`, `driver/*` means a process with its threads; the threads come first as soon as they have
    something to do.

    Attributes:
        segments: (process, steps) in order; a process that has ended, or waits, is skipped.
        rest: Processes that then run to their ends, in this order. All others follow, in the order of their start.
        kills: (process, call): the storage call before which it dies. Its threads (`<process>/…`) die with it.
    """

    segments: Segments = ()
    rest: tuple[str, ...] = ()
    kills: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        parts = [" ".join(f"{name}:{steps}" for name, steps in self.segments), " ".join(self.rest)]
        parts += [" ".join(f"kill {name}@{call}" for name, call in self.kills)] if self.kills else []
        return " | ".join(parts)

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Reads what `str` writes."""
        segments, rest, kills = (*text.split("|"), "", "")[:3]
        return cls(
            tuple((name, int(steps)) for name, _, steps in (part.rpartition(":") for part in segments.split())),
            tuple(rest.split()),
            tuple((n, int(c)) for n, _, c in (p.rpartition("@") for p in kills.replace("kill ", "").split())),
        )


class _Thread:
    def __init__(self, name: str) -> None:
        self.name = name
        self.go = threading.Lock()
        self.go.acquire()
        self.done = self.killed = False
        self.calls = 0
        self.error: BaseException | None = None
        self.waits_for: Callable[[], bool] | None = None

    @property
    def can_go(self) -> bool:
        return not self.done and (self.waits_for is None or self.killed or self.waits_for())


class Interleaving:
    """One run of processes in the order of a schedule.

    Args:
        schedule: The order.
        on_put: Called for every object that was put: storage, path, bytes.
        restart: Returns the processes to start when a process was killed.

    Attributes:
        trace: The storage calls in order.
        turns: The process of each turn. A turn is a step: the process makes at most one call, and runs up to the next.
        errors: The errors with which processes ended, by name.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        on_put: Callable[[MemoryStorage, str, bytes], None] | None = None,
        restart: Callable[[str], Mapping[str, Process]] | None = None,
    ) -> None:
        self.trace: list[Call] = []
        self.turns: list[str] = []
        self._made_in: list[int] = []  # for each call in `trace`: the number of turns so far
        self._strays: list[str] = []
        self._schedule = schedule
        self._segments = list(schedule.segments)
        self._kills = dict(schedule.kills)
        self._on_put = on_put
        self._restart = restart
        self._threads: dict[str, _Thread] = {}
        self._by_ident: dict[int, _Thread] = {}
        self._over = threading.Lock()
        self._over.acquire()

    @property
    def errors(self) -> dict[str, BaseException]:
        return {name: thread.error for name, thread in self._threads.items() if thread.error is not None}

    @property
    def killed(self) -> set[str]:
        """Names of the processes that died."""
        return {name for name, thread in self._threads.items() if thread.killed}

    def calls(self, process: str) -> list[Call]:
        """Returns the storage calls of one process."""
        return [call for call in self.trace if call.process == process]

    def until(self, place: int) -> Segments:
        """Returns the segments of a schedule that stops just before the call at this position of `trace`."""
        return _segments(self.turns[: self._turn(place)])

    def since(self, place: int) -> Segments:
        """Returns the segments from that call on."""
        return _segments(self.turns[self._turn(place) :])

    def _turn(self, place: int) -> int:
        return self._made_in[place] - 1 if place < len(self.trace) else len(self.turns)

    def run(self, processes: Mapping[str, Process]) -> None:
        """Runs these processes, and those that they start, to their ends.

        Raises:
            AssertionError: A process hangs, all remaining ones wait, or a thread outside the schedule made calls.
        """
        with self._stepping():
            for name, run in processes.items():
                self._start(name, run)
            self._hand_on(None)
            assert self._over.acquire(timeout=WAIT_S), f"a process hangs; the schedule is\n  {self._schedule}"
        waiting = [thread.name for thread in self._threads.values() if not thread.done]
        assert not waiting, f"{waiting} wait for ever; the schedule is\n  {self._schedule}"
        assert not self._strays, f"threads outside the schedule made calls: {self._strays}"

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Parks the calling process until another process makes a condition true."""
        thread = self._by_ident[threading.get_ident()]
        thread.waits_for = condition
        if not condition():
            self._hand_on(thread)
        thread.waits_for = None

    def _start(self, name: str, run: Process) -> None:
        thread = _Thread(name)
        self._threads[name] = thread
        threading.Thread(target=self._main, args=(thread, run), name=name, daemon=True).start()

    def _main(self, thread: _Thread, run: Process) -> None:
        self._by_ident[threading.get_ident()] = thread
        thread.go.acquire()
        try:
            if not thread.killed:
                run()
        except Killed:
            pass
        except BaseException as error:
            thread.error = error
        thread.done = True
        del self._by_ident[threading.get_ident()]  # a later thread may get the same ident
        self._hand_on(None)

    def _hand_on(self, thread: _Thread | None) -> None:
        """Gives the turn to the next process, and returns when the caller has the turn again."""
        following = self._next()
        if following is None:
            self._over.release()
        elif following is not thread:
            following.go.release()
        if thread is not None and following is not thread:
            thread.go.acquire()
        if thread is not None and thread.killed:
            raise Killed

    def _next(self) -> _Thread | None:
        thread = self._choose()
        if thread is not None:
            self.turns.append(thread.name)
        return thread

    def _choose(self) -> _Thread | None:
        going = {name: thread for name, thread in self._threads.items() if thread.can_go}
        while self._segments:
            name, steps = self._segments[0]
            if steps and (thread := _named(name, going)) is not None:
                self._segments[0] = (name, steps - 1)
                return thread
            self._segments.pop(0)
        named = (_named(name, going) for name in self._schedule.rest)
        return next((thread for thread in named if thread is not None), None) or next(iter(going.values()), None)

    def _step(self, thread: _Thread) -> None:
        if thread.killed:
            raise Killed
        self._hand_on(thread)
        thread.calls += 1
        if self._kills.get(thread.name) == thread.calls:
            self._kill(thread.name)
            raise Killed

    def _kill(self, name: str) -> None:
        for thread in self._threads.values():
            if thread.name == name or thread.name.startswith(f"{name}/"):
                thread.killed = not thread.done
        for new, run in (self._restart(name) if self._restart is not None else {}).items():
            self._start(new, run)

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        plain = {name: MemoryStorage.__dict__[name] for name in (*CALLS, "names")}
        stepped = {name: self._stepped(name, plain[name]) for name in CALLS}
        try:
            for name, method in {**stepped, "names": self._stepped_names(MemoryStorage.names)}.items():
                setattr(MemoryStorage, name, method)
            yield
        finally:
            for name, method in plain.items():
                setattr(MemoryStorage, name, method)

    def _stepped(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(storage: MemoryStorage, path: str, *args: Any, **kwargs: Any) -> Any:
            if self._comes(name, storage.url, path):
                result = plain(storage, path, *args, **kwargs)
                if name == "put_if_absent" and self._on_put is not None:
                    self._on_put(storage, path, bytes(args[0]))
                return result
            return plain(storage, path, *args, **kwargs)

        return stepped

    def _stepped_names(self, plain: Callable[[str], list[str]]) -> Any:
        def names(_: type[MemoryStorage], prefix: str) -> list[str]:
            self._comes("names", f"memory://{prefix}", "")
            return plain(prefix)

        return classmethod(names)

    def _comes(self, name: str, url: str, path: str) -> bool:
        """Parks the calling process until its call's turn; returns False if the thread is not one of the processes."""
        thread = self._by_ident.get(threading.get_ident())
        if thread is None:
            self._strays.append(f"{threading.current_thread().name}: {name} {path}")
            return False
        self._step(thread)
        self.trace.append(Call(thread.name, name, url, path))
        self._made_in.append(len(self.turns))
        return True


def _named(name: str, going: Mapping[str, _Thread]) -> _Thread | None:
    if not name.endswith("/*"):
        return going.get(name)
    threads = (thread for thread in going.values() if owner(thread.name) == owner(name))
    return max(threads, key=lambda thread: "/" in thread.name, default=None)


def _segments(turns: Iterable[str]) -> Segments:
    return tuple((name, len(list(run))) for name, run in groupby(turns))


def owner(name: str) -> str:
    """Returns the process to which a thread belongs."""
    return name.partition("/")[0]


def commute(one: Call, other: Call) -> bool:
    """Returns whether two storage calls give the same results, and leave the same objects, in either order.

    Calls of one process never commute: its threads communicate without storage calls.
    """
    if owner(one.process) == owner(other.process):
        return False
    if one.name not in WRITES:
        one, other = other, one
    if one.name not in WRITES:
        return True
    if other.name == "names":
        return not one.url.startswith(f"{other.url}/")
    if one.url != other.url:
        return True
    if other.name in ("list", "folders"):
        return not one.path.startswith(other.path)
    return one.path != other.path


__all__ = ["WRITES", "Call", "Interleaving", "Killed", "Process", "Schedule", "Segments", "commute", "owner"]
