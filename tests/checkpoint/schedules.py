"""Runs several actors against one storage in memory, one of them at a time, in an order that a seed decides."""

import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from state_engine.storage.memory import MemoryStorage

CALLS = ("get", "get_range", "put_if_absent", "list", "folders", "exists", "delete")
WAIT_S = 60.0
TO_ITS_END = sys.maxsize
Pick = Callable[[list[str]], tuple[str, int]]
"""Gets the names of the actors that have not ended; returns one of them, and for how many storage calls it runs."""


class Killed(BaseException):
    """The process of an actor has died."""


class _Actor:
    def __init__(self, run: Callable[[], None]) -> None:
        self.go, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.done = False
        self.error: BaseException | None = None
        self.calls, self.dies_at = 0, TO_ITS_END
        self._granted = 0
        self.thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self.thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        self.go.acquire()
        try:
            if self.dies_at > 0:
                run()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self.waits.release()

    def pause(self) -> None:
        """Waits if the calls of this step are used up; the actor calls it before each storage call."""
        self._granted -= 1
        if self._granted == 0:
            self.waits.release()
            self.go.acquire()
        if self.calls >= self.dies_at:
            raise Killed
        self.calls += 1

    def step(self, calls: int) -> None:
        """Lets the actor run until it has reached the given number of further storage calls, or its end.

        Switching threads costs more than most of these calls, so it is done once per step.
        """
        self._granted = calls
        self.go.release()
        assert self.waits.acquire(timeout=WAIT_S), "the actor hangs"


class Schedule:
    """One run of some actors."""

    def __init__(self, actors: Mapping[str, Callable[[], None]]) -> None:
        self._actors = {name: _Actor(run) for name, run in actors.items()}

    def run(self, pick: Pick, kill: tuple[str, int] | None = None) -> dict[str, int]:
        """Returns how many storage calls each actor made; raises the error of an actor that failed.

        Args:
            pick: Decides which actor runs next.
            kill: An actor, and the storage call before which it dies.
        """
        if kill is not None:
            self._actors[kill[0]].dies_at = kill[1]
        with self._stepping():
            while going := [name for name, actor in self._actors.items() if not actor.done]:
                name, calls = pick(going)
                self._actors[name].step(calls)
        for actor in self._actors.values():
            if actor.error is not None:
                raise actor.error
        return {name: actor.calls for name, actor in self._actors.items()}

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        by_thread = {actor.thread: actor for actor in self._actors.values()}
        with pytest.MonkeyPatch.context() as patch:
            for call in CALLS:
                plain: Any = getattr(MemoryStorage, call)

                def stepped(self: MemoryStorage, *args: Any, plain: Any = plain, **kwargs: Any) -> Any:
                    actor = by_thread.get(threading.current_thread())
                    if actor is not None:
                        actor.pause()
                    return plain(self, *args, **kwargs)

                patch.setattr(MemoryStorage, call, stepped)
            yield


def at_random(seed: int) -> Pick:
    """Mostly stays with one actor for some calls, so that many calls of one come between two calls of another."""
    choice = random.Random(seed)

    def pick(going: list[str]) -> tuple[str, int]:
        calls = 1
        while choice.random() >= 0.15:
            calls += 1
        return choice.choice(going), calls

    return pick


def in_between(outer: str, call: int) -> Pick:
    """Runs `outer` for `call` storage calls, then the others to their ends, then the rest of `outer`."""
    begun = call == 0

    def pick(going: list[str]) -> tuple[str, int]:
        nonlocal begun
        if not begun:
            begun = True
            return outer, call
        others = [name for name in going if name != outer]
        return (others or [outer])[0], TO_ITS_END

    return pick
