"""Runs production's `StartUp` and `EpochDriver` with crashes, zombies and wrong storage answers, and checks them.

```python
simulation = Simulation(seed=1)
simulation.finish(Faults(crashes=[(CrashPoint.E6_SEALED, 4)]))   # drivers die and are started again, to the end
simulation.verify()                                             # the chain, the state, the sinks
```
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from msgspec.structs import replace

from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.ports import Mark, SourcePositions, StreamEdge
from state_engine.epoch.request import OperatorShape, RestoreTarget, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.errors import LakestateError
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest
from state_engine.log.source_records import SourceFingerprint, SourcePosition
from state_engine.storage.memory import MemoryStorage
from state_engine.testing.simulated import (
    Faults,
    FaultyLog,
    Row,
    SimulatedCrash,
    SimulatedCrashes,
    World,
)
from state_engine.testing.simulated_services import SimulatedPublisher, SimulatedSinks
from state_engine.testing.simulated_tasks import KEY, SimulatedTasks, truth

MAX_PARALLELISM = 13
CHECKPOINT_EVERY = 3
BATCH = 7
INLINE_THRESHOLD = 24
"""In bytes: the changes of some subtasks are larger, those of others are not."""


def request(job: str = "simulated", parallelism: tuple[int, ...] = (2, 3)) -> StartRequest:
    """Returns the start request of the simulated job.

    Args:
        job: Its name.
        parallelism: Parallelism of `count` and `total`; three numbers are those of `count`, `odd` and `total`.
    """
    uids = ("count", "odd", "total") if len(parallelism) == 3 else ("count", "total")
    *feeding, total = (
        OperatorShape(uid=uid, parallelism=p, max_parallelism=MAX_PARALLELISM, keys=KEY)
        for uid, p in zip(uids, parallelism, strict=True)
    )
    edges = tuple(StreamEdge(upstream=op.uid, input=n) for n, op in enumerate(feeding, 1))
    return StartRequest(
        job=job,
        root="memory://",
        operators=(*feeding, replace(total, edges=edges)),
        fingerprints=(SourceFingerprint(kind="counted", path="numbers"),),
    )


@dataclass
class _Clock:
    """A clock that jumps forward, and sometimes back."""

    world: World
    choice: random.Random

    def now_ms(self) -> int:
        self.world.now_ms += self.choice.choice((0, 1, 40, 500, -300))
        return self.world.now_ms + self.world.clock_error_ms

    def steady_ms(self) -> int:
        self.world.steady_ms = max(self.world.steady_ms, self.world.now_ms)
        return self.world.steady_ms


@dataclass
class _Barriers:
    world: World

    error = None

    def checkpoint_at(self, epoch: int, now_ms: int) -> Mark | None:
        return Mark(checkpoint_id=int(self.world.new_id(), 16)) if epoch % CHECKPOINT_EVERY == 0 else None

    def next_id(self) -> int:
        return self.world.ids + 1

    def acknowledged(self, checkpoint_id: int, now_ms: int) -> None:
        pass

    def declined(self, checkpoint_id: int, now_ms: int, message: str) -> None:
        pass

    def sealed(self, epoch: int, log_bytes: int, inlined_bytes: int) -> None:
        pass

    def overdue(self, now_ms: int) -> Sequence[int]:
        return ()


class SimulatedDriver:
    """One driver process: S1 to S5 when it is created, then epochs. It uses only what a driver at that time could know.

    Args:
        simulation: The world, the source, the clock.
        start: Its start request.
        faults: What goes wrong for it.
    """

    def __init__(self, simulation: "Simulation", start: StartRequest, faults: Faults) -> None:
        world = simulation.world
        self._simulation = simulation
        self.crash = SimulatedCrashes(faults, world.reached)
        log, clock = FaultyLog(world, faults), _Clock(world, simulation.choice)
        sinks, publisher = SimulatedSinks(world, self.crash), SimulatedPublisher(world, self.crash)
        head = StartUp(log, sinks, publisher, clock, world, self.crash).run(start)
        self.offset = position(head.stored)
        self.dead = False
        self.crash.at(CrashPoint.S4_SEEDED, head.stored.manifest.epoch)
        self.epochs = EpochDriver(
            head, log, sinks, publisher, _Barriers(world), clock, self.crash, inline_threshold=INLINE_THRESHOLD
        )
        self.crash.at(CrashPoint.S5_STARTED, head.stored.manifest.epoch)

    def step(self) -> StoredManifest:
        """Runs one batch. The offset moves only if the epoch succeeds (E8)."""
        end = min(self.offset + BATCH, len(self._simulation.records))
        with self._alive() as tasks:
            tasks.records = self._simulation.records[self.offset : end]
            sealed = self.epochs.run_epoch(tasks, SourcePositions(positions=(SourcePosition(offset=str(end)),)))
        self.offset = end
        return sealed

    def idle(self) -> StoredManifest:
        """Runs one idle epoch."""
        with self._alive() as tasks:
            return self.epochs.run_idle(tasks)

    @contextmanager
    def _alive(self) -> Iterator[SimulatedTasks]:
        if self.dead:
            raise SimulatedCrash("this process is gone")
        try:
            yield SimulatedTasks(self._simulation.world, self.crash)
        except SimulatedCrash:
            self.dead = True
            raise


class Simulation:
    """One job, its world, and its records.

    Args:
        seed: Decides records and times.
        size: Number of records.
        job: Its name.
        parallelism: As in `request`, for starts that do not give another one.
    """

    def __init__(
        self, seed: int = 0, size: int = 60, job: str = "simulated", parallelism: tuple[int, ...] = (2, 3)
    ) -> None:
        self.parallelism = parallelism
        self.choice = random.Random(seed)
        self.records: list[Row] = [(n, str(self.choice.randrange(12)), self.choice.randint(1, 5)) for n in range(size)]
        self.world = World(job, MemoryStorage())

    @property
    def head(self) -> StoredManifest:
        """The newest sealed manifest."""
        head = look.newest(self.world.log)
        assert head is not None, "nothing was sealed"
        return head

    def start(self, start: StartRequest | None = None, faults: Faults | None = None) -> SimulatedDriver:
        """Starts a driver."""
        return SimulatedDriver(self, start or request(self.world.job, self.parallelism), faults or Faults())

    def restore(self, target: StoredManifest, parallelism: tuple[int, ...] | None = None) -> StartRequest:
        """Returns a start that restores a sealed epoch."""
        start = request(self.world.job, parallelism or self.parallelism)
        return replace(start, restore=RestoreTarget(stored=target, savepoint_id="sp"))

    def finish(self, faults: Faults, start: StartRequest | None = None, restarts: int = 30) -> int:
        """Runs to the end of the source, and restarts drivers that die; uses `start` until a start succeeds.

        Returns:
            The number of drivers that it took.

        Raises:
            AssertionError: The job did not reach the end: it makes no progress.
        """
        for number in range(1, restarts + 1):
            try:
                driver = self.start(start, faults)
                start = None
                while driver.offset < len(self.records):
                    driver.step()
                return number
            except (SimulatedCrash, LakestateError):
                self.world.deliver()
        raise AssertionError(f"no end after {restarts} restarts")

    def verify(self) -> None:
        """Checks everything that must hold after a driver has settled; raises AssertionError."""
        head = self.head
        self._verify_chain(head)
        uids = [op.uid for op in request(parallelism=self.parallelism).operators]
        state, counts, totals = truth(self.records[: position(head)], uids)
        assert self.world.state_at(head) == state, "the state from the newest base differs from the truth"
        assert self.world.state_at(head, down_to_base=False) == state, "the state differs from the truth"
        assert self.world.table.live == sorted(counts), "the exactly-once sink differs from the truth"
        lineage = head.manifest.lineage
        notified = [entry for entry in self.world.notified if contains(lineage, entry.generation, entry.epoch)]
        delivered = {row for entry in notified for row in entry.rows}
        assert delivered == set(totals), "the at-least-once sink misses output, or holds output of no sealed epoch"

    def _verify_chain(self, head: StoredManifest) -> None:
        """Checks each generation: linked by hash, closed unless it is the newest, numbers and times only grow."""
        log = self.world.open_log()
        log.chain(head, down_to_base=False)
        for generation in log.generations():
            line = [log.read(generation, epoch) for epoch in log.epochs(generation)]
            _verify_line(line)
            assert not line or (line[-1].manifest.kind == "closing") == (generation != head.manifest.generation)


def position(stored: StoredManifest) -> int:
    """Returns the number of records that are read up to a manifest."""
    return int(stored.manifest.sources[0].offset) if stored.manifest.sources else 0


def _verify_line(line: Sequence[StoredManifest]) -> None:
    for (before, digest), (after, _) in pairwise(line):
        assert after.epoch == before.epoch + 1, "a number is missing"
        assert after.predecessor == digest, "the chain is not linked by hash"
        assert after.incarnation_number >= before.incarnation_number, "a fenced driver sealed"
        assert after.processing_time >= before.processing_time, "time went back"
        assert before.kind != "closing", "something was sealed after a closing manifest"
    for stored in line:
        for operator in stored.manifest.operators.values():
            assert len(operator.acks) in (0, operator.parallelism), "more or fewer subtasks ran than the manifest says"


__all__ = ["MAX_PARALLELISM", "SimulatedDriver", "Simulation", "position", "request"]
