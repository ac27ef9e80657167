"""Which states of a function over batches lie as columns on the heap; what it gives is the same."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    TypeCodec,
    Types,
    ValueStateDescriptor,
)
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


class Kinds(KeyedBatchProcessFunction):
    """Gives the classes of its states."""

    def open(self, runtime_context: RuntimeContext) -> None:
        an_hour = StateTtlConfig.new_builder(Time.hours(1))
        short_lived, of_events = (ValueStateDescriptor(name, Types.LONG()) for name in ("short-lived", "of-events"))
        short_lived_list = ListStateDescriptor("short-lived-list", Types.LONG())
        for descriptor in (short_lived, short_lived_list):
            descriptor.enable_time_to_live(an_hour.build())
        of_events.enable_time_to_live(an_hour.use_event_time().build())
        self.states = [
            runtime_context.get_state(ValueStateDescriptor("value", Types.LONG())),
            runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG())),
            runtime_context.get_state(ValueStateDescriptor("with-default", Types.LONG(), 7)),
            runtime_context.get_state(ValueStateDescriptor("coded", CODED)),
            runtime_context.get_state(short_lived),
            runtime_context.get_state(of_events),
            runtime_context.get_list_state(short_lived_list),
        ]

    def process_batch(self, keys: Any, batch: pa.RecordBatch, ctx: Any) -> pa.RecordBatch:
        kinds = pa.array([type(state).__name__ for state in self.states])
        return pa.RecordBatch.from_arrays([kinds], names=["kind"])


class KindsWithTimers(Kinds):
    """May get timers, and in these row methods."""

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        return None


def kinds(function: KeyedBatchProcessFunction, backend: str = "heap") -> list[bool]:
    """Returns which of the states lie by columns."""
    with Harness(function, "k", "k string", "kind string", state_backend=backend) as harness:
        harness.process_elements([("a",)])
        return [name.startswith(("Namespaced", "Stamped")) for (name,) in harness.extract_output_values()]


def test_values_and_lists_of_a_function_without_timers_do() -> None:
    assert kinds(Kinds()) == [True, True, False, False, True, False, False]


def test_none_do_that_a_timer_may_ask_key_by_key() -> None:
    assert not any(kinds(KindsWithTimers()))


def test_none_do_on_rocksdb() -> None:
    assert not any(kinds(Kinds(), "rocksdb"))


@pytest.mark.parametrize(
    ("hint", "holds"),
    [("array<struct<n:bigint,m:map<string,bigint>>>", False), (list[int], False), (CODED, True)],
)
def test_codecs_are_found_wherever_they_are(hint: Any, holds: bool) -> None:
    assert holds_codec(type_information(hint)) == holds
    assert holds_codec(Types.LIST(type_information(hint))) == holds
    assert holds_codec(Types.MAP(Types.STRING(), type_information(hint))) == holds
    assert holds_codec(Types.TUPLE([type_information(hint), Types.LONG()])) == holds
