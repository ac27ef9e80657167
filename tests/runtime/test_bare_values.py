"""Streams of bare values: one column, and no row around the value."""

from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, OutputTag, Types, ValueStateDescriptor
from state_engine.api.types import columns_of_type, type_of_columns
from state_engine.errors import OutputTypeError
from state_engine.runtime.adapters import FlatMapAdapter, MapAdapter, ReduceAdapter
from state_engine.runtime.running import RunningAdapter
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness as Harness

NUMBER, TEXT = columns_of_type(Types.LONG()), columns_of_type(Types.STRING())
ODD = OutputTag("odd", Types.LONG())


def values(harness: Harness, *given: Any) -> list[Any]:
    harness.clear_output()
    harness.process_elements(list(given))
    return harness.extract_output_values()


def test_functions_get_and_give_the_value_itself() -> None:
    with Harness(MapAdapter(lambda v: f"<{v + 1}>"), [], NUMBER, TEXT) as harness:
        assert values(harness, 1, 2) == ["<2>", "<3>"]
    with Harness(FlatMapAdapter(str.split), [], TEXT, TEXT) as harness:
        assert values(harness, "to be", "") == ["to", "be"]


def test_a_null_is_a_value() -> None:
    with Harness(MapAdapter(lambda v: v), [], TEXT, TEXT) as harness:
        assert values(harness, None, "a") == [None, "a"]


def test_lists_are_values_too() -> None:
    numbers = columns_of_type(Types.LIST(Types.LONG()))
    with Harness(MapAdapter(sorted), [], numbers, numbers) as harness:
        assert values(harness, [2, 1], []) == [[1, 2], []]


@pytest.mark.parametrize(("verb", "second"), [("sum", 8), ("min", 4), ("max", 4), ("min_by", 4), ("max_by", 4)])
def test_running_aggregations(verb: Any, second: int) -> None:
    with Harness(RunningAdapter(verb, 0, NUMBER), "f0", NUMBER, NUMBER) as harness:
        assert values(harness, 4, 5) == [4, 5]
        assert values(harness, 4) == [second]


def test_reduced_values_are_kept_as_their_type() -> None:
    with Harness(ReduceAdapter(lambda a, b: a + b, TEXT), "f0", TEXT, TEXT) as harness:
        assert values(harness, "a", "b") == ["a", "b"]
        assert values(harness, "a") == ["aa"]
        assert values(harness, "a") == ["aaa"]
    assert type_of_columns(TEXT) == Types.STRING()


class Sorting(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        assert ctx.get_current_key() == value
        self.seen.update(value)
        if value % 2:
            yield ODD, value
        else:
            yield value


def test_side_outputs_of_bare_values() -> None:
    with Harness(Sorting(), "f0", NUMBER, NUMBER, side_outputs=[ODD]) as harness:
        assert values(harness, 1, 2, 3, 4) == [2, 4]
        assert harness.get_side_output(ODD) == [1, 3]


def test_a_value_of_another_type_fails_by_name() -> None:
    with Harness(MapAdapter(str), [], NUMBER, NUMBER) as harness, pytest.raises(OutputTypeError, match="'1'"):
        harness.process_element(1)
