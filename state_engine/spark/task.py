"""One subtask of one operator in one epoch: E2 to E5, inside a Python worker.

The function that Spark sends is constant for the life of the query; the epoch's plan comes as a local property.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from state_engine.api.timers import TimeDomain
from state_engine.backends.keys import KeyCodec
from state_engine.backends.tables import StateValueError
from state_engine.clock import RandomIds
from state_engine.epoch.acks import Alignment
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.epoch.watermarks import NO_TIMERS
from state_engine.errors import LakestateError
from state_engine.key_groups import range_of, subtask_of
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, EarliestTimers, Failure, OutputFile, StateHandle
from state_engine.runtime.emitted import EVENT_TIME, columns_of_output
from state_engine.runtime.failures import OperatorFailure, engine_failure, state_failure
from state_engine.runtime.outputs import MAIN
from state_engine.serialization.types import schema_of
from state_engine.spark.event_times import EventTimesSeen
from state_engine.spark.kill_at import KillAt
from state_engine.spark.staging import Stages, Stopwatch
from state_engine.spark.task_spec import TaskSpec
from state_engine.spark.wire import (
    CONTROL,
    GROUP,
    PLAN_PROPERTY,
    barrier_mark,
    barrier_of_mark,
    encode_barrier,
    group_of_mark,
    is_record,
)
from state_engine.spark.worker_cache import WORKER, Cached, settle_memory, storage_of
from state_engine.storage.create import create_under_new_name
from state_engine.storage.port import CheckpointStorage

CRASH_PROPERTY = "lakestate.crash"
_plans = msgspec.json.Decoder(EpochPlan)


class TaskFunction:
    """What `mapInArrow` runs for an operator.

    Args:
        payload: The packed `TaskSpec`.
        digest: Its digest.
    """

    def __init__(self, payload: bytes, digest: str) -> None:
        self._payload = payload
        self._digest = digest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        plan = _plans.decode(context.getLocalProperty(PLAN_PROPERTY))
        crash = crash_hook(context.getLocalProperty(CRASH_PROPERTY), plan.epoch)
        return Subtask(WORKER.spec(self._payload, self._digest), self._payload, self._digest, plan, crash).run(batches)


class Subtask:
    """One attempt of one subtask."""

    def __init__(
        self, spec: TaskSpec, payload: bytes, digest: str, plan: EpochPlan, crash: Callable[[CrashPoint], None]
    ) -> None:
        self._spec = spec
        self._payload = payload
        self._digest = digest
        self._plan = plan
        self._crash = crash
        self._uid = spec.operator.uid
        self._attempt = RandomIds().new_id()
        plans = {o.uid: o for o in plan.operators}
        self._own: OperatorPlan = plans[self._uid]
        self._upstream = [plans[uid] for uid in self._own.upstream]
        self._downstream = plans[spec.downstream] if spec.downstream else None
        self._input = schema_of(spec.operator.input)
        self._emits = columns_of_output(spec.operator)
        self._event_times = EventTimesSeen(self._uid, self._own.edges)
        self._watch = Stopwatch()
        self._records_in = 0
        self._records_out = 0
        self._failure: Failure | None = None
        self._held: Cached | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the operator over the batches; yields its records for the next operator, then the barriers."""
        try:
            yield from self._run(batches)
        finally:
            if self._held is not None:
                self._held.release()

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        iterator = iter(batches)
        first = next((b for b in iterator if b.num_rows), None)
        if first is None:
            return  # Spark ran a partition that is no subtask; a missing ack would say so
        self._watch.lap("input")
        subtask = subtask_of(self._group_of(first), self._own.parallelism, self._own.max_parallelism)
        alignment = Alignment(self._uid, subtask, self._upstream)
        stages = Stages(self._spec.stages, self._uid, subtask, self._plan)
        self._crash(CrashPoint.E2_ROUTED)
        cached = self._acquire(subtask)
        self._crash(CrashPoint.E3_CAUGHT_UP)
        if cached is not None:
            cached = yield from self._emit(cached, stages, cached.operator.advance)
        for batch in _chain(first, iterator):
            self._watch.lap("input")
            records = self._take_marks(batch, alignment)
            if cached is not None and records.num_rows:
                cached = yield from self._emit(cached, stages, partial(self._process, cached, records))
        if cached is not None and self._failure is None and self._uid in self._plan.finishing:
            cached = yield from self._emit(cached, stages, cached.operator.finish)
        self._crash(CrashPoint.E4_OPERATED)
        yield self._marks(alignment, self._end(cached, stages, subtask))
        self._crash(CrashPoint.E5_ACKED)

    def _group_of(self, batch: pa.RecordBatch) -> int:
        """Returns the key group of a batch's first row: the subtask's number comes as data."""
        mark = batch.column(CONTROL)[0].as_py()
        if mark is not None:
            return group_of_mark(mark)
        if GROUP in batch.schema.names:
            group: int = batch.column(GROUP)[0].as_py()
            return group
        key = self._spec.operator.key
        codec = KeyCodec(key, self._own.max_parallelism)
        return codec.key_group(codec.read([batch.column(c.name).slice(0, 1) for c in key])[0])

    def _acquire(self, subtask: int) -> Cached | None:
        """E3."""
        try:
            cached = WORKER.acquire(self._payload, self._digest, self._plan, subtask, self._spec.cache_bytes)
            self._held = cached
            watermark = self._plan.watermarks.get(self._uid)
            plan = self._plan
            cached.operator.begin(plan.processing_time, watermark, plan.retry, plan.completed, plan.aborted)
        except OperatorFailure as error:
            self._failure = error.failure
            return None
        except LakestateError as error:
            self._failure = engine_failure(self._uid, subtask, error)
            return None
        finally:
            self._watch.lap("catch_up")
        return cached

    def _take_marks(self, batch: pa.RecordBatch, alignment: Alignment) -> pa.RecordBatch:
        """Adds the barriers of a batch to the alignment and returns its records."""
        control = batch.column(CONTROL)
        if control.null_count == len(control):
            return batch
        for mark in control.drop_null():
            barrier = barrier_of_mark(mark.as_py())
            if barrier is not None:
                alignment.add(barrier)
                upstream = next((a.failure for a in barrier.acks if a.failure), None)
                if upstream is not None and self._failure is None:
                    self._failure = Failure(kind="poison", uid=self._uid, subtask=0, message=upstream.message)
        return batch.filter(is_record(batch))

    def _emit(
        self, cached: Cached, stages: Stages, run: Callable[[], dict[str, pa.RecordBatch]]
    ) -> Generator[pa.RecordBatch, None, Cached | None]:
        """E4, step by step: stages what comes out and yields the next operator's records; None if the code failed."""
        try:
            outputs = run()
        except (OperatorFailure, LakestateError) as error:
            self._fail(cached, error)
            return None
        self._records_out += sum(b.num_rows for b in outputs.values())
        stages.add(outputs)
        self._watch.lap("process")
        if self._downstream is not None and MAIN in outputs:
            yield self._records(outputs[MAIN])
        return cached

    def _process(self, cached: Cached, records: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """E4 for one batch."""
        self._records_in += records.num_rows
        names = self._input.names
        if EVENT_TIME in records.schema.names:
            self._event_times.add(records)
            names = [*names, EVENT_TIME]
        columns = [records.column(name) for name in names]
        return cached.operator.process(pa.RecordBatch.from_arrays(columns, names=names))

    def _fail(self, cached: Cached, error: Exception) -> None:
        WORKER.discard(cached)
        if isinstance(error, OperatorFailure):
            self._failure = error.failure
        elif isinstance(error, LakestateError):
            self._failure = engine_failure(self._uid, cached.operator.subtask, error)

    def _end(self, cached: Cached | None, stages: Stages, subtask: int) -> Ack:
        """E5: freezes, writes, and returns the ack."""
        changes: StateHandle | None = None
        outputs: tuple[OutputFile, ...] = ()
        if cached is not None and self._failure is None:
            try:
                storage = storage_of(self._plan.root, self._plan.job)
                changes = self._write_changes(cached, storage, subtask)
                self._watch.lap("changes")
                self._crash(CrashPoint.E5_CHANGE_FILE_WRITTEN)
                outputs = stages.write(storage)
                self._watch.lap("stage")
                self._crash(CrashPoint.E5_OUTPUT_STAGED)
                cached.pending = self._attempt
                settle_memory(cached)
            except StateValueError as error:
                WORKER.discard(cached)
                self._failure = state_failure(self._uid, subtask, error)
            except (OperatorFailure, LakestateError) as error:
                self._fail(cached, error)
        operator = cached.operator if cached is not None else None
        return Ack(
            uid=self._uid,
            subtask=subtask,
            attempt=self._attempt,
            records_in=self._records_in,
            records_out=self._records_out,
            changes=changes,
            outputs=outputs,
            schemas=operator.schemas if operator else (),
            statistics=operator.statistics() if operator else (),
            timers=self._timers(cached) if self._failure is None else None,
            event_times=self._event_times.seen(),
            broadcast=operator.operator_state.digests() if operator and self._failure is None else {},
            failure=self._failure,
            timings_ms=self._watch.timings,
        )

    def _timers(self, cached: Cached | None) -> EarliestTimers | None:
        if cached is None:
            return None
        operator = cached.operator
        timers = EarliestTimers(
            event_time=operator.earliest_timer(TimeDomain.EVENT_TIME),
            processing_time=operator.earliest_timer(TimeDomain.PROCESSING_TIME),
        )
        return None if timers == NO_TIMERS else timers

    def _write_changes(self, cached: Cached, storage: CheckpointStorage, subtask: int) -> StateHandle | None:
        states = cached.operator.end(self._plan.snapshot_id, self._plan.epoch)
        self._watch.lap("freeze")
        self._crash(CrashPoint.E5_BEFORE_CHANGE_FILE)
        if not states:
            return None
        plan = self._plan
        header = ChangeFileHeader(
            job=plan.job,
            generation=plan.generation,
            epoch=plan.epoch,
            uid=self._uid,
            subtask=subtask,
            attempt=self._attempt,
            max_parallelism=self._own.max_parallelism,
        )
        parts, sections, checksum, length = encode_change_file(header, states, self._spec.codec)  # type: ignore[arg-type]
        name = partial(change_path, plan.generation, plan.epoch, self._uid, subtask)
        path = create_under_new_name(storage, RandomIds(), name, *parts)
        return StateHandle(
            path=path,
            length=length,
            checksum=checksum,
            rows=sum(table.num_rows for _, table in states),
            codec=self._spec.codec,
            sections=sections,
        )

    def _records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        control: Any = pa.nulls(batch.num_rows, pa.binary())
        return pa.RecordBatch.from_arrays([*batch.columns, control], schema=self._wire_schema())

    def _wire_schema(self) -> pa.Schema:
        return pa.schema([*self._emits, pa.field(CONTROL, pa.binary())])

    def _marks(self, alignment: Alignment, ack: Ack) -> pa.RecordBatch:
        """The barriers behind the last record: one per downstream subtask, or one to the driver."""
        down = self._downstream
        barriers = alignment.barriers(ack, down.parallelism if down else 1)
        if down is None:
            return pa.RecordBatch.from_arrays([pa.array(map(encode_barrier, barriers), pa.binary())], names=[CONTROL])
        groups = [range_of(n, down.parallelism, down.max_parallelism).first for n in range(down.parallelism)]
        control: Any = pa.array(map(barrier_mark, groups, barriers), pa.binary())
        empty: list[Any] = [pa.nulls(len(groups), f.type) for f in self._emits]
        return pa.RecordBatch.from_arrays([*empty, control], schema=self._wire_schema())


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for batch in rest:
        if batch.num_rows:
            yield batch


def _nothing(_: CrashPoint) -> None:
    return None


def crash_hook(setting: str | None, epoch: int) -> Callable[[CrashPoint], None]:
    """Returns what a task does at a crash point: nothing, unless a test or the demo asked to end the driver there."""
    if not setting:
        return _nothing
    kill = KillAt.from_property(setting)
    return lambda point: kill.at(point, epoch)


__all__ = ["CRASH_PROPERTY", "Subtask", "TaskFunction", "crash_hook"]
