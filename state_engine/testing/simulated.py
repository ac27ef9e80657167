"""The simulated world that implements the ports of the protocol: what survives a driver, crashes, a faulty log.

Everything is deterministic: there are no threads, and all choices are in `Faults` or come from a seed.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from state_engine.epoch import debts
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.table_sink import standing
from state_engine.errors import StorageError
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline, outline_of
from state_engine.log.records import Ack, BaseReference, Manifest
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.testing.simulated_table import SimulatedTable

PutOutcome = Literal["ok", "lost_answer", "failed", "delayed"]
State = dict[str, dict[str, int]]
Row = tuple[int, str, int]
At = tuple[CrashPoint, int | None]


TABLE_OF = "count"
"""The operator with output to the exactly-once table; the sink has its name."""


class SimulatedCrash(BaseException):
    """The process died. Not an `Exception`, so that no code of the process catches it."""


@dataclass
class Faults:
    """What goes wrong for one driver. Each entry happens once, and is then removed.

    Attributes:
        crashes: Points at which the driver's process ends; an epoch of None is any epoch.
        task_deaths: Points at which only the task attempt ends; the engine tries it again.
        hooks: Called at a point, before the crash: another driver may act in between.
        puts: The outcomes of the next puts of manifests.
        failed_reads: Number of the next reads of manifests that fail.
        mixed: Epochs in which, on the first try, downstream subtasks read two attempts of one upstream subtask.
        missing: Epochs that lose a barrier on the first try.
        aborted: Epochs that the engine aborts on the first try.
        sink_errors: Number of the next sink commits that report an error; every second one took effect nevertheless.
    """

    crashes: list[At] = field(default_factory=list)
    task_deaths: list[At] = field(default_factory=list)
    hooks: dict[tuple[CrashPoint, int], Callable[[], object]] = field(default_factory=dict)
    puts: list[PutOutcome] = field(default_factory=list)
    failed_reads: int = 0
    mixed: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    sink_errors: int = 0


@dataclass
class SimulatedCrashes:
    """The `Crash` port: counts the points that are passed, and crashes as the faults say."""

    faults: Faults
    reached: Counter[CrashPoint]

    def at(self, point: CrashPoint, epoch: int) -> None:
        self.reached[point] += 1
        if (hook := self.faults.hooks.pop((point, epoch), None)) is not None:
            hook()
        for wanted in ((point, epoch), (point, None)):
            if wanted in self.faults.crashes:
                self.faults.crashes.remove(wanted)
                raise SimulatedCrash(f"{point}@{epoch}")

    def task_dies(self, point: CrashPoint, epoch: int) -> bool:
        """Passes a point inside a task; returns whether the attempt ends here."""
        self.at(point, epoch)
        deaths = [wanted for wanted in ((point, epoch), (point, None)) if wanted in self.faults.task_deaths]
        self.faults.task_deaths = [one for one in self.faults.task_deaths if one not in deaths]
        return bool(deaths)


class Entry(NamedTuple):
    """The rows that the at-least-once sink got from one epoch."""

    generation: int
    epoch: int
    rows: tuple[Row, ...]


@dataclass
class World:
    """Everything that survives a driver. Its clock is wrong by `clock_error_ms`; `now_ms` is the true time."""

    job: str
    storage: MemoryStorage
    table: SimulatedTable = field(default_factory=SimulatedTable)
    notified: list[Entry] = field(default_factory=list)
    checkpoints: list[BaseReference] = field(default_factory=list)
    in_flight: list[Manifest] = field(default_factory=list)
    reached: Counter[CrashPoint] = field(default_factory=Counter)
    others: dict[str, "World"] = field(default_factory=dict)
    now_ms: int = 1_000_000
    clock_error_ms: int = 0
    steady_ms: int = 0
    ids: int = 0
    sinks_made: int = 0

    def __post_init__(self) -> None:
        self.log = self.open_log()

    def open_log(self) -> ManifestLog:
        """Opens a new view of the chain, with nothing cached."""
        return ManifestLog(self.storage, self.job, open_job=lambda job: self.others[job].storage)

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    def deliver(self) -> None:
        """Delivers the puts that were still in flight."""
        while self.in_flight:
            with suppress(StorageError):  # another driver may have taken the number by now
                self.put(self.in_flight.pop(0))

    def put(self, manifest: Manifest) -> StoredManifest:
        """Puts a manifest, then asserts that its predecessor has no open debt (E7)."""
        stored = self.log.put(manifest)
        if manifest.kind in ("epoch", "idle"):
            debt = debts.owed(self.log, self.log.read(manifest.generation, manifest.epoch - 1))
            paid = debt is None or (debt.manifest.generation, debt.manifest.epoch) <= self.fence
            assert paid, f"epoch {manifest.epoch} was sealed before its predecessor was committed"
        return stored

    @property
    def fence(self) -> tuple[int, int]:
        """Generation and epoch up to which the table ignores commits."""
        version = standing(self.table, self.job, TABLE_OF).fence
        return version >> 40, version % (1 << 40)

    def output(self, acks: tuple[Ack, ...]) -> tuple[Row, ...]:
        paths = [file.path for ack in acks for file in ack.outputs]
        return tuple((n, key, value) for path in paths for n, key, value in json.loads(self.storage.get(path)))

    def storage_of(self, job: str) -> MemoryStorage:
        return self.storage if job == self.job else self.others[job].storage

    def state_at(self, head: StoredManifest, *, down_to_base: bool = True) -> State:
        """Folds the sealed changes up to a manifest: the definition of state."""
        state: State = {}
        chain = self.log.chain(head, down_to_base=down_to_base)
        begins = chain[0].manifest.job if chain else self.job
        restored = next((stored.manifest for stored in chain[::-1] if stored.manifest.job == begins), head.manifest)
        if down_to_base and restored.base is not None:
            state = json.loads(self.storage_of(begins).get(restored.base.path))
        for manifest, _ in chain:
            storage = self.storage_of(manifest.job)
            for uid, operator in manifest.operators.items():
                for ack in operator.acks:
                    if ack.changes is not None:
                        inlined = manifest.inlined.get(ack.changes.path)
                        data = storage.get(ack.changes.path) if inlined is None else inlined
                        state.setdefault(uid, {}).update(json.loads(data))
        return state


@dataclass
class FaultyLog:
    """The `Log` port of one driver: answers get lost, puts fail, or stay in flight until `World.deliver`."""

    world: World
    faults: Faults

    def generations(self) -> list[int]:
        return self.world.log.generations()

    def newest(self, generation: int) -> StoredManifest | None:
        return self.world.log.newest(generation)

    def read(self, generation: int, epoch: int) -> StoredManifest:
        if self.faults.failed_reads:
            self.faults.failed_reads -= 1
            raise StorageError("simulated: the read failed")
        return self.world.log.read(generation, epoch)

    def read_outline(self, generation: int, epoch: int) -> Outline:
        return outline_of(self.read(generation, epoch))

    def read_copy(self, path: str) -> StoredManifest:
        return self.world.log.read_copy(path)

    def put(self, manifest: Manifest) -> StoredManifest:
        outcome = self.faults.puts.pop(0) if self.faults.puts else "ok"
        if outcome == "delayed":
            self.world.in_flight.append(manifest)
        if outcome in ("failed", "delayed"):
            raise StorageError(f"simulated: the put {outcome}")
        stored = self.world.put(manifest)
        if outcome == "lost_answer":
            raise StorageError("simulated: the answer was lost")
        return stored

    def floors(self) -> dict[int, int]:
        return self.world.log.floors()

    def birth(self) -> str | None:
        return self.world.log.birth()

    def create_birth_id(self, birth_id: str, now_ms: int) -> None:
        self.world.log.create_birth_id(birth_id, now_ms)


__all__ = [
    "TABLE_OF",
    "Entry",
    "Faults",
    "FaultyLog",
    "PutOutcome",
    "Row",
    "SimulatedCrash",
    "SimulatedCrashes",
    "State",
    "World",
]
