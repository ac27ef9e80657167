"""Runs several actors against one storage in memory, one storage call at a time, in an order that a seed decides."""

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from state_engine.storage.memory import MemoryStorage

CALLS = ("get", "get_range", "put_if_absent", "list", "folders", "exists", "delete")
WAIT_S = 60.0


class Killed(BaseException):
    """The process of an actor is gone."""


class _Actor:
    def __init__(self, run: Callable[[], None]) -> None:
        self.go, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.done = self.killed = False
        self.error: BaseException | None = None
        self.calls = 0
        self.thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self.thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        self.go.acquire()
        try:
            if not self.killed:
                run()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self.waits.release()

    def pause(self) -> None:
        """Called by the actor itself in front of a storage call."""
        self.waits.release()
        self.go.acquire()
        if self.killed:
            raise Killed
        self.calls += 1

    def step(self) -> None:
        """Lets the actor go on to its next storage call, or to its end."""
        self.go.release()
        assert self.waits.acquire(timeout=WAIT_S), "the actor hangs"


class Schedule:
    """One run of some actors; `pick` gets the names of those that have not ended and returns one."""

    def __init__(self, actors: Mapping[str, Callable[[], None]]) -> None:
        self._actors = {name: _Actor(run) for name, run in actors.items()}

    def run(self, pick: Callable[[list[str]], str], kill: tuple[str, int] | None = None) -> dict[str, int]:
        """Returns how many storage calls each actor made; raises what an actor failed with.

        Args:
            pick: Decides who goes on.
            kill: An actor, and the storage call in front of which it dies.
        """
        with self._stepping():
            while going := [name for name, actor in self._actors.items() if not actor.done]:
                name = pick(going)
                actor = self._actors[name]
                actor.killed = kill is not None and kill[0] == name and actor.calls >= kill[1]
                actor.step()
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


def at_random(seed: int) -> Callable[[list[str]], str]:
    """Mostly stays with one actor for a while, so that long runs of one fall between two calls of another."""
    choice, current = random.Random(seed), [""]

    def pick(going: list[str]) -> str:
        if current[0] not in going or choice.random() < 0.15:
            current[0] = choice.choice(going)
        return current[0]

    return pick


def in_between(outer: str, call: int) -> Callable[[list[str]], str]:
    """Lets `outer` make so many steps, then the others run to their ends, then the rest of `outer`."""
    steps = [0]

    def pick(going: list[str]) -> str:
        others = [name for name in going if name != outer]
        if outer in going and (steps[0] < call or not others):
            steps[0] += 1
            return outer
        return others[0]

    return pick
