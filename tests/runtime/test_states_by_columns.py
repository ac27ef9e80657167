"""Which states of a function over batches are stored as columns on the heap; its output is the same."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ColumnAggregateFunction,
    ColumnReduceFunction,
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateDescriptor,
    StateTtlConfig,
    Time,
    TypeCodec,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.keys import Keys
from state_engine.api.type_hints import type_information
from state_engine.api.types import AtomicType, CodecType, holds_codec
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness


class Textual(TypeCodec[complex]):
    """Stores a complex number as text."""

    version = 1
    stored_type = "string"

    def encode(self, value: complex) -> str:
        return str(value)

    def decode(self, stored: Any, version: int) -> complex:
        return complex(stored)


CODED = CodecType(AtomicType("string"), Textual())


class Largest(ColumnReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)

    def reduce_columns(self, keys: Keys, values: Any) -> Any:
        of_records = pa.table({"code": keys.codes, "value": values})
        return of_records.group_by("code").aggregate([("value", "max")]).sort_by("code").column("value_max")


class ByValue(AggregateFunction):
    """Adds value by value."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Sum(ByValue, ColumnAggregateFunction):
    """Adds also by columns."""

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        return pc.add(pc.fill_null(accumulators, 0), pa.array(keys.sums(values)))

    def get_result_columns(self, accumulators: Any) -> Any:
        return accumulators


def reducing(prefix: str) -> StateDescriptor:
    return ReducingStateDescriptor(f"{prefix}reducing", Largest(), Types.LONG())


def aggregating(prefix: str) -> StateDescriptor:
    return AggregatingStateDescriptor(f"{prefix}aggregating", Sum(), Types.LONG())


class Kinds(KeyedBatchProcessFunction):
    """Emits the classes of its states."""

    def open(self, runtime_context: RuntimeContext) -> None:
        an_hour = StateTtlConfig.new_builder(Time.hours(1))
        short_lived, of_events = (ValueStateDescriptor(name, Types.LONG()) for name in ("short-lived", "of-events"))
        short_lived_list = ListStateDescriptor("short-lived-list", Types.LONG())
        folds = [fold(name) for name in ("", "short-lived-", "of-events-") for fold in (reducing, aggregating)]
        for descriptor in (short_lived, short_lived_list, *folds[2:4]):
            descriptor.enable_time_to_live(an_hour.build())
        for descriptor in (of_events, *folds[4:]):
            descriptor.enable_time_to_live(an_hour.use_event_time().build())
        maps = [
            MapStateDescriptor("map", Types.STRING(), Types.LONG()),
            MapStateDescriptor("of-events-map", Types.LONG(), Types.LONG()),
            MapStateDescriptor("of-doubles", Types.DOUBLE(), Types.LONG()),
        ]
        maps[1].enable_time_to_live(an_hour.use_event_time().build())
        self.states = [
            runtime_context.get_state(ValueStateDescriptor("value", Types.LONG())),
            runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG())),
            runtime_context.get_state(ValueStateDescriptor("with-default", Types.LONG(), 7)),
            runtime_context.get_state(ValueStateDescriptor("coded", CODED)),
            runtime_context.get_state(short_lived),
            runtime_context.get_state(of_events),
            runtime_context.get_list_state(short_lived_list),
            *map(runtime_context.get_reducing_state, folds[::2]),
            *map(runtime_context.get_aggregating_state, folds[1::2]),
            runtime_context.get_reducing_state(ReducingStateDescriptor("plain", max, Types.LONG())),
            runtime_context.get_aggregating_state(AggregatingStateDescriptor("by-value", ByValue(), Types.LONG())),
            runtime_context.get_aggregating_state(AggregatingStateDescriptor("coded-sum", Sum(), CODED)),
            *map(runtime_context.get_map_state, maps),
        ]

    def process_batch(self, keys: Any, batch: pa.RecordBatch, ctx: Any) -> pa.RecordBatch:
        tables = [getattr(state.columns.table, "_table", state.columns.table) for state in self.states]
        kinds = pa.array([type(table).__name__ for table in tables])
        return pa.RecordBatch.from_arrays([kinds], names=["kind"])


class KindsWithTimers(Kinds):
    """May have timers, and use row methods of states in them."""

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        return None


def kinds(function: KeyedBatchProcessFunction, backend: str = "heap") -> list[bool]:
    """Returns which of the states are stored by columns."""
    with Harness(function, "k", "k string", "kind string", state_backend=backend) as harness:
        harness.process_elements([("a",)])
        return ["Column" in name for (name,) in harness.extract_output_values()]


def test_states_of_a_function_without_timers_do() -> None:
    values_and_lists = [True, True, True, False, True, True, True]
    maps = [True, True, False]
    assert kinds(Kinds()) == [*values_and_lists, *[True] * 6, False, False, False, *maps]


def test_none_do_that_a_timer_may_ask_key_by_key() -> None:
    assert not any(kinds(KindsWithTimers()))


def test_lists_alone_do_on_rocksdb() -> None:
    assert [number for number, by_columns in enumerate(kinds(Kinds(), "rocksdb")) if by_columns] == [1, 6]
    assert not any(kinds(KindsWithTimers(), "rocksdb"))


@pytest.mark.parametrize(
    ("hint", "holds"),
    [("array<struct<n:bigint,m:map<string,bigint>>>", False), (list[int], False), (CODED, True)],
)
def test_codecs_are_found_wherever_they_are(hint: Any, holds: bool) -> None:
    assert holds_codec(type_information(hint)) == holds
    assert holds_codec(Types.LIST(type_information(hint))) == holds
    assert holds_codec(Types.MAP(Types.STRING(), type_information(hint))) == holds
    assert holds_codec(Types.TUPLE([type_information(hint), Types.LONG()])) == holds


def test_a_codec_of_the_author_is_aggregated_value_by_value() -> None:
    class Adds(KeyedBatchProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = AggregatingStateDescriptor("sum", Sum(), CODED)
            self.sum = runtime_context.get_aggregating_state(descriptor)

        def process_batch(self, keys: Any, batch: pa.RecordBatch, ctx: Any) -> None:
            self.sum.add_many(keys, [1, 2, 3])

    assert sums(Adds()) == {"a": 4, "b": 2}


def test_a_codec_of_the_author_is_reduced_value_by_value() -> None:
    class Added(Largest):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return value1 + value2

        def reduce_columns(self, keys: Keys, values: Any) -> Any:
            raise AssertionError("values were given as the codec stores them")

    class Adds(KeyedBatchProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", Added(), CODED))

        def process_batch(self, keys: Any, batch: pa.RecordBatch, ctx: Any) -> None:
            self.sum.add_many(keys, [1 + 0j, 2 + 0j, 3 + 0j])

    assert sums(Adds()) == {"a": 4, "b": 2}


def sums(function: KeyedBatchProcessFunction) -> dict[Any, complex]:
    with Harness(function, "k", "k string", "k string") as harness:
        harness.process_elements([("a",), ("b",), ("a",)])
        held = harness.snapshot().states()["sum"]
    return {key: complex(stored.value) for key, stored in held.items()}
