"""E2 to E5 in the simulated cluster: subtasks with caches that follow the log as production's workers do.

Record n adds n + 1 to the value of its key, and every fifth record deletes its key. The function also trusts its own
fields. A cache that follows a wrong manifest, or continues where it must not, therefore gives wrong values.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from state_engine.epoch import follow
from state_engine.epoch.acks import Alignment
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import EpochError, MissingFileError, StorageError
from state_engine.key_groups import KeyGroupRange, key_group_of, range_of
from state_engine.log.barriers import Barrier
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import Op, log_schema
from state_engine.log.paths import change_path, output_path
from state_engine.log.records import Ack, OutputFile, StateHandle, StateSchema
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import history_of, read_base, read_change_rows, read_log_rows
from state_engine.testing.changes import state
from state_engine.testing.simulated_table import Rows

if TYPE_CHECKING:
    from state_engine.testing.simulated_cluster import Cluster

GROUPS = 13
ATTEMPTS = 2
SUM = state("sum", "total", "key string", "bigint")
TABLE, DELIVERED = "table", "told"
_COLUMNS = log_schema(SUM, ddl_to_arrow)
_TYPES = [column.type for column in SUM.key]


def key_of(record: int) -> str:
    return f"k{record * 5 % 7}"


@cache
def group_of(key: str) -> int:
    return key_group_of((key,), _TYPES, GROUPS)


class Truth(NamedTuple):
    """The result of a plain loop over all records."""

    state: dict[str, int]
    rows: Rows


def truth(records: int) -> Truth:
    """Returns state and output after the first `records` records."""
    state: dict[str, int] = {}
    rows = []
    for record in range(records):
        key = key_of(record)
        if record % 5 == 4:
            rows.append((record, key, -state.pop(key, 0)))
        else:
            state[key] = state.get(key, 0) + record + 1
            rows.append((record, key, state[key]))
    return Truth(state, tuple(rows))


def values_of(rows: Iterable[pa.Table], state: dict[str, int]) -> dict[str, int]:
    """Applies log rows to a state, and returns it."""
    for table in rows:
        columns = (table.column(name).to_pylist() for name in ("key", "op", "value"))
        for key, op, value in zip(*columns, strict=True):
            if op in (Op.DELETE, int(Op.DELETE)):
                state.pop(key, None)
            else:
                state[key] = value
    return state


@dataclass
class Instance:
    """A worker's cache of one subtask: `state` is that of the manifest `token`, `overlay` has unsealed changes."""

    state: dict[str, int] = field(default_factory=dict)
    overlay: dict[str, int | None] = field(default_factory=dict)
    fields: dict[str, int | None] = field(default_factory=dict)
    token: str | None = None
    pending: str | None = None

    def settle(self) -> None:
        for key, value in self.overlay.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.overlay = {}

    def value(self, key: str) -> int:
        value = self.fields.get(key, self.overlay.get(key, self.state.get(key, 0)))
        return value or 0

    def operate(self, records: Iterable[int]) -> list[tuple[int, str, int]]:
        rows = []
        for record in records:
            key = key_of(record)
            new = None if record % 5 == 4 else self.value(key) + record + 1
            rows.append((record, key, -self.value(key) if new is None else new))
            self.fields[key] = self.overlay[key] = new
        return rows


class Worker:
    """One worker process. It outlives drivers, and so does its view of the log."""

    def __init__(self, root: str, job: str) -> None:
        self._root, self._job = root, job
        self.log = ManifestLog(open_storage(root, job), job)
        self.instances: dict[tuple[int, int, int], Instance] = {}

    def acquire(self, plan: EpochPlan, own: OperatorPlan, subtask: int) -> Instance:
        """Does E3, as `WorkerCache.acquire` does."""
        for key in [key for key in self.instances if key[:2] != (plan.generation, own.parallelism)]:
            del self.instances[key]
        range_ = range_of(subtask, own.parallelism, own.max_parallelism)
        key = (plan.generation, own.parallelism, subtask)
        instance = self.instances.pop(key, None)
        if instance is None or not self._catch_up(instance, plan, own, subtask, range_):
            instance = Instance(self._load(plan, range_))
        instance.token = plan.predecessor
        self.instances[key] = instance
        return instance

    def discard(self, instance: Instance) -> None:
        self.instances = {key: one for key, one in self.instances.items() if one is not instance}

    def _catch_up(
        self, instance: Instance, plan: EpochPlan, own: OperatorPlan, subtask: int, range_: KeyGroupRange
    ) -> bool:
        token, instance.token = instance.token, None
        steps = None if token is None else follow.steps_since(self.log, token, plan)
        if steps is None:
            return False
        steps_to_take, keeps_fields = follow.steps_to_take(steps, instance.pending, own, subtask)
        if not steps_to_take:
            instance.overlay = {}
        for step, is_own in steps_to_take:
            if is_own:
                instance.settle()
            else:
                instance.overlay = {}
                rows = read_change_rows(self._storage(), step.manifest, SUM, range_.first, range_.last)
                try:
                    values_of(rows, instance.state)
                except MissingFileError:  # as in `worker_cache`: the cache is too old
                    return False
        instance.pending = None
        if not keeps_fields:
            instance.fields = {}
        return True

    def _load(self, plan: EpochPlan, range_: KeyGroupRange) -> dict[str, int]:
        head = follow.predecessor(self.log, plan)
        return {} if head is None else load(self._root, self._job, self.log, head, range_)

    def _storage(self) -> CheckpointStorage:
        return open_storage(self._root, self._job)


