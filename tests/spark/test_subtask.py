"""One subtask in one epoch, from batches to its ack. No JVM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.api.output_tag import columns_type
from state_engine.backends.schemas import state_schema
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.key_groups import key_group_of, range_of, subtask_of
from state_engine.log.change_file import verify_change_file
from state_engine.log.records import Ack
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column
from state_engine.spark.wire.rows import CONTROL, decode_barrier
from state_engine.spark.wire.task_spec import TaskSpec, pack
from state_engine.spark.worker import link, task
from state_engine.spark.worker.cache import WorkerCache
from state_engine.spark.worker.link import Packed
from state_engine.spark.worker.task import Subtask, crash_hook
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.testing.changes import put
from state_engine.testing.jobs import JobBuilder

MAX, PARALLELISM = 13, 3
KEY = (Column(name="k", type="string"),)
COUNT = ValueStateDescriptor("count", Types.LONG())
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), (CONTROL, pa.binary())])
MINE = [k for k in map(str, range(30)) if subtask_of(key_group_of([k], ["string"], MAX), PARALLELISM, MAX) == 1]


class Sum(KeyedProcessFunction):
    """Adds the values of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        self.count.update((self.count.value() or 0) + value.v)
        return []


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    job = JobBuilder(
        str(tmp_path), "job", [state_schema("sum", KEY, COUNT)], parallelism=PARALLELISM, max_parallelism=MAX
    )
    job.epoch({("sum", "count"): [put(key, 100) for key in MINE]})
    return job


@pytest.fixture
def storage(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> FaultyStorage:
    faulty = FaultyStorage(job.storage)
    worker = WorkerCache()
    monkeypatch.setattr(link, "storage_of", lambda root, job: faulty)
    monkeypatch.setattr(link, "WORKER", worker)
    monkeypatch.setattr(task, "WORKER", worker)
    return faulty


def run(job: JobBuilder, *batches: pa.RecordBatch, inline_budget: int = 0) -> Ack:
    """Runs the subtask that the batches belong to, as the last operator; returns its ack."""
    assert job.head is not None
    manifest = job.head.manifest
    columns = columns_type("k string, v bigint", "input")
    packed = Packed(
        *pack(TaskSpec(OperatorSpec("sum", "keyed_process", Sum(), columns, KEY, (), columns, max_parallelism=MAX)))
    )
    plan = EpochPlan(
        job=job.job,
        root=job.root,
        generation=manifest.generation,
        epoch=manifest.epoch + 1,
        incarnation="0" * 32,
        predecessor=job.head.hash,
        predecessor_epoch=manifest.epoch,
        predecessor_generation=manifest.generation,
        processing_time=job.now_ms,
        operators=(OperatorPlan(uid="sum", parallelism=PARALLELISM, max_parallelism=MAX),),
        inline_budget=inline_budget,
    )
    [out] = Subtask([packed], plan, crash_hook(None, plan.epoch)).run(batches)
    [barrier] = [decode_barrier(data) for data in out.column(CONTROL).to_pylist()]
    [ack] = barrier.acks
    return ack


def records(keys: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": key, "v": 1} for key in keys], schema=SCHEMA)


def control_row(subtask: int) -> pa.RecordBatch:
    group = range_of(subtask, PARALLELISM, MAX).first
    return pa.RecordBatch.from_pylist([{CONTROL: b"%05d" % group}], schema=SCHEMA)


def test_the_subtask_is_that_of_the_first_row_be_it_mark_or_record(job: JobBuilder, storage: FaultyStorage) -> None:
    for batches in ([control_row(1), records(MINE)], [records(MINE), control_row(1)], [control_row(1)]):
        ack = run(job, *batches)
        assert (ack.subtask, ack.failure) == (1, None)
        assert ack.records_in == sum(b.num_rows for b in batches) - 1


def test_a_record_of_another_subtask_fails_the_epoch(job: JobBuilder, storage: FaultyStorage) -> None:
    others = [key for key in map(str, range(30)) if key not in MINE]
    ack = run(job, control_row(1), records([*MINE, others[0]]))
    assert ack.failure is not None
    assert ack.failure.error == "RoutingError"
    assert repr(others[0]) in ack.failure.message
    assert ack.changes is None
    assert not [path for operation, path in storage.calls if operation.startswith("put")]


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_change_file_is_tried_again_under_a_new_name(job: JobBuilder, storage: FaultyStorage, kind: Any) -> None:
    storage.faults.append(Fault(kind, "put_exclusive", times=2))
    ack = run(job, control_row(1), records(MINE))
    assert ack.failure is None
    assert ack.changes is not None
    tried = [path for operation, path in storage.calls if operation == "put_exclusive"]
    assert len(set(tried)) == len(tried) == 3
    assert ack.changes.path == tried[-1]
    assert storage.inner.exists(ack.changes.path)


def test_a_storage_that_never_takes_the_change_file_fails_the_epoch_by_name(
    job: JobBuilder, storage: FaultyStorage
) -> None:
    storage.faults.append(Fault("before", "put_exclusive", times=None))
    ack = run(job, control_row(1), records(MINE))
    assert ack.failure is not None
    assert ack.failure.error == "StorageError"
    assert "10 attempts" in ack.failure.message


def test_changes_within_the_budget_need_no_storage(job: JobBuilder, storage: FaultyStorage) -> None:
    written = run(job, control_row(1), records(MINE)).changes
    assert written is not None
    storage.calls.clear()

    ack = run(job, control_row(1), records(MINE), inline_budget=written.length)
    assert ack.changes is not None
    assert ack.inlined is not None
    assert not [path for operation, path in storage.calls if operation.startswith("put")]
    assert not storage.inner.exists(ack.changes.path)
    assert len(ack.inlined) == ack.changes.length == written.length
    assert ack.changes.path != written.path
    assert ack.changes.sections == written.sections
    assert verify_change_file(ack.inlined).footer.sections == written.sections


def test_one_byte_too_many_is_a_file(job: JobBuilder, storage: FaultyStorage) -> None:
    written = run(job, control_row(1), records(MINE)).changes
    assert written is not None
    ack = run(job, control_row(1), records(MINE), inline_budget=written.length - 1)
    assert ack.changes is not None
    assert ack.inlined is None
    assert storage.inner.exists(ack.changes.path)


def test_a_failed_subtask_hands_nothing_over(job: JobBuilder, storage: FaultyStorage) -> None:
    others = [key for key in map(str, range(30)) if key not in MINE]
    ack = run(job, control_row(1), records([*MINE, others[0]]), inline_budget=1 << 20)
    assert ack.failure is not None
    assert (ack.changes, ack.inlined) == (None, None)
