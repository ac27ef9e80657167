"""One job, run by production's classes on storage and a sink's table in memory, and everything that may happen to it.

`StartUp`, `EpochDriver`, `ManifestLog`, `CheckpointPublisher`, `TableSink`, retention, compaction and savepoints are
production's own. Storage, the table, time and the order of what happens are simulated.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count

from state_engine.checkpoint.leases import LEASE_MS
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.held_clock import HeldClock
from state_engine.epoch.ports import EpochPlan, SourcePositions, TableFence
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.epoch.sink_moves import outputs_of, since
from state_engine.epoch.start import StartUp
from state_engine.epoch.table_sink import TableSink
from state_engine.errors import MissingFileError, NotFoundError
from state_engine.log.barriers import Barrier
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import CHECKPOINTS, manifest_path
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourcePosition
from state_engine.savepoint import adopt_for, kept_for_start, resolve_restore
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.testing.manual import ManualBarriers
from state_engine.testing.simulated_processes import Process, Processes, watch
from state_engine.testing.simulated_table import AppendingTable, LoggedVersion, SimulatedTable
from state_engine.testing.simulated_workers import DELIVERED, GROUPS, SUM, TABLE, ClusterTasks, Worker

JOB = "sim"
BATCH = 3
HOSTS = 3
POLICY = RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=1), grace_ms=0)

_NUMBERS = count()


def position(manifest: Manifest) -> int:
    """Returns the number of records that are read up to a manifest."""
    return int(manifest.sources[0].offset) if manifest.sources else 0


@dataclass
class HostClock:
    """The clock of one host."""

    cluster: "Cluster"
    host: int

    def now_ms(self) -> int:
        self.cluster.now_ms += 1
        return self.cluster.now_ms + self.cluster.skews[self.host]

    def steady_ms(self) -> int:
        return self.cluster.now_ms


@dataclass
class Publishing:
    """The `Background` of a driver: runs tasks at once, or in a separate process that other processes may overtake."""

    cluster: "Cluster"
    owner: Process | None
    later: bool = False
    waiting: list[Process] = field(default_factory=list)

    def submit(self, task: Callable[[], None]) -> None:
        process = Process("publish", task, owner=self.owner)
        self.waiting.append(process)
        if self.later:
            self.cluster.processes.park(process)
        else:
            task()
            process.done = True

    def wait(self, timeout_s: float | None = None) -> bool:
        waiting, self.waiting = self.waiting, []
        for process in waiting:
            self.cluster.processes.run(process)
        return True

    def close(self) -> None: ...


@dataclass
class Crashes:
    """The `Crash` port: a process may stop or die at each crash point."""

    processes: Processes

    def at(self, point: CrashPoint, epoch: int) -> None:
        self.processes.pause()


class ClusterSinks:
    """The `Sinks` port: production's sink over a table, and a function that may get an epoch twice."""

    def __init__(self, cluster: "Cluster", log: ManifestLog, now_ms: Callable[[], int], crash: Crashes) -> None:
        self._cluster, self._log, self._crash = cluster, log, crash
        self._table = TableSink(JOB, TABLE, AppendingTable(cluster.table), log, now_ms)

    def check(self) -> None:
        """Checks the table, as each start does before anything else."""
        self._table.check()

    def fences(self) -> list[TableFence]:
        return [self._table.standing()]

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None:
        if uids:
            self._table.adopt(generation, outputs_of(owed.manifest, TABLE) if owed is not None else ())

    def prepare(self) -> None:
        self._table.create()

    def deliver(self, manifest: Manifest) -> None: ...

    def commit(self, sealed: StoredManifest) -> None:
        self._give(sealed.manifest)

    def _give(self, manifest: Manifest, *, to_table: bool = True, verify: bool = False) -> None:
        if to_table and (files := outputs_of(manifest, TABLE)):
            self._table.commit(manifest.generation, manifest.epoch, files, verify=verify)
        self._crash.at(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)
        self._tell(manifest)
        self._crash.at(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None:
        self._give(sealed.manifest, to_table=TABLE not in without, verify=True)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        for manifest in self._entered(target):
            self._staged(manifest)
        self._table.check_rewind(target, generation)

    def check_owed(self, sealed: StoredManifest) -> None: ...

    def close(self) -> None: ...

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        entered = [] if keep_output else self._entered(target)
        self._table.rewind(target, generation, keep_output=keep_output)
        for manifest in entered:
            self._tell(manifest)

    def _entered(self, target: StoredManifest) -> list[Manifest]:
        """Returns epochs that a rewind makes current again, with output still owed since they were abandoned."""
        head, delivered = look.newest(self._log), {one[:2] for one in self._cluster.delivered}
        entered = since(self._log, target, head) if head is not None else ()
        return [m for m in entered if outputs_of(m, DELIVERED) and (m.generation, m.epoch) not in delivered]

    def _tell(self, manifest: Manifest) -> None:
        if rows := self._staged(manifest):
            self._cluster.delivered.append((manifest.generation, manifest.epoch, rows))

    def _staged(self, manifest: Manifest) -> tuple[tuple[int, str, int], ...]:
        rows: list[tuple[int, str, int]] = []
        for file in outputs_of(manifest, DELIVERED):
            try:
                rows += [(n, key, value) for n, key, value in json.loads(self._cluster.storage.get(file.path))]
            except NotFoundError as error:
                raise MissingFileError(f"The staged output {file.path} is gone before its sink had it.") from error
        return tuple(rows)


@dataclass
class Backup:
    """A copy of everything durable at one moment."""

    objects: dict[str, tuple[bytes, int]]
    versions: list[LoggedVersion]
    files: dict[str, tuple[tuple[int, str, int], ...]]
    delivered: list[tuple[int, int, tuple[tuple[int, str, int], ...]]]
    savepoints: list[str]


class Cluster:
    """Everything that survives a driver.

    Args:
        inline_threshold: Largest size in bytes of changes that are inlined in the manifest.
        mixed: Whether a subtask changes its worker often, so that caches lag; otherwise it changes sometimes.
    """

    def __init__(self, inline_threshold: int = 0, *, mixed: bool = False) -> None:
        self.root = f"memory://simulated/{next(_NUMBERS)}"
        self.inline_threshold, self.mixed = inline_threshold, mixed
        self.processes = Processes()
        self.processes.is_spared, self.processes.on_put = self._is_spared, self._note_ghosts
        self.now_ms = 1_700_000_000_000
        self.skews = [0] * HOSTS
        self.delivered: list[tuple[int, int, tuple[tuple[int, str, int], ...]]] = []
        self.foreign: list[tuple[int, str, int]] = []
        self.savepoints: list[str] = []
        self.drivers: list[ClusterDriver] = []
        self.stray: Barrier | None = None
        self.compacted = self.kept = False
        self.kept_from = 0  # from this record on the table has all rows, besides others that it kept
        self.ghosts: list[str] = []  # checkpoints that became visible but were not complete
        self.backup: Backup | None = None
        self._ids = count(1)
        self.storage = self._opened()
        self.table = SimulatedTable(call=self._table_call)
        self.workers = [Worker(self.root, JOB) for _ in range(2)]
        watch(self.processes, lambda: self.now_ms)

    def _is_spared(self, path: str) -> bool:
        """Returns whether a file has output for the simulated function, which gets it without flipped bits."""
        return path.endswith(f"-{DELIVERED}.parquet")

    def _note_ghosts(self, path: str) -> None:
        """Records checkpoints that a commit to `_checkpoints` makes visible although manifest or base is missing."""
        if not path.startswith(f"{CHECKPOINTS}/_plain_log/"):
            return
        tables = open_tables(self.storage)
        active = tables.active(CHECKPOINTS)
        assert active is not None
        for row in CheckpointTable(self.storage, tables).read(active.names[-1]):
            needed = {manifest_path(row.generation, row.epoch), row.base_path} - {None}
            if row.status == "completed" and not needed <= self.storage.objects.keys():
                self.ghosts.append(f"{row.kind} {row.id} of epoch {row.generation}/{row.epoch}")

    def _opened(self) -> MemoryStorage:
        storage = open_storage(self.root, JOB)
        assert isinstance(storage, MemoryStorage)
        return storage

    def _table_call(self, name: str, effect: Callable[[], object]) -> object:
        return self.processes.call(f"table {name}", self.table.path, effect)

    def close(self) -> None:
        """Ends all remaining processes, and deletes the storage."""
        for process in list(self.processes.parked):
            self.processes.kill(process)
        watch(Processes(), lambda: 0)
        MemoryStorage.forget(f"{self.root.removeprefix('memory://')}/{JOB}")

    def new_id(self) -> str:
        """Returns a new id; names of savepoints use its first eight digits."""
        return f"{next(self._ids):08x}".ljust(32, "0")

    def open_log(self) -> ManifestLog:
        """Opens a new view of the log."""
        return ManifestLog(self.storage, JOB)

    def worker_for(self, plan: EpochPlan, subtask: int, attempt: int) -> Worker:
        """Returns a subtask's worker: usually the same one, sometimes another; with `mixed`, in 2 of 5 cases."""
        other = (plan.epoch * 7 + subtask * 3) % 5 // 2 if self.mixed else (plan.epoch + subtask) % 4 == 0
        return self.workers[(subtask + attempt + plan.retry + other) % len(self.workers)]

    def pass_time(self, by_ms: int) -> None:
        """Lets time pass."""
        self.now_ms += by_ms

    def expire(self) -> None:
        """Lets all leases expire."""
        self.now_ms += LEASE_MS + max(self.skews) - min(self.skews) + 1

    def save(self) -> None:
        """Makes a backup of the root and of the sink's table."""
        self.backup = Backup(
            dict(self.storage.objects), list(self.table.versions), dict(self.table.rows), list(self.delivered),
            list(self.savepoints),
        )  # fmt: skip

    def put_back(self, *, table: bool = True) -> None:
        """Ends all processes and puts the backup back; workers survive.

        Without `table` the sinks keep their current contents.
        """
        if self.backup is None:
            return
        for process in list(self.processes.parked):
            self.processes.kill(process)
        self.processes.in_flight.clear()
        self.drivers.clear()
        self.storage.objects.clear()
        self.storage.objects.update(self.backup.objects)
        self.savepoints = list(self.backup.savepoints)
        if not table:
            return
        self.table.versions[:] = self.backup.versions
        self.table.rows = dict(self.backup.files)
        self.delivered = list(self.backup.delivered)
        restored = {row for rows in self.backup.files.values() for row in rows}
        self.foreign = [row for row in self.foreign if row in restored]


class ClusterDriver:
    """One start of the job, and the epochs of its driver."""

    def __init__(self, cluster: Cluster, host: int, parallelism: int) -> None:
        self.cluster, self.parallelism = cluster, parallelism
        self.clock = HostClock(cluster, host)
        self.process: Process | None = None
        self.epochs: EpochDriver | None = None
        self.offset = 0
        self.barriers = ManualBarriers(0)

    def start(
        self,
        restore: str | None = None,
        *,
        keep_output: bool = False,
        adopt_sinks: bool = False,
        reset_processing_time: bool = False,
    ) -> None:
        """Does S1 to S5."""
        cluster, clock = self.cluster, self.clock
        storage, log, crash = open_storage(cluster.root, JOB), cluster.open_log(), Crashes(cluster.processes)
        self.publishing = Publishing(cluster, cluster.processes.current)
        publisher = CheckpointPublisher(storage, JOB, background=self.publishing, clock=clock, ids=cluster, crash=crash)
        sinks = ClusterSinks(cluster, log, clock.now_ms, crash)
        sinks.check()
        shape = OperatorShape(
            uid=SUM.uid, parallelism=self.parallelism, max_parallelism=GROUPS, keys=SUM.key, schemas=(SUM,)
        )
        request = StartRequest(
            job=JOB,
            root=cluster.root,
            operators=(shape,),
            restore=resolve_restore(cluster.root, JOB, restore) if restore is not None else None,
            keep_output=keep_output,
            adopt_sinks=adopt_sinks,
            reset_processing_time=reset_processing_time,
        )
        with kept_for_start(request, log, clock=clock, ids=cluster) as hold:
            request = adopt_for(request, log, clock=clock, ids=cluster, hold=hold, validate=False)
            head = StartUp(log, sinks, publisher, clock, cluster, crash, hold=hold).run(request)
        self.barriers.next_number = publisher.next_checkpoint_id()
        self.offset = position(head.stored.manifest)
        self.epochs = EpochDriver(
            head,
            log,
            sinks,
            publisher,
            self.barriers,
            HeldClock(clock),
            crash,
            inline_threshold=cluster.inline_threshold,
        )

    def step(self, order: int = 0) -> None:
        """Runs one batch. The offset moves only if the epoch succeeds (E8)."""
        assert self.epochs is not None
        end = self.offset + BATCH
        tasks = ClusterTasks(self.cluster, range(self.offset, end), order)
        self.epochs.run_epoch(tasks, SourcePositions(positions=(SourcePosition(offset=str(end)),)))
        self.offset = end

    def idle(self) -> None:
        """Runs an epoch without records."""
        assert self.epochs is not None
        self.epochs.run_idle(ClusterTasks(self.cluster, range(0)))


def delivered_on(cluster: Cluster, head: Manifest) -> set[tuple[int, str, int]]:
    """Returns the rows that the at-least-once sink got from epochs on the lineage of a manifest."""
    on_line = (rows for generation, epoch, rows in cluster.delivered if contains(head.lineage, generation, epoch))
    return {row for rows in on_line for row in rows}


__all__ = ["BATCH", "HOSTS", "JOB", "POLICY", "Cluster", "ClusterDriver", "HostClock", "delivered_on", "position"]