def load(root: str, job: str, log: ManifestLog, head: StoredManifest, range_: KeyGroupRange) -> dict[str, int]:
    """Loads the state of a range of key groups as of a manifest, by production's readers."""
    storage = open_storage(root, job)
    base = read_base(storage, head.manifest.base) if head.manifest.base is not None else None
    manifests = [stored.manifest for stored in log.chain(head)]
    segments = history_of(base, job, manifests, lambda other: open_storage(root, other))
    return values_of(read_log_rows(segments, _schema(head), range_.first, range_.last), {})


def _schema(head: StoredManifest) -> StateSchema:
    return next((schema for schema in head.manifest.schemas if schema.uid == SUM.uid), SUM)


@dataclass
class ClusterTasks:
    """The `Tasks` port for some records. `order` decides which acks are missing, doubled, or of an earlier epoch."""

    cluster: "Cluster"
    records: range
    order: int = 0

    def run(self, plan: EpochPlan) -> list[Barrier]:
        [own] = plan.operators
        barriers = [b for subtask in range(own.parallelism) for b in self._until_done(plan, own, subtask)]
        stray, self.cluster.stray = self.cluster.stray, barriers[0]
        if plan.retry:
            return barriers
        if self.order == 1 and stray is not None:  # an ack of an earlier epoch or attempt arrives late
            return [stray, *barriers]
        if self.order == 2 and stray is not None:  # and no other ack of its subtask arrives
            return [stray, *barriers[1:]]
        if self.order == 3:
            return [*barriers, *barriers]
        return barriers[1:] if self.order == 4 else barriers

    def _until_done(self, plan: EpochPlan, own: OperatorPlan, subtask: int) -> list[Barrier]:
        for attempt in range(ATTEMPTS):
            worker = self.cluster.worker_for(plan, subtask, attempt)
            try:
                ack = self._attempt(worker, plan, own, subtask)
            except StorageError:
                continue
            return list(Alignment(own.uid, subtask, place=(plan.incarnation, plan.epoch)).barriers(ack))
        raise EpochError(f"simulated: {ATTEMPTS} attempts of {own.uid}/{subtask} failed")

    def _attempt(self, worker: Worker, plan: EpochPlan, own: OperatorPlan, subtask: int) -> Ack:
        instance = worker.acquire(plan, own, subtask)
        try:
            return self._operate(instance, plan, own, subtask)
        except BaseException:
            worker.discard(instance)
            raise

    def _operate(self, instance: Instance, plan: EpochPlan, own: OperatorPlan, subtask: int) -> Ack:
        range_ = range_of(subtask, own.parallelism, own.max_parallelism)
        mine = [record for record in self.records if group_of(key_of(record)) in range_]
        attempt, storage = self.cluster.new_id(), self.cluster.storage
        out = instance.operate(mine)
        handle, inlined = self._changes(instance.overlay, plan, own, subtask, attempt)
        if inlined is None and handle is not None:
            storage.put_exclusive(handle.path, self._data)
        outputs = list(self._staged(out, plan, own, subtask, attempt, storage)) if out else []
        instance.pending = attempt
        return Ack(
            uid=own.uid, subtask=subtask, attempt=attempt, records_in=len(mine), records_out=len(out), changes=handle,
            inlined=inlined, outputs=tuple(outputs), schemas=(SUM,),
        )  # fmt: skip

    def _changes(
        self, overlay: dict[str, int | None], plan: EpochPlan, own: OperatorPlan, subtask: int, attempt: str
    ) -> tuple[StateHandle | None, bytes | None]:
        if not overlay:
            return None, None
        rows = [_row(key, value, number, plan) for number, (key, value) in enumerate(sorted(overlay.items()))]
        rows.sort(key=lambda row: (row["key_group"], row["seq"]))
        header = ChangeFileHeader(
            job=plan.job, generation=plan.generation, epoch=plan.epoch, uid=own.uid, subtask=subtask, attempt=attempt,
            max_parallelism=GROUPS,
        )  # fmt: skip
        buffers, sections, checksum, length = encode_change_file(
            header, [(SUM, pa.Table.from_pylist(rows, _COLUMNS))], "none"
        )
        self._data = b"".join(memoryview(buffer).cast("B") for buffer in buffers)
        path = change_path(plan.generation, plan.epoch, own.uid, subtask, attempt)
        handle = StateHandle(
            path=path, length=length, checksum=checksum, rows=len(rows), codec="none", sections=sections
        )
        return handle, self._data if length <= plan.inline_budget else None

    def _staged(
        self,
        rows: Sequence[tuple[int, str, int]],
        plan: EpochPlan,
        own: OperatorPlan,
        subtask: int,
        attempt: str,
        storage: CheckpointStorage,
    ) -> Iterator[OutputFile]:
        path = output_path(plan.generation, plan.epoch, own.uid, subtask, attempt, TABLE)
        self.cluster.table.write_file(path, tuple(rows))
        yield OutputFile(output=TABLE, path=path, in_table=True, length=len(rows), checksum="", rows=len(rows))
        path, data = output_path(plan.generation, plan.epoch, own.uid, subtask, attempt, DELIVERED), json.dumps(rows)
        storage.put_exclusive(path, data.encode())
        yield OutputFile(output=DELIVERED, path=path, length=len(data), checksum="", rows=len(rows))


def _row(key: str, value: int | None, number: int, plan: EpochPlan) -> dict[str, object]:
    op = Op.DELETE if value is None else Op.PUT
    return {
        "key_group": group_of(key), "key": key, "namespace": None, "value": value, "op": int(op), "seq": number,
        "last_access": None if value is None else plan.processing_time,
    }  # fmt: skip


__all__ = ["DELIVERED", "GROUPS", "SUM", "TABLE", "ClusterTasks", "Truth", "Worker", "load", "truth"]
