"""One subtask of three chained operators in one epoch, from batches to its acks. No JVM."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.output_tag import columns_type
from state_engine.backends.schemas import state_schema
from state_engine.causes import WorkerEndsError
from state_engine.epoch.acks import digest_of_attempts
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan, StreamEdge
from state_engine.key_groups import key_group_of, range_of, subtask_of
from state_engine.log.barriers import Barrier
from state_engine.log.records import Ack
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column
from state_engine.spark.wire.handover import Reader
from state_engine.spark.wire.rows import CONTROL, PLACE, barrier_of_mark, decode_barrier
from state_engine.spark.wire.task_spec import StageSpec, TaskSpec, pack
from state_engine.spark.worker import cache as worker_cache
from state_engine.spark.worker import link, task
from state_engine.spark.worker.cache import WorkerCache
from state_engine.spark.worker.link import Packed
from state_engine.spark.worker.task import Subtask
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.testing.jobs import JobBuilder

MAX, PARALLELISM = 13, 3
KEY = (Column(name="k", type="string"),)
COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.LONG())
ODD = OutputTag("odd", "v bigint")
COLUMNS = columns_type("k string, v bigint", "input")
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), (CONTROL, pa.binary())])
MINE = [k for k in map(str, range(30)) if subtask_of(key_group_of([k], ["string"], MAX), PARALLELISM, MAX) == 1]
CALLS: list[Any] = []
SNAPSHOTS: list[int] = []


@pytest.fixture(autouse=True, scope="module")
def functions_travel_by_value() -> None:
    """Functions are not pickled by value here: they run in this process, and `CALLS` shows their arguments."""


class Sum(KeyedProcessFunction, CheckpointListener):
    """Adds the values of a key; emits the key with its sum."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        count = (self.count.value() or 0) + value.v
        self.count.update(count)
        return [(value.k, count)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("sum", checkpoint_id))

    def close(self) -> None:
        CALLS.append("closed")


