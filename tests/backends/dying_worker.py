"""A worker with a database, which may die before any write, and the state that it must have then."""

import shutil
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from databases_in_turn import ALL, COUNT, ROUTES, TAGS, TOTAL, Turns
from deaths import Life

from state_engine.api.timers import TimeDomain
from state_engine.backends.rocksdb import LocalDatabase, Tuning
from state_engine.backends.schemas import TIMERS
from state_engine.testing.state_harness import StateHarness

KEYS = range(12)
Model = dict[int, dict[str, Any]]


class Worker:
    """Workers that share a folder, one after the other.

    Attributes:
        turns: Their instances and their log.
        models: The expected state after each epoch; the first one is that of a new job.
    """

    def __init__(self, folder: Path) -> None:
        self.turns = Turns(folder, on_resume=self._resumed)
        self.models: list[Model] = [{}]

    def _resumed(self, harness: StateHarness, epoch: int) -> None:
        backend: Any = harness.backend
        backend.timers(TimeDomain.EVENT_TIME)
        self.check(harness, epoch, loaded=False)

    def has(self, other: "Worker") -> None:
        """Takes over the log of another worker, but not its folder."""
        self.turns.epochs, self.models = list(other.turns.epochs), list(other.models)

    def live(self, epochs: Sequence[int], steps: int, *, machine: bool = False) -> int:
        """Runs epochs in a process that dies before a write; returns how many of its steps were left.

        Args:
            epochs: Their numbers.
            steps: After how many writes it dies.
            machine: Whether the machine dies, too.
        """
        life, turns = Life(steps), self.turns
        with life.lived():
            harness = turns.instance()
            self.check(harness, len(turns.epochs), loaded=True)
            for number in epochs:
                self.run_epoch(harness, number)
        if machine:
            turns.folder, died = life.left_by_the_machine(turns.folder), turns.folder
        turns.close()
        turns.made.clear()
        if machine:
            shutil.rmtree(died)
        return life.left

    def check(self, harness: StateHarness, epoch: int, *, loaded: bool) -> None:
        """Compares all existing state with the model of an epoch; states that are not loaded yet are empty."""
        backend: Any = harness.backend
        for key in KEYS:
            model = self.models[epoch].get(key, {})
            if loaded or not backend.lacks("count"):
                assert harness.state(COUNT, key).value() == model.get("count"), (epoch, key)
            if loaded or not backend.lacks("tags"):
                assert list(harness.state(TAGS, key).get()) == model.get("tags", []), (epoch, key)
            if loaded or not backend.lacks("routes"):
                assert dict(harness.state(ROUTES, key).items()) == model.get("routes", {}), (epoch, key)
            if loaded or not backend.lacks("total"):
                assert harness.state(TOTAL, key).get() == model.get("total"), (epoch, key)
        times = [of_key["timer"] for of_key in self.models[epoch].values() if "timer" in of_key]
        if loaded or not backend.lacks(TIMERS[TimeDomain.EVENT_TIME]):
            assert backend.timers(TimeDomain.EVENT_TIME).earliest() == min(times, default=None), epoch

    def run_epoch(self, harness: StateHarness, number: int) -> None:
        """Changes some keys, seals the epoch, and writes it, as the first step of the next epoch does."""
        backend: Any = harness.backend
        model = deepcopy(self.models[-1])
        timers = backend.timers(TimeDomain.EVENT_TIME)
        for key in KEYS:
            if (key + number) % 3 == 0:
                continue
            of_key = model.setdefault(key, {})
            harness.state(COUNT, key).update(number)
            harness.state(TAGS, key).add(str(number))
            harness.state(ROUTES, key).put(str(number % 4), number)
            harness.state(TOTAL, key).add(number)
            if "timer" in of_key:
                timers.delete(key, of_key["timer"])
            timers.register(key, 100 * number + key)
            of_key |= {"count": number, "total": of_key.get("total", 0) + number, "timer": 100 * number + key}
            of_key["tags"] = [*of_key.get("tags", []), str(number)]
            of_key["routes"] = {**of_key.get("routes", {}), str(number % 4): number}
            if (key + number) % 5 == 0:
                for descriptor in ALL:
                    harness.state(descriptor, key).clear()
                timers.delete(key, 100 * number + key)
                del model[key]
        self.models.append(model)
        self.turns.seal(harness)

    def cells(self) -> int:
        """Returns the number of cells in the database, named or not, without the token's cell."""
        database = LocalDatabase(self.turns.folder, Tuning(), wait_s=5)
        database.acquire()
        count = sum(1 for _ in database.store.scan(b"\x00\x01", b"\xff" * 8))
        database.close()
        return count
