"""One operator in a task: a link of the task's chain, from E3 to its ack."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.timers import TimeDomain
from state_engine.backends.stored_type import StateValueError
from state_engine.clock import RandomIds
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.epoch.watermarks import NO_TIMERS
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, EarliestTimers, Failure, HighestTime, OutputFile, StateHandle
from state_engine.runtime.declared.base import local_of
from state_engine.runtime.declared.local import RECORDS, is_partial
from state_engine.runtime.emitted import EVENT_TIME, Rows
from state_engine.runtime.failures import OperatorFailure, engine_failure, state_failure
from state_engine.runtime.operator import Operator
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.row_operator import RowOperator
from state_engine.serialization.types import schema_of
from state_engine.spark.wire.task_spec import TaskSpec
from state_engine.spark.worker.cache import WORKER, Cached, settle_memory, storage_of
from state_engine.spark.worker.staging import Stages, Stopwatch
from state_engine.storage.create import create_under_new_name
from state_engine.storage.port import CheckpointStorage

Outputs = dict[str, pa.RecordBatch]
"""The outputs of an operator, by `main` or tag id."""
Given = Outputs | Rows
"""What an operator hands on: columns, or the objects that its function gave."""
Step = Callable[[Operator], Outputs]


class Packed(NamedTuple):
    """An operator as a task receives it: its packed `TaskSpec`, and the digest of that."""

    payload: bytes
    digest: str


class Attempt(NamedTuple):
    """What all links of a task share.

    Attributes:
        id: Id of this attempt at the subtask.
        subtask: The subtask's number.
        plan: The epoch.
        watch: Measures the times of the task.
        crash: What is done at a crash point.
    """

    id: str
    subtask: int
    plan: EpochPlan
    watch: Stopwatch
    crash: Callable[[CrashPoint], None]


class Link:
    """One operator in one attempt of one subtask.

    After a failure it does nothing more; `failure` has the cause.

    Args:
        packed: The operator as it was sent.
        spec: The same, unpacked.
        attempt: The attempt.
    """

    def __init__(self, packed: Packed, spec: TaskSpec, attempt: Attempt) -> None:
        self._packed = packed
        self._spec = spec
        self._attempt = attempt
        self.uid = spec.operator.uid
        self.failure: Failure | None = None
        self._own: OperatorPlan = next(o for o in attempt.plan.operators if o.uid == self.uid)
        self._stages = Stages(spec.stages, self.uid, attempt.subtask, attempt.plan)
        self._names = schema_of(spec.operator.input).names
        local = local_of(spec.operator.function)
        self._partial_names = list(local.columns.names) if local is not None else self._names
        self._records_in = 0
        self._records_out = 0
        self._held: Cached | None = None
        self._cached: Cached | None = None
        self._changes: StateHandle | None = None
        self._inlined: bytes | None = None
        self._outputs: tuple[OutputFile, ...] = ()

    @property
    def held(self) -> Cached | None:
        """The instance that it holds for the time of the task, also after a failure."""
        return self._held

    def acquire(self, beside: list[Cached]) -> None:
        """Runs E3: gets the operator instance, and begins the epoch with it.

        Args:
            beside: Instances of the same task, which must stay in the cache.
        """
        plan = self._attempt.plan
        try:
            self._held = WORKER.acquire(
                *self._packed, plan, self._attempt.subtask, self._spec.cache_bytes, beside=beside
            )
            watermark = plan.watermarks.get(self.uid)
            operator = self._held.operator
            operator.begin(plan.processing_time, watermark, plan.retry, plan.completed, plan.aborted)
            self._cached = self._held
        except BaseException as error:
            self.failure = self._failure_of(error)

    def release(self) -> None:
        """Notes that the task is over."""
        if self._held is not None:
            self._held.release()

    def poison(self, by: Failure) -> None:
        """Takes over the failure of another operator: the epoch fails, so this one reports nothing of its own."""
        if self.failure is None:
            self.failure = Failure(kind="poison", uid=self.uid, subtask=0, message=by.message)

    def run(self, step: Step) -> Given | None:
        """Runs one step of E4: stages its output, and returns it; None after a failure."""
        cached = self._cached
        if cached is None or self.failure is not None:
            return None
        try:
            outputs = step(cached.operator)
        except BaseException as error:
            self.fail(error)
            return None
        rows = cached.operator.take_rows()
        self._records_out += sum(b.num_rows for b in outputs.values())
        if rows is not None and MAIN not in outputs:
            self._records_out += len(rows.rows)
        self._stages.add(outputs)
        self._attempt.watch.lap("process")
        return rows if rows is not None else outputs

    def take(self, given: Given) -> Given | None:
        """Runs E4 for the output of the operator before this one, and reads its main output; returns as `run`."""
        if isinstance(given, Rows):
            self._records_in += len(given.rows)
            return self.run(lambda operator: cast(RowOperator, operator).process_rows(given))
        return self.take_records(given[MAIN]) if MAIN in given else None

    def take_records(self, records: pa.RecordBatch) -> Given | None:
        """Runs E4 for records; returns as `run`."""
        if is_partial(records):
            columns = self._partial_names
            self._records_in += pc.sum(records.column(RECORDS)).as_py()
        else:
            columns = self._names
            self._records_in += records.num_rows
        names = [*columns, EVENT_TIME] if EVENT_TIME in records.schema.names else columns
        batch = pa.RecordBatch.from_arrays([records.column(name) for name in names], names=names)
        return self.run(lambda operator: operator.process(batch))

    def fail(self, error: BaseException) -> None:
        """Fails with what the function or the engine raised, and forgets the instance."""
        self.failure = self._failure_of(error)
        if self._cached is not None:
            WORKER.discard(self._cached)
            self._cached = None

    def _failure_of(self, error: BaseException) -> Failure:
        if isinstance(error, OperatorFailure):
            return error.failure
        if isinstance(error, StateValueError):
            return state_failure(self.uid, self._attempt.subtask, error)
        return engine_failure(self.uid, self._attempt.subtask, error)

    def end(self) -> None:
        """Runs E5: freezes the state, and writes the changes and the outputs."""
        attempt, cached = self._attempt, self._cached
        if cached is None or self.failure is not None:
            return
        try:
            storage = storage_of(attempt.plan.root, attempt.plan.job)
            changes, inlined = self._write_changes(cached, storage)
            attempt.watch.lap("changes")
            attempt.crash(CrashPoint.E5_CHANGE_FILE_WRITTEN)
            outputs = self._stages.write(storage)
            attempt.watch.lap("stage")
            attempt.crash(CrashPoint.E5_OUTPUT_STAGED)
            self._changes, self._inlined, self._outputs = changes, inlined, outputs
            cached.pending = attempt.id
            settle_memory(cached)
        except BaseException as error:
            self.fail(error)

    def _write_changes(self, cached: Cached, storage: CheckpointStorage) -> tuple[StateHandle | None, bytes | None]:
        """Returns the handle of the changes, and their bytes if these are too few for a file."""
        attempt, plan, codec = self._attempt, self._attempt.plan, self._spec.codec
        cached.operator.snapshot(plan.snapshot_id, plan.epoch)
        attempt.watch.lap("freeze")
        states = cached.operator.changes()
        attempt.crash(CrashPoint.E5_BEFORE_CHANGE_FILE)
        if not states:
            return None, None
        header = ChangeFileHeader(
            job=plan.job,
            generation=plan.generation,
            epoch=plan.epoch,
            uid=self.uid,
            subtask=attempt.subtask,
            attempt=attempt.id,
            max_parallelism=self._own.max_parallelism,
        )
        parts, sections, checksum, length = encode_change_file(header, states, codec)  # type: ignore[arg-type]
        name = partial(change_path, plan.generation, plan.epoch, self.uid, attempt.subtask)
        inlined = b"".join(parts) if length <= plan.inline_budget else None
        if inlined is not None:
            path = name(RandomIds().new_id())
        else:
            path = create_under_new_name(storage, RandomIds(), name, *parts)
        handle = StateHandle(
            path=path,
            length=length,
            checksum=checksum,
            rows=sum(table.num_rows for _, table in states),
            codec=codec,
            sections=sections,
        )
        return handle, inlined

    def ack(self, event_times: tuple[HighestTime, ...] = (), timings: dict[str, float] | None = None) -> Ack:
        """Returns the ack of this link.

        Args:
            event_times: The largest event times that it has seen.
            timings: How long the task took, if this link reports it.
        """
        operator = self._cached.operator if self._cached is not None else None
        schemas, statistics = (operator.schemas, operator.statistics()) if operator else ((), ())
        timers = _timers(operator) if operator is not None and self.failure is None else None
        self._attempt.watch.lap("freeze")
        return Ack(
            uid=self.uid,
            subtask=self._attempt.subtask,
            attempt=self._attempt.id,
            records_in=self._records_in,
            records_out=self._records_out,
            changes=self._changes,
            inlined=self._inlined,
            outputs=self._outputs,
            schemas=schemas,
            statistics=statistics,
            timers=timers,
            event_times=event_times,
            broadcast=operator.operator_state.digests() if operator is not None and self.failure is None else {},
            failure=self.failure,
            timings_ms=timings or {},
        )


def _timers(operator: Operator) -> EarliestTimers | None:
    timers = EarliestTimers(
        event_time=operator.earliest_timer(TimeDomain.EVENT_TIME),
        processing_time=operator.earliest_timer(TimeDomain.PROCESSING_TIME),
    )
    return None if timers == NO_TIMERS else timers


__all__ = ["Attempt", "Given", "Link", "Outputs", "Packed", "Step"]
