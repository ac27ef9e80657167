"""How many Python objects a function over batches makes, in an epoch as a worker runs it, with its seal and its commit.

On either backend none is made per record or per timer, if keys are integers that are close together. In RocksDB some
are made per key that a state is read for, since the library takes and returns bytes.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from state_engine.api import (
    Aggregate,
    AggregatingStateDescriptor,
    ColumnAggregateFunction,
    ColumnReduceFunction,
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.keys import Keys
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing import windowed_harness

pytestmark = pytest.mark.slow  # the tests of this file together

FIRST = 1_000_000
"""Python has the integers up to 256 as objects already."""
FEW, MANY = 2_000, 50_000
KEYS = 50
A_FEW = 2_000
"""Objects that do not count: a twenty-fourth of the number that one object per record would give."""


class Sum(ColumnAggregateFunction, ColumnReduceFunction):
    """Adds only by columns."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        raise AssertionError("called value by value")

    get_result = merge = add

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2  # in RocksDB, of what a key had and what its records add

    def reduce_columns(self, keys: Keys, values: Any) -> Any:
        return pa.array(keys.sums(values))

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        return pc.add(pc.fill_null(accumulators, 0), pa.array(keys.sums(values)))

    def get_result_columns(self, accumulators: Any) -> Any:
        return accumulators


class States(KeyedBatchProcessFunction):
    """Calls all methods by columns of one state."""

    def __init__(self, kind: str, *, ttl: bool = False) -> None:
        self.kind, self.ttl = kind, ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        get, descriptor = {
            "value": (runtime_context.get_state, ValueStateDescriptor("s", Types.LONG())),
            "list": (runtime_context.get_list_state, ListStateDescriptor("s", Types.LONG())),
            "map": (runtime_context.get_map_state, MapStateDescriptor("s", Types.LONG(), Types.LONG())),
            "reducing": (runtime_context.get_reducing_state, ReducingStateDescriptor("s", Sum(), Types.LONG())),
            "aggregating": (
                runtime_context.get_aggregating_state,
                AggregatingStateDescriptor("s", Sum(), Types.LONG()),
            ),
        }[self.kind]
        if self.ttl:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.state: Any = get(descriptor)  # type: ignore[operator]

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> pa.RecordBatch:
        state, values = self.state, batch.column("v")
        if self.kind == "map":
            of_two = pa.array(np.asarray(values) % 2 + FIRST)
            state.put_many(keys, of_two, values)
            state.contains_many(keys, of_two)
            found = state.get_many(keys, of_two)
            state.remove_many(keys, pc.add(of_two, 7))
        elif self.kind == "value":
            found = state.get_many(keys)
            state.put_many(keys, pa.array(np.asarray(pc.fill_null(found, 0)) + keys.running_counts() + FIRST))
            state.contains_many(keys)
        else:
            state.add_many(keys, values)
            state.contains_many(keys)
            found = (
                values if self.kind == "list" else state.get_many(keys, *[Types.LONG()] * (self.kind == "aggregating"))
            )
        return pa.RecordBatch.from_arrays([batch.column("k"), found], names=["k", "v"])


class Timers(KeyedBatchProcessFunction):
    """Registers a timer with each record, and deletes every third one."""

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> None:
        times = batch.column("v")
        ctx.timer_service().register_event_time_timers(keys, times)
        third = np.flatnonzero(np.asarray(times) % 3 == 0)
        ctx.timer_service().delete_event_time_timers(keys.take(third), times.take(pa.array(third)))

    def on_timers(self, keys: Keys, timestamps: Any, ctx: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([keys.columns[0].take(pa.array(keys.codes)), timestamps], names=["k", "v"])


def records(count: int, keys: int, first: int = 0) -> pa.RecordBatch:
    of_each = FIRST + np.arange(count) % keys
    return pa.RecordBatch.from_arrays([pa.array(of_each), pa.array(FIRST + first + np.arange(count))], names=["k", "v"])


def most_objects(call: Callable[[], Any]) -> int:
    """Returns the largest number of additional objects, counted when functions return.

    Counting walks over all memory of Python, which takes 50 µs and more; so it is done only at returns.
    """
    before = most = sys.getallocatedblocks()

    def look(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal most
        if event in ("call", "c_call"):
            return
        blocks = sys.getallocatedblocks()
        if blocks > most:
            most = blocks

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return most - before


def harness(function: KeyedBatchProcessFunction, backend: str) -> Harness:
    return Harness(function, "k", "k bigint, v bigint", "k bigint, v bigint", state_backend=backend)


def run(of: Harness, batch: pa.RecordBatch) -> list[Any]:
    return of._instances.run([batch])  # in columns, as a task gets them


def test_objects_are_counted() -> None:
    made = pa.array(range(FIRST, FIRST + MANY))
    assert most_objects(lambda: made.to_pylist()) >= MANY
    assert most_objects(lambda: np.asarray(made).tolist()) >= MANY
    assert most_objects(lambda: pc.add(made, 1)) < 100


@pytest.mark.all_pairs
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize(("kind", "ttl"), [
    ("value", False), ("value", True), ("list", False), ("list", True), ("map", False), ("map", True),
    ("reducing", False), ("reducing", True), ("aggregating", False), ("aggregating", True),
])  # fmt: skip
def test_no_record_becomes_an_object(kind: str, ttl: bool, backend: str) -> None:
    with harness(States(kind, ttl=ttl), backend) as running:
        run(running, records(FEW, KEYS))
        few = most_objects(lambda: run(running, records(FEW, KEYS)))
        many = most_objects(lambda: run(running, records(MANY, KEYS)))
        assert many < few + A_FEW


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing", "aggregating"])
def test_no_key_becomes_an_object_on_the_heap(kind: str) -> None:
    with harness(States(kind), "heap") as running:
        run(running, records(MANY, MANY))
        assert most_objects(lambda: run(running, records(MANY, MANY, 1))) < A_FEW


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_no_timer_becomes_an_object(backend: str) -> None:
    with harness(Timers(), backend) as running:
        run(running, records(FEW, FEW))
        assert most_objects(lambda: run(running, records(MANY, MANY, FEW))) < A_FEW
        remaining = running.num_event_time_timers()
        assert remaining == pytest.approx((MANY + FEW) * 2 / 3, rel=0.01)
        running._instances.watermark = FIRST + MANY // 2
        fired: list[Any] = []
        assert most_objects(lambda: fired.extend(run(running, records(0, 1)))) < A_FEW
        assert running.num_event_time_timers() < remaining - MANY // 4
        assert sum(batch.num_rows for outputs in fired for batch in outputs.values()) > MANY // 4


def test_no_timer_becomes_an_object_when_a_database_is_taken_over() -> None:
    with harness(Timers(), "rocksdb") as running:
        for epoch in range(3):
            run(running, records(MANY, MANY, epoch * 7))
        remaining = running.num_event_time_timers()
        running.close()
        assert most_objects(lambda: run(running, records(FEW, FEW))) < A_FEW
        assert running.num_event_time_timers() == remaining


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_no_timer_becomes_an_object_of_windows_that_end_while_others_wait(backend: str) -> None:
    windows = windowed_harness(TumblingEventTimeWindows(1000), "k", "k bigint", state_backend=backend)
    with windows.aggregate({"n": Aggregate.count()}) as running:
        for key, time, count in ((FIRST, 10_000_000, MANY), (2 * FIRST, 0, 100)):
            running.process_elements([(key + n,) for n in range(count)], [time] * count)
        assert most_objects(lambda: running.process_watermark(1000)) < A_FEW
        assert len(running.extract_output_values()) == 100
