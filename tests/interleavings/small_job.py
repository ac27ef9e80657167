"""The smallest job that production's own driver runs: one operator, one value per key, records that are numbers.

Record n puts n under one of six keys, and each fifth one deletes: what the state is after any epoch is a plain loop.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pyarrow as pa

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import Clock, Ids
from state_engine.epoch.acks import Alignment
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.ports import EpochPlan, SourcePositions, TableFence
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.errors import StopRequestedError
from state_engine.key_groups import key_group_of
from state_engine.log.barriers import Barrier
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import Op, log_schema
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, Manifest, StateHandle
from state_engine.log.source_records import SourcePosition
from state_engine.savepoint import adopt_for, kept_for_start, resolve_restore
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.savepoint.selection import selection_of
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.background import Background, Inline
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.testing.changes import state
from state_engine.testing.manual import ManualBarriers

GROUPS = 4
BATCH = 4
COUNT = state("count", "n", "key string", "bigint")
TYPES = [column.type for column in COUNT.key]
State = dict[str, int]


def key_of(record: int) -> str:
    return f"k{record * 5 % 6}"


def group_of(key: str) -> int:
    return key_group_of((key,), TYPES, GROUPS)


def after(state: State, first: int, last: int) -> State:
    """Returns the state after the records from `first` to `last`, without `last`."""
    state = dict(state)
    for record in range(first, last):
        if record % 5 == 4:
            state.pop(key_of(record), None)
        else:
            state[key_of(record)] = record
    return state


def position(manifest: Manifest) -> int:
    return int(manifest.sources[0].offset) if manifest.sources else 0


class NoSinks:
    def fences(self) -> list[TableFence]:
        return []

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None: ...

    def prepare(self) -> None: ...

    def deliver(self, manifest: Manifest) -> None: ...

    def commit(self, sealed: StoredManifest) -> None: ...

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None: ...

    def check_rewind(self, target: StoredManifest, generation: int) -> None: ...

    def check_owed(self, sealed: StoredManifest) -> None: ...

    def close(self) -> None: ...

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None: ...


@dataclass
class Tasks:
    """E2 to E5 for one batch: writes change files as a task does."""

    storage: CheckpointStorage
    ids: Ids
    first: int
    last: int

    def run(self, plan: EpochPlan) -> list[Barrier]:
        [operator] = plan.operators
        attempt = self.ids.new_id()
        rows = [self._row(n, plan) for n in range(self.first, self.last)]
        rows.sort(key=lambda row: (row["key_group"], row["seq"]))
        table = pa.Table.from_pylist(rows, log_schema(COUNT, ddl_to_arrow))
        header = ChangeFileHeader(
            job=plan.job, generation=plan.generation, epoch=plan.epoch, uid=operator.uid, subtask=0, attempt=attempt,
            max_parallelism=GROUPS,
        )  # fmt: skip
        buffers, sections, checksum, length = encode_change_file(header, [(COUNT, table)])
        path = change_path(plan.generation, plan.epoch, operator.uid, 0, attempt)
        self.storage.put_exclusive(path, *buffers)
        handle = StateHandle(
            path=path, length=length, checksum=checksum, rows=len(rows), codec="zstd", sections=sections
        )
        ack = Ack(
            uid=operator.uid, subtask=0, attempt=attempt, records_in=len(rows), records_out=0, changes=handle,
            schemas=(COUNT,),
        )  # fmt: skip
        return list(Alignment(operator.uid, 0).barriers(ack))

    def _row(self, record: int, plan: EpochPlan) -> dict[str, object]:
        op, key = Op.DELETE if record % 5 == 4 else Op.PUT, key_of(record)
        return {
            "key_group": group_of(key), "key": key, "namespace": None, "value": record if op is Op.PUT else None,
            "op": int(op), "seq": record - self.first,
            "last_access": plan.processing_time if op is Op.PUT else None,
        }  # fmt: skip


@dataclass
class Run:
    """One start of a job and a few epochs of it, by production's `StartUp`, `EpochDriver` and publisher.

    `script` has a letter per step: `e` an epoch, `c` one with a checkpoint, `f` one with a FULL checkpoint, `g` key
    groups 0 and 1 restored from `source`.
    """

    root: str
    job: str
    script: str
    clock: Clock
    ids: Ids
    restore: str | None = None
    source: str = ""
    background: Background = field(default_factory=Inline)
    on_end: Callable[[], None] = lambda: None
    on_stop: Callable[[StoredManifest], None] = lambda head: None
    stopping: bool = False
    driver: EpochDriver | None = None

    def __call__(self) -> None:
        try:
            self._run()
        except StopRequestedError:
            assert self.driver is not None
            self.on_stop(self.driver.head)
        finally:
            self.on_end()

    def stop(self) -> None:
        """Asks the driver to end after its epoch; without a driver yet, none will begin. May be called at any place."""
        self.stopping = True
        if self.driver is not None:
            self.driver.request_stop()

    def _run(self) -> None:
        storage = open_storage(self.root, self.job)
        log = ManifestLog(storage, self.job, open_job=self._open)
        publisher = CheckpointPublisher(
            storage, self.job, background=self.background, clock=self.clock, ids=self.ids, open_job=self._open
        )
        request = StartRequest(
            job=self.job,
            root=self.root,
            operators=(
                OperatorShape(uid=COUNT.uid, parallelism=1, max_parallelism=GROUPS, keys=COUNT.key, schemas=(COUNT,)),
            ),
            restore=resolve_restore(self.root, self.job, self.restore) if self.restore is not None else None,
        )
        with kept_for_start(request, clock=self.clock, ids=self.ids) as hold:
            start = StartUp(log, NoSinks(), publisher, self.clock, self.ids, hold=hold)
            head = start.run(adopt_for(request, log, clock=self.clock, ids=self.ids, hold=hold, validate=False))
        barriers = ManualBarriers(publisher.next_checkpoint_id())
        driver = self.driver = EpochDriver(head, log, NoSinks(), publisher, barriers, self.clock)
        if self.stopping:
            driver.request_stop()
        for step in self.script:
            if step == "g":
                selection = selection_of([(0, 1)], None, None)
                restorer = GroupRestorer(self.root, self.job, self.source, selection, ids=self.ids)
                with restorer.kept(self.clock):
                    driver.restore_groups(restorer.write)
                continue
            barriers.wanted, barriers.full = step in "cf", step == "f"
            first = position(driver.head.manifest)
            tasks = Tasks(storage, self.ids, first, first + BATCH)
            driver.run_epoch(tasks, SourcePositions(positions=(SourcePosition(offset=str(first + BATCH)),)))

    def _open(self, job: str) -> CheckpointStorage:
        return open_storage(self.root, job)


@dataclass
class Sealed:
    """Every manifest that was ever sealed, and the state after it. Nothing is ever removed here."""

    manifests: dict[tuple[str, int, int], StoredManifest] = field(default_factory=dict)

    def state(self, job: str, generation: int, epoch: int) -> State:
        """Computes the state after a manifest from its records and those before it alone, without any change file."""
        manifest = self.manifests[job, generation, epoch].manifest
        before = self._before(manifest)
        if before is None:
            return after({}, 0, position(manifest))
        state = self.state(*before)
        if manifest.restored is not None:
            source = manifest.restored.source
            restored = self.state(source.job, source.generation, source.epoch)
            [ranges] = manifest.restored.groups.values()
            groups = {group for first, last in ranges for group in range(first, last + 1)}
            kept = {key: value for key, value in state.items() if group_of(key) not in groups}
            return kept | {key: value for key, value in restored.items() if group_of(key) in groups}
        return after(state, position(self.manifests[before].manifest), position(manifest))

    @staticmethod
    def _before(manifest: Manifest) -> tuple[str, int, int] | None:
        if manifest.origin is not None:
            return manifest.origin.job, manifest.origin.generation, manifest.origin.epoch
        if not manifest.predecessor:
            return None
        spans = [s for s in manifest.lineage if s.first < manifest.epoch <= (s.last or manifest.epoch) + 1]
        [generation] = [s.generation for s in spans]
        return manifest.job, generation, manifest.epoch - 1


__all__ = [
    "BATCH",
    "COUNT",
    "GROUPS",
    "Run",
    "Sealed",
    "State",
    "position",
]
