"""Plays schedules on copies of one stage, all in one root, and verifies each different end once."""

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from everything import Everything

from state_engine.storage.memory import MemoryStorage
from state_engine.testing.interleaving import Interleaving, Schedule

VARIABLE = "LAKESTATE_INTERLEAVINGS"
T = TypeVar("T")


def sample(size: int) -> int | None:
    """Returns how many schedules a test with many runs: `size`, or the environment's number, or `all` (None)."""
    wanted = os.environ.get(VARIABLE, "")
    return None if wanted == "all" else int(wanted or size)


def some_now(names: Iterable[T], now: Collection[T]) -> list[Any]:
    """Returns the parameters of a test: `make test` runs those in `now`, and `make test-long` all others."""
    return [name if name in now else pytest.param(name, marks=pytest.mark.long) for name in names]


@dataclass
class Replay:
    """Runs schedules. The root is always the same one, so that the same schedule makes the same calls.

    Attributes:
        template: The stage with which each schedule begins.
        played: The number of schedules that were run.
        ends: Hashes of their ends; what is verified afterwards depends on nothing else.
    """

    template: Everything
    played: int = 0
    ends: set[str] = field(default_factory=set)

    def __call__(self, names: Sequence[str], schedule: Schedule | str) -> Interleaving:
        """Runs one schedule; when it fails, the note says how to run it again."""
        wanted = Schedule.parse(schedule) if isinstance(schedule, str) else schedule
        stage = self.template.copy(f"{self.template.root}-again")
        try:
            played = stage.play(names, wanted)
            if (end := end_of(stage)) not in self.ends:
                stage.verify()
                self.ends.add(end)
        except BaseException as error:
            error.add_note(f'replay({list(names)}, "{wanted}")')
            raise
        finally:
            stage.forget()
        self.played += 1
        return played


def end_of(stage: Everything) -> str:
    """Hashes all objects, all manifests that were ever sealed, and the savepoints that were taken and disposed of."""
    digest = hashlib.sha256()
    root = stage.root.removeprefix("memory://")
    for job in MemoryStorage.names(root):
        for path, (data, _) in sorted(MemoryStorage.open(f"{root}/{job}").objects.items()):
            digest.update(f"{job} {path} {len(data)}\n".encode())
            digest.update(data)
    digest.update(repr(sorted((place, stored.hash) for place, stored in stage.sealed.manifests.items())).encode())
    digest.update(repr((sorted(stage.taken.items()), sorted(stage.disposed))).encode())
    return digest.hexdigest()


__all__ = ["VARIABLE", "Replay", "end_of", "sample", "some_now"]
