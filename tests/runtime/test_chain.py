"""Functions in a chain, within one operator."""

from typing import Any

import pytest

from state_engine.api import (
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.types import columns_of_type
from state_engine.errors import UserFunctionError
from state_engine.runtime.adapters import FilterAdapter, FlatMapAdapter, MapAdapter
from state_engine.runtime.chain import ChainAdapter, Projection
from state_engine.runtime.emitted import TimedRows
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness as Harness

NUMBER, TEXT = columns_of_type(Types.LONG()), columns_of_type(Types.STRING())
ODD = OutputTag("odd", Types.LONG())


class Recorded(MapFunction):
    """Records when it is opened, finished and closed."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def open(self, runtime_context: Any) -> None:
        self.calls.append(f"open {self.name} in {runtime_context.get_task_name()}")

    def map(self, value: Any) -> Any:
        return value if isinstance(value, str) else f"{self.name}{value}"

    def finish(self) -> Any:
        self.calls.append(f"finish {self.name}")
        return [f"end of {self.name}"]

    def close(self) -> None:
        self.calls.append(f"close {self.name}")


class Counting(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_processing_time_timer(100)
        yield value, count
        if value % 2:
            yield ODD, value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), -1


def test_each_gets_what_the_one_before_returned() -> None:
    chain = ChainAdapter(
        [FlatMapAdapter(str.split), FilterAdapter(len), MapAdapter(lambda word: (word, 1)), MapAdapter(str)]
    )
    with Harness(chain, [], TEXT, TEXT) as harness:
        harness.process_elements(["to be", "or"])
        assert harness.extract_output_values() == ["('to', 1)", "('be', 1)", "('or', 1)"]


def test_state_timers_and_side_outputs_are_those_of_the_first() -> None:
    chain = ChainAdapter([Counting(), FilterAdapter(lambda pair: pair[1] != 2), MapAdapter(str)])
    with Harness(chain, "f0", NUMBER, TEXT, side_outputs=[ODD]) as harness:
        harness.process_elements([1, 2, 1, 1])
        assert harness.extract_output_values() == ["(1, 1)", "(2, 1)", "(1, 3)"]
        assert harness.get_side_output(ODD) == [1, 1, 1]
        harness.clear_output()
        harness.set_processing_time(100)
        assert sorted(harness.extract_output_values()) == ["(1, -1)", "(2, -1)"]


def test_both_inputs_go_through_the_chain() -> None:
    class Sides(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            return [("left", value)]

        def process_element2(self, value: Any, ctx: Any) -> Any:
            return None

    chain = ChainAdapter([Sides(), MapAdapter(lambda pair: pair[0])])
    chain.open(None)
    assert chain.process_element1(1, None) == ["left"]
    assert chain.process_element2(2, None) is None


def test_the_life_of_all_functions() -> None:
    calls: list[str] = []
    chain = ChainAdapter([MapAdapter(Recorded("a", calls)), MapAdapter(Recorded("b", calls))])

    class Context:
        def get_task_name(self) -> str:
            return "op"

    chain.open(Context())
    assert chain.process_element(1, None) == ["a1"]
    assert chain.finish() == ["end of a", "end of b"]
    chain.close()
    assert calls == ["open a in op", "open b in op", "finish a", "finish b", "close a", "close b"]


def test_a_function_after_a_keyed_one_has_no_state() -> None:
    class Greedy(FlatMapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_state(ValueStateDescriptor("mine", Types.LONG()))

        def flat_map(self, value: Any) -> Any:
            return [value]

    chain = ChainAdapter([Counting(), FlatMapAdapter(Greedy())])
    with pytest.raises(Exception, match="its stream has no key"), Harness(chain, "f0", NUMBER, TEXT):
        pass


def test_event_times_of_rows_stay_with_them() -> None:
    class Windows(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            rows = TimedRows()
            rows.add([1, 2], 50)
            rows.add([3], 60)
            return rows

    chain = ChainAdapter([Windows(), FlatMapAdapter(lambda n: [n] * (n - 1)), MapAdapter(str)])
    chain.open(None)
    made = chain.process_element(0, None)
    assert isinstance(made, TimedRows)
    assert (list(made), made.times) == (["2", "3", "3"], [50, 60, 60])


def test_what_a_function_raises_fails_the_operator() -> None:
    chain = ChainAdapter([MapAdapter(lambda v: v), MapAdapter(lambda v: 1 // v)])
    with Harness(chain, [], NUMBER, NUMBER) as harness, pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        harness.process_element(0)


def test_a_projection_gives_tuples() -> None:
    assert Projection((2, 0))(("a", "b", "c")) == ("c", "a")
