"""Runs one subtask in one epoch: E2 to E5, inside a Python worker.

It runs one operator, or a chain of them. The function that Spark sends is constant for the life of the query; the
epoch's plan comes as a local property.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from state_engine.backends.keys import KeyCodec
from state_engine.clock import RandomIds
from state_engine.epoch.acks import Alignment, barriers_of_chain
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import EventTimeError
from state_engine.key_groups import subtask_of
from state_engine.log.records import Ack
from state_engine.runtime.by_key import RecordsByKey
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.wire.failures import reporting_failures
from state_engine.spark.wire.rows import (
    CONTROL,
    GROUP,
    PLAN_PROPERTY,
    barrier_of_mark,
    encode_barrier,
    group_of_mark,
    is_record,
)
from state_engine.spark.worker.cache import WORKER
from state_engine.spark.worker.chain import Chain
from state_engine.spark.worker.event_times import EventTimesSeen
from state_engine.spark.worker.kill_at import KillAt
from state_engine.spark.worker.link import Attempt, Link, Outputs, Packed
from state_engine.spark.worker.running_jobs import RUNNING_PROPERTY, decode_running
from state_engine.spark.worker.staging import Stopwatch

CRASH_PROPERTY = "lakestate.crash"
_plans = msgspec.json.Decoder(EpochPlan)


class TaskFunction:
    """What `mapInArrow` runs for a chain of operators.

    Args:
        chain: The packed operators, upstream first.
    """

    def __init__(self, chain: Sequence[Packed]) -> None:
        self._chain = tuple(chain)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        plan = _plans.decode(context.getLocalProperty(PLAN_PROPERTY))
        crash = crash_hook(context.getLocalProperty(CRASH_PROPERTY), plan.epoch)
        WORKER.learn(decode_running(context.getLocalProperty(RUNNING_PROPERTY)))
        with reporting_failures():
            yield from Subtask(self._chain, plan, crash).run(batches)


class Subtask:
    """One attempt of one subtask.

    Args:
        packed: The operators that it runs, upstream first.
        plan: The epoch.
        crash: What is done at a crash point.
    """

    def __init__(self, packed: Sequence[Packed], plan: EpochPlan, crash: Callable[[CrashPoint], None]) -> None:
        self._packed = packed
        self._specs = [WORKER.spec(*one) for one in packed]
        self._plan = plan
        self._crash = crash
        self._plans = {o.uid: o for o in plan.operators}
        head, tail = self._specs[0].operator, self._specs[-1]
        self._key = head.key
        self._own: OperatorPlan = self._plans[head.uid]
        self._handover = tail.handover
        self._event_times = EventTimesSeen(head.uid, self._own.edges)
        # Downstream operators may look at the order of this one's rows; sinks have no order.
        alone = len(self._specs) == 1 and not self._handover.readers
        self._by_key = RecordsByKey.of(self._specs[0].operator) if alone else None
        self._watch = Stopwatch()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the operators over the batches; yields records for the next operator, then the barriers."""
        iterator = iter(batches)
        first = next((b for b in iterator if b.num_rows), None)
        if first is None:
            return  # Spark ran a partition that is no subtask; if it were one, its missing ack would fail the epoch
        self._watch.lap("input")
        subtask = subtask_of(self._group_of(first), self._own.parallelism, self._own.max_parallelism)
        attempt = Attempt(RandomIds().new_id(), subtask, self._plan, self._watch, self._crash)
        chain = Chain([Link(packed, spec, attempt) for packed, spec in zip(self._packed, self._specs, strict=True)])
        try:
            yield from self._run(chain, subtask, _chained(first, iterator))
        finally:
            chain.release()

    def _run(self, chain: Chain, subtask: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = self._plan.incarnation, self._plan.epoch
        alignment = Alignment(self._own.uid, subtask, [self._plans[uid] for uid in self._own.upstream], place=place)
        self._crash(CrashPoint.E2_ROUTED)
        chain.acquire()
        self._watch.lap("catch_up")
        self._crash(CrashPoint.E3_CAUGHT_UP)
        yield from self._handed_on(subtask, chain.advance())
        for batch in batches:
            self._watch.lap("input")
            records = self._take_marks(batch, alignment, chain)
            if records.num_rows and chain.failure is None and self._sees(records, chain):
                for part in self._by_key.add(records) if self._by_key is not None else [records]:
                    yield from self._handed_on(subtask, chain.process(part))
        for part in self._by_key.rest() if self._by_key is not None and chain.failure is None else []:
            yield from self._handed_on(subtask, chain.process(part))
        yield from self._handed_on(subtask, chain.flush())
        yield from self._handed_on(subtask, chain.finish(self._plan.finishing))
        self._crash(CrashPoint.E4_OPERATED)
        acks = chain.end(self._event_times.seen(), self._watch.timings)
        yield self._marks(alignment, acks)
        self._crash(CrashPoint.E5_ACKED)

    def _group_of(self, batch: pa.RecordBatch) -> int:
        """Returns the key group of a batch's first row, from which the subtask's number follows."""
        mark = batch.column(CONTROL)[0].as_py()
        if mark is not None:
            return group_of_mark(mark)
        if GROUP in batch.schema.names:
            group: int = batch.column(GROUP)[0].as_py()
            return group
        codec = KeyCodec(self._key, self._own.max_parallelism)
        return codec.key_group(codec.read([batch.column(c.name).slice(0, 1) for c in self._key])[0])

    def _take_marks(self, batch: pa.RecordBatch, alignment: Alignment, chain: Chain) -> pa.RecordBatch:
        """Adds the barriers of a batch to the alignment and returns its records."""
        control = batch.column(CONTROL)
        if control.null_count == len(control):
            return batch
        for mark in control.drop_null():
            barrier = barrier_of_mark(mark.as_py())
            if barrier is not None:
                alignment.add(barrier)
                upstream = next((a.failure for a in barrier.acks if a.failure), None)
                if upstream is not None:
                    chain.head.poison(upstream)
        return batch.filter(is_record(batch))

    def _sees(self, records: pa.RecordBatch, chain: Chain) -> bool:
        """Notes the event times of records; returns False if a record has none, which fails the epoch."""
        if EVENT_TIME in records.schema.names:
            try:
                self._event_times.add(records)
            except EventTimeError as error:
                chain.head.fail(error)
                return False
        return True

    def _handed_on(self, subtask: int, given: Iterator[Outputs]) -> Iterator[pa.RecordBatch]:
        """Yields the chain's output for the operators that read it, if there are any."""
        places = self._handover.places_of(subtask, self._own.parallelism)
        for outputs in given:
            for output, place in places.items():
                if output in outputs:
                    yield self._handover.records(output, outputs[output], place)

    def _marks(self, alignment: Alignment, acks: Sequence[Ack]) -> pa.RecordBatch:
        """Returns the barriers after the last record: one per downstream subtask, or one to the driver."""
        readers = [self._plans[reader.uid] for reader in self._handover.readers]
        if not readers:
            barriers = barriers_of_chain(alignment, acks, self._plans)
            return pa.RecordBatch.from_arrays([pa.array(map(encode_barrier, barriers), pa.binary())], names=[CONTROL])
        places = self._handover.places_of(alignment.subtask, self._own.parallelism).values()
        barriers = barriers_of_chain(alignment, acks, self._plans, readers[0].parallelism)
        return self._handover.marks(barriers, readers[0], places)


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for batch in rest:
        if batch.num_rows:
            yield batch


def _nothing(_: CrashPoint) -> None:
    return None


def crash_hook(setting: str | None, epoch: int) -> Callable[[CrashPoint], None]:
    """Returns what a task does at a crash point: nothing, unless a test or the demo has asked to kill the driver."""
    if not setting:
        return _nothing
    kill = KillAt.from_property(setting)
    return lambda point: kill.at(point, epoch)


__all__ = ["CRASH_PROPERTY", "Subtask", "TaskFunction", "crash_hook"]
