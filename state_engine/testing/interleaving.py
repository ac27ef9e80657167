"""Runs several processes against storages in memory, one storage call at a time, in the order that a schedule says.

Each process is a thread that is parked in front of each of its storage calls; one of them runs at a time. The same
schedule gives the same run, and a schedule is a line of text:

```
retention:41 savepoint:9 | savepoint retention | kill savepoint@12
```

`retention` takes 41 steps (a step ends in front of the next storage call), then `savepoint` takes 9; then `savepoint`
runs to its end, then `retention`, then all others. In front of its twelfth storage call `savepoint` dies.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from state_engine.storage.memory import MemoryStorage

CALLS = ("get", "put_if_absent", "list", "folders", "exists", "delete")
WRITES = ("put_if_absent", "delete")
WAIT_S = 120.0
Process = Callable[[], None]


class Killed(BaseException):
    """The process is gone. Not an `Exception`: nothing may catch it on the way."""


class Call(NamedTuple):
    """One storage call: who made it, what it was, in which storage, for which object or folder."""

    process: str
    name: str
    url: str
    path: str


@dataclass(frozen=True)
class Schedule:
    """In which order processes take their steps.

    Attributes:
        segments: (process, steps) one after the other; a process that has ended, or waits, is passed over.
        rest: Who runs to the end next, in this order; then those who are not named, in the order of their start.
        kills: (process, call): in front of which storage call it dies. Its threads (`<process>/…`) die with it.
    """

    segments: tuple[tuple[str, int], ...] = ()
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
    """One run.

    Args:
        schedule: The order.
        on_put: Is told of every object that was put: storage, path, bytes.
        restart: Gives the processes that are started anew when one was killed.

    Attributes:
        trace: The storage calls in their order.
        errors: What processes ended with, by name.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        on_put: Callable[[MemoryStorage, str, bytes], None] | None = None,
        restart: Callable[[str], Mapping[str, Process]] | None = None,
    ) -> None:
        self.trace: list[Call] = []
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
        """Names of those that died."""
        return {name for name, thread in self._threads.items() if thread.killed}

    def calls(self, process: str) -> list[Call]:
        """Returns the storage calls of one process."""
        return [call for call in self.trace if call.process == process]

    def run(self, processes: Mapping[str, Process]) -> None:
        """Runs processes, and those that come up on the way, to their ends.

        Raises:
            AssertionError: One hangs, or all that are left wait.
        """
        with self._stepping():
            for name, run in processes.items():
                self._start(name, run)
            self._hand_on(None)
            assert self._over.acquire(timeout=WAIT_S), f"a process hangs; the schedule is\n  {self._schedule}"
        waiting = [thread.name for thread in self._threads.values() if not thread.done]
        assert not waiting, f"{waiting} wait for ever; the schedule is\n  {self._schedule}"

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Parks the calling process until a condition holds that another one brings about."""
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
        del self._by_ident[threading.get_ident()]  # which a thread that a process makes may get next
        self._hand_on(None)

    def _hand_on(self, thread: _Thread | None) -> None:
        """Gives the turn to whoever is next, and returns when it is the caller's again."""
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
        going = {name: thread for name, thread in self._threads.items() if thread.can_go}
        while self._segments:
            name, left = self._segments[0]
            if left and name in going:
                self._segments[0] = (name, left - 1)
                return going[name]
            self._segments.pop(0)
        named = next((going[name] for name in self._schedule.rest if name in going), None)
        return named or next(iter(going.values()), None)

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
        plain = {name: getattr(MemoryStorage, name) for name in CALLS}
        for name in CALLS:
            setattr(MemoryStorage, name, self._stepped(name, plain[name]))
        try:
            yield
        finally:
            for name in CALLS:
                setattr(MemoryStorage, name, plain[name])

    def _stepped(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(storage: MemoryStorage, path: str, *args: Any, **kwargs: Any) -> Any:
            thread = self._by_ident.get(threading.get_ident())
            if thread is None:
                return plain(storage, path, *args, **kwargs)
            self._step(thread)
            self.trace.append(Call(thread.name, name, storage.url, path))
            result = plain(storage, path, *args, **kwargs)
            if name == "put_if_absent" and self._on_put is not None:
                self._on_put(storage, path, bytes(args[0]))
            return result

        return stepped


def commute(one: Call, other: Call) -> bool:
    """Says whether two storage calls give the same results, and leave the same objects, in either order."""
    if one.url != other.url:
        return True
    if one.name not in WRITES:
        one, other = other, one
    if one.name not in WRITES:
        return True
    if other.name in ("list", "folders"):
        return not one.path.startswith(other.path)
    return one.path != other.path


__all__ = ["WRITES", "Call", "Interleaving", "Killed", "Process", "Schedule", "commute"]