class Split(ProcessFunction, CheckpointedFunction, CheckpointListener):
    """Sends odd sums to a side output; keeps the number of rows in operator state."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(SEEN)
        self.seen = sum(self.state.get())

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        key, v = value
        if v == 666:
            raise ValueError("no luck")
        CALLS.append(value)
        self.seen += 1
        return [(ODD, (v,))] if v % 2 else [(key, v)]

    def snapshot_state(self, context: Any) -> None:
        SNAPSHOTS.append(self.seen)
        self.state.update([self.seen])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("split", checkpoint_id))


class Last(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        CALLS.append(value)
        return [(value[0], value[1] * 10)]

    def finish(self) -> list[Any]:
        CALLS.append("finish")
        return [("end", 0)]


def specs(*, reuse: bool = False) -> list[TaskSpec]:
    plain = OperatorSpec("sum", "keyed_process", Sum(), COLUMNS, KEY, (), COLUMNS, max_parallelism=MAX)
    side = {"odd": columns_type("v bigint", "odd")}
    split = replace(plain, uid="split", kind="process", function=Split(), key=(), side_outputs=side)
    last = replace(plain, uid="last", kind="process", function=Last(), key=())
    kept = {"keeps_rows": reuse, "writes_main": not reuse}
    return [
        TaskSpec(replace(plain, keeps_rows=reuse), (StageSpec("sums", "main", None),), readers=(Reader("split"),)),
        TaskSpec(replace(split, **kept), (StageSpec("odds", "odd", None),), readers=(Reader("last"),)),
        TaskSpec(last, (StageSpec("lasts", "main", None),)),
    ]


class Worker:
    """One worker that runs subtask 1 of the chain."""

    def __init__(self, job: JobBuilder, *, reuse: bool = False) -> None:
        self.job = job
        self.packed = [Packed(*pack(spec)) for spec in specs(reuse=reuse)]
        self.edges = [("sum", "split", True), ("split", "last", True)]

    def run(
        self, *batches: pa.RecordBatch, crash: Callable[[CrashPoint], None] = lambda _: None, **fields: Any
    ) -> Barrier:
        [out] = self.batches(*batches, crash=crash, **fields)
        [barrier] = [decode_barrier(data) for data in out.column(CONTROL).to_pylist()]
        return barrier

    def batches(
        self, *batches: pa.RecordBatch, crash: Callable[[CrashPoint], None] = lambda _: None, **fields: Any
    ) -> list[pa.RecordBatch]:
        """Returns the output: records, if an operator of the plan reads them, and the barriers."""
        assert self.job.head is not None
        manifest = self.job.head.manifest
        operators = [OperatorPlan(uid="sum", parallelism=PARALLELISM, max_parallelism=MAX)]
        for upstream, uid, chained in self.edges:
            edges = (StreamEdge(upstream=upstream, chained=chained),)
            operators.append(OperatorPlan(uid=uid, parallelism=PARALLELISM, max_parallelism=MAX, edges=edges))
        plan = EpochPlan(
            job=self.job.job,
            root=self.job.root,
            generation=manifest.generation,
            epoch=manifest.epoch + 1,
            incarnation="0" * 32,
            predecessor=self.job.head.hash,
            predecessor_epoch=manifest.epoch,
            predecessor_generation=manifest.generation,
            processing_time=self.job.now_ms,
            operators=tuple(operators),
            **fields,
        )
        return list(Subtask(self.packed, plan, crash).run([control_row(), *batches]))


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    job = JobBuilder(
        str(tmp_path), "job", [state_schema("sum", KEY, COUNT)], parallelism=PARALLELISM, max_parallelism=MAX
    )
    job.epoch()
    return job


@pytest.fixture(autouse=True)
def storage(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> FaultyStorage:
    faulty, worker = FaultyStorage(job.storage), WorkerCache()
    monkeypatch.setattr(link, "storage_of", lambda root, job: faulty)
    monkeypatch.setattr(link, "WORKER", worker)
    monkeypatch.setattr(task, "WORKER", worker)
    CALLS.clear()
    SNAPSHOTS.clear()
    return faulty


def records(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": key, "v": v} for key, v in zip(MINE, values, strict=False)], schema=SCHEMA)


def control_row() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{CONTROL: b"%05d" % range_of(1, PARALLELISM, MAX).first}], schema=SCHEMA)


def by_uid(barrier: Barrier) -> dict[str, Ack]:
    return {ack.uid: ack for ack in barrier.acks}


@pytest.mark.parametrize("reuse", [False, True], ids=["columns", "objects"])
def test_every_link_has_its_ack_its_changes_and_its_outputs(job: JobBuilder, reuse: bool) -> None:
    barrier = Worker(job, reuse=reuse).run(records(1, 2, 4), records(3), finishing=("last",))
    assert barrier.uid == "last"
    acks = by_uid(barrier)
    assert [*acks] == ["sum", "split", "last"]
    assert {(ack.subtask, ack.attempt) for ack in barrier.acks} == {(1, barrier.attempt)}
    assert [(ack.records_in, ack.records_out) for ack in barrier.acks] == [(4, 4), (4, 4), (3, 4)]
    assert [(ack.changes.rows if ack.changes else None) for ack in barrier.acks] == [
        3,
        2,
        None,
    ]  # a list is cleared, then written
    assert {o.output: o.rows for ack in barrier.acks for o in ack.outputs} == {"sums": 4, "odds": 1, "lasts": 4}
    assert [bool(ack.timings_ms) for ack in barrier.acks] == [True, False, False]
    assert set(barrier.acks[0].timings_ms) == {"input", "catch_up", "process", "changes", "stage", "freeze"}
    own = digest_of_attempts([barrier.attempt])
    assert barrier.seen == ()
    assert {(seen.uid, seen.by_uid, seen.by_subtask, seen.digest) for seen in barrier.seen_all} == {
        ("sum", "split", 1, own),
        ("split", "last", 1, own),
    }
    assert CALLS[-1] == "finish"


class Farewell(Sum):
    """Emits one more row when its input has ended."""

    def finish(self) -> list[Any]:
        return [("bye", 8)]


def test_what_a_link_gives_without_a_record_goes_through_all_links_after_it(job: JobBuilder) -> None:
    worker = Worker(job)
    first, *others = specs()
    first = replace(first, operator=replace(first.operator, function=Farewell()))
    worker.packed = [Packed(*pack(spec)) for spec in (first, *others)]
    acks = by_uid(worker.run(records(2), finishing=("sum",)))
    assert [tuple(call) for call in CALLS] == [(MINE[0], 2), (MINE[0], 2), ("bye", 8), ("bye", 8)]
    assert [(ack.records_in, ack.records_out) for ack in acks.values()] == [(1, 2), (2, 2), (2, 2)]
    assert {o.output: o.rows for ack in acks.values() for o in ack.outputs} == {"sums": 2, "lasts": 2}


def test_several_operators_read_the_outputs_of_the_last_link(job: JobBuilder) -> None:
    worker = Worker(job)
    sums, split, _ = specs()
    split = replace(split, readers=(Reader("main"), Reader("again"), Reader("odd", "odd")))
    worker.packed = [Packed(*pack(spec)) for spec in (sums, split)]
    worker.edges = [("sum", "split", True), *(("split", uid, False) for uid in ("main", "again", "odd"))]
    out = [row for batch in worker.batches(records(1, 2, 4)) for row in batch.to_pylist()]
    rows = [tuple(row.values()) for row in out if row[CONTROL] is None]
    assert rows == [(MINE[1], 2, 1, None), (MINE[2], 4, 1, None), (None, 1, 1 + PARALLELISM, None)]
    marks = [(row[PLACE], barrier_of_mark(row[CONTROL])) for row in out if row[CONTROL] is not None]
    assert [place for place, _ in marks] == [1] * PARALLELISM + [1 + PARALLELISM] * PARALLELISM
    for start in (0, PARALLELISM):  # the subtask 0 of each reader gets all acks
        acks = [len(barrier.acks) for _, barrier in marks[start : start + PARALLELISM] if barrier is not None]
        assert acks == [2, 0, 0]
    assert len({barrier.attempt for _, barrier in marks if barrier is not None}) == 1


@pytest.mark.parametrize("reuse", [False, True], ids=["columns", "objects"])
def test_rows_are_made_of_columns_or_are_the_objects_themselves(job: JobBuilder, reuse: bool) -> None:
    Worker(job, reuse=reuse).run(records(2))
    of_split, of_last = CALLS
    assert {type(of_split) is tuple, type(of_last) is tuple} == {reuse}
    assert [tuple(of_split), tuple(of_last)] == [(MINE[0], 2)] * 2


def test_functions_hear_of_checkpoints_before_any_record_the_last_one_first(job: JobBuilder) -> None:
    Worker(job).run(records(2), completed=(7,))
    assert CALLS[:2] == [("split", 7), ("sum", 7)]
    assert len(CALLS) == 4


def test_a_failure_in_the_middle_poisons_the_others_and_the_next_attempt_starts_right(job: JobBuilder) -> None:
    worker = Worker(job)
    acks = by_uid(worker.run(records(2, 4), records(664), records(8)))
    assert {uid: ack.failure.kind for uid, ack in acks.items() if ack.failure} == {
        "sum": "poison",
        "split": "user_function",
        "last": "poison",
    }
    assert acks["split"].failure is not None
    assert "no luck" in acks["split"].failure.message
    assert not any(ack.changes or ack.outputs for ack in acks.values())

    CALLS.clear()
    again = by_uid(worker.run(records(2, 4)))
    assert all(ack.failure is None for ack in again.values())
    assert [(row[0], row[1]) for row in CALLS] == [(MINE[0], 2), (MINE[1], 4)] * 2  # nothing of the attempt before
    assert again["split"].changes is not None
    assert [ack.records_in for ack in again.values()] == [2, 2, 2]


@pytest.mark.parametrize("link_that_dies", [1, 2, 3])
@pytest.mark.parametrize("point", [CrashPoint.E5_BEFORE_CHANGE_FILE, CrashPoint.E5_OUTPUT_STAGED])
def test_a_task_that_ends_between_its_links_is_tried_again_from_the_start(
    job: JobBuilder, point: CrashPoint, link_that_dies: int
) -> None:
    passed = 0

    def crash(at: CrashPoint) -> None:
        nonlocal passed
        passed += at is point
        if at is point and passed == link_that_dies:
            raise WorkerEndsError

    worker = Worker(job)
    with pytest.raises(WorkerEndsError):
        worker.run(records(1, 2, 4), crash=crash)
    CALLS.clear()
    acks = by_uid(worker.run(records(2, 4)))
    assert all(ack.failure is None for ack in acks.values())
    assert [(row[0], row[1]) for row in CALLS] == [(MINE[0], 2), (MINE[1], 4)] * 2
    assert [ack.changes.rows if ack.changes else None for ack in acks.values()] == [2, 2, None]


def test_fields_of_an_attempt_that_was_not_sealed_are_gone_after_a_claim(job: JobBuilder) -> None:
    worker = Worker(job)
    worker.run(records(2, 4))
    job.epoch(kind="claim")
    worker.run(records(2))
    assert SNAPSHOTS == [2, 1]


def test_storage_that_takes_no_file_of_a_link_fails_the_epoch_by_its_uid(
    job: JobBuilder, storage: FaultyStorage
) -> None:
    worker = Worker(job)
    storage.faults.append(Fault("before", "put_exclusive", times=None))
    acks = by_uid(worker.run(records(2)))
    assert {uid: ack.failure.kind for uid, ack in acks.items() if ack.failure} == {
        "sum": "engine",
        "split": "poison",
        "last": "poison",
    }
    storage.faults.clear()
    assert all(ack.failure is None for ack in worker.run(records(2)).acks)


def test_a_full_cache_closes_no_instance_of_the_task_itself(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_cache, "_INSTANCES", 1)
    worker = Worker(job)
    for _ in range(2):
        assert all(ack.failure is None for ack in worker.run(records(2, 4, 6)).acks)
    assert "closed" not in CALLS


def test_an_exception_without_a_name_of_ours_is_in_the_operators_ack(job: JobBuilder) -> None:
    def crash(at: CrashPoint) -> None:
        if at is CrashPoint.E5_OUTPUT_STAGED:
            raise MemoryError("no more")

    failure = by_uid(Worker(job).run(records(2), crash=crash))["sum"].failure
    assert failure is not None
    assert (failure.kind, failure.uid, failure.error) == ("engine", "sum", "")
    assert failure.message == "The task raised MemoryError: no more."
    assert "raise MemoryError" in failure.traceback
