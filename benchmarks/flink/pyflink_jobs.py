"""The workloads in PyFlink; it runs in PyFlink's environment, which has none of Lakestate's packages.

Arguments: the workload, the gap of sessions or the size of windows in ms, a folder of CSV files of records, one for
each source subtask, the mode (thread, the faster one, or process), a folder for notes, the parallelism, the
state backend (hashmap or rocksdb), the checkpoint interval in ms, a folder for checkpoints.
"""

import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, RuntimeContext, WindowFunction
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment
from pyflink_environment import discard, settings_of, stream_of

NOTED_EVERY = 1000
ITEMS, EVERY, MARKS = 10, 8, 11


class Notes:
    """Notes of a subtask: when it read its records, and sums of its emitted rows for comparison."""

    def __init__(self, seen: str) -> None:
        self.seen = seen
        self.times: list[float] = []
        self.records = self.rows = self.sum = self.weighted = 0

    def note_record(self) -> None:
        """Notes that a record was read."""
        self.records += 1
        if self.records % NOTED_EVERY == 0:
            self.times.append(time.time())

    def note_row(self, key: int, number: int) -> None:
        """Notes an emitted row with this number."""
        self.rows += 1
        self.sum += number
        self.weighted += number * number * key

    def close(self) -> None:
        """Writes the notes to a new file."""
        notes = {"records": self.rows, "sum": self.sum, "weighted": self.weighted, "times": self.times}
        Path(self.seen, f"{uuid.uuid4().hex}.json").write_text(json.dumps(notes))


class Noting(Notes, KeyedProcessFunction):
    """Base of functions that process record by record."""


class RunningCount(Noting):
    """Emits with each record the number of records of its key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(self.descriptor())

    def descriptor(self) -> ValueStateDescriptor:
        """Returns the descriptor of the count."""
        return ValueStateDescriptor("count", Types.LONG())

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.note_record()
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        self.note_row(value[0], n)
        yield value[0], n


class CountWithTtl(RunningCount):
    """As `RunningCount`, in a value with a time to live of an hour."""

    def descriptor(self) -> ValueStateDescriptor:
        hour = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_create_and_write().never_return_expired()
        descriptor = super().descriptor()
        descriptor.enable_time_to_live(hour.build())
        return descriptor


class MapAndList(Noting):
    """Counts a key's items in a map, keeps its values in a list; every eighth of an item emits the list's sum."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.INT(), Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.note_record()
        key, item, v = value[0], value[1], value[2]
        n = (self.counts.get(item) or 0) + 1
        self.counts.put(item, n)
        self.values.add(v)
        if n % EVERY == 0:
            total = sum(self.values.get())
            self.values.clear()
            self.note_row(key, (total + n) * ITEMS + item)
            yield key, item, n, total


class Sessions(Noting):
    """Counts the records of a key until none arrives for the gap, in event time."""

    def __init__(self, seen: str, gap: int) -> None:
        super().__init__(seen)
        self.gap = gap

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.session = runtime_context.get_state(ValueStateDescriptor("session", pair))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.note_record()
        key, t, timers = value[0], value[1], ctx.timer_service()
        held, count = self.session.value(), 0
        if held is not None:
            count, last = held
            timers.delete_event_time_timer(last + self.gap)
            if last + self.gap < t:
                self.note_row(key, count)
                yield key, count
                count = 0
        self.session.update((count + 1, t))
        timers.register_event_time_timer(t + self.gap)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        held = self.session.value()
        if held is not None and held[1] + self.gap == timestamp:
            self.session.clear()
            self.note_row(ctx.get_current_key(), held[0])
            yield ctx.get_current_key(), held[0]


class CountAndSum(AggregateFunction):
    """Counts the records of a window and adds up their values."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        self.notes.note_record()
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class RowOfWindow(WindowFunction):
    """Adds key and start of a window to its count and sum."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def apply(self, key: int, window: Any, inputs: Any) -> Any:
        for n, total in inputs:
            self.notes.note_row(key, (total + n) * MARKS + window.start % MARKS)
            yield key, window.start, n, total

    def close(self) -> None:
        self.notes.close()


class Job(NamedTuple):
    """A workload: columns of the records in SQL, the keyed operation, the columns that timed records keep."""

    columns: str
    emitted: Callable[[Any], Any]
    timed: tuple[str, ...] = ()


LONG = Types.LONG()
# The JVM computes event times and watermarks, which is cheaper than a Python function.
ROWTIME = "t BIGINT, rowtime AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR rowtime AS rowtime"


def job_of(workload: str, length: int, seen: str) -> Job:
    """Returns the job of a workload."""
    return {
        "running_count": Job("k BIGINT", processed(RunningCount(seen), LONG, LONG)),
        "ttl": Job("k BIGINT", processed(CountWithTtl(seen), LONG, LONG)),
        "map_and_list": Job("k BIGINT, item INT, v BIGINT", processed(MapAndList(seen), LONG, Types.INT(), LONG, LONG)),
        "sessions": Job(f"k BIGINT, {ROWTIME}", processed(Sessions(seen, length), LONG, LONG), ("k", "t")),
        "windows": Job(f"k BIGINT, v BIGINT, {ROWTIME}", windowed(Notes(seen), length), ("k", "v")),
    }[workload]


def processed(function: KeyedProcessFunction, *emits: Any) -> Callable[[Any], Any]:
    """Returns an operation that runs a function over the records of each key."""
    return lambda keyed: keyed.process(function, output_type=Types.TUPLE(list(emits)))


def windowed(notes: Notes, size: int) -> Callable[[Any], Any]:
    """Returns an operation that aggregates windows; both functions are pickled together, so they share one `Notes`."""
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])  # it is pickled too, and a type with other uses cannot be pickled
    return lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(size))).aggregate(
        CountAndSum(notes), RowOfWindow(notes), accumulator_type=pair, output_type=Types.TUPLE([LONG] * 4)
    )


def main(
    workload: str, length: str, inputs: str, mode: str, seen: str, parallelism: str, *backend_and_checkpoints: str
) -> None:
    """Runs a job to its end."""
    job = job_of(workload, int(length), seen)
    environment = StreamExecutionEnvironment.get_execution_environment(
        settings_of(mode, parallelism, *backend_and_checkpoints)
    )
    environment.set_parallelism(int(parallelism))
    tables = StreamTableEnvironment.create(environment)
    place = Path(inputs).as_uri()
    tables.execute_sql(
        f"CREATE TABLE records ({job.columns}) WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'csv')"
    )
    discard(job.emitted(stream_of(tables, job.timed).key_by(lambda row: row[0], key_type=LONG)))
    environment.execute(workload)


if __name__ == "__main__":
    main(*sys.argv[1:])
