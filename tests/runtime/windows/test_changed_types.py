"""Open windows continue when the next release has other records, or another accumulator."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from state_engine.api import AggregateFunction, ProcessWindowFunction, Time, alias
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows, WindowAssigner
from state_engine.testing import windowed_harness

OUTPUT = "k string, seen string"
ASSIGNERS = [TumblingEventTimeWindows.of(Time.milliseconds(10)), EventTimeSessionWindows.with_gap(Time.milliseconds(5))]


class Show(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, repr([tuple(element) for element in elements])


@dataclass
class Sum:
    total: int = 0


@dataclass
class SumAndCount:
    counted: int = -2
    summed: int = field(default=0, metadata=alias("total"))


class Summing(AggregateFunction):
    def __init__(self, accumulator: Any) -> None:
        self.accumulator = accumulator

    def create_accumulator(self) -> Any:
        return self.accumulator()

    def add(self, value: Any, accumulator: Any) -> Any:
        if isinstance(accumulator, Sum):
            return Sum(accumulator.total + value.n)
        return SumAndCount(accumulator.counted + 1, accumulator.summed + value.n)

    def get_result(self, accumulator: Any) -> Any:
        return "sum", repr(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return SumAndCount(acc_a.counted + acc_b.counted, acc_a.summed + acc_b.summed)


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=["tumbling", "sessions"])
def test_records_that_a_window_keeps_take_the_columns_of_the_next_release(assigner: WindowAssigner[Any, Any]) -> None:
    with windowed_harness(assigner, "k", "k string, n int, gone string").process(Show(), OUTPUT) as before:
        before.process_elements([("a", 1, "x"), ("b", 2, "y")], [1, 2])
        snapshot = before.snapshot()
    with windowed_harness(assigner, "k", "k string, n bigint, new string").process(Show(), OUTPUT) as after:
        after.initialize_state(snapshot)
        after.process_element(("a", 1 << 40, "z"), 3)
        after.process_watermark(100)
        assert sorted(after.extract_output_values()) == [
            ("a", repr([("a", 1, None), ("a", 1 << 40, "z")])),
            ("b", repr([("b", 2, None)])),
        ]


def test_an_accumulator_takes_the_fields_of_the_next_release() -> None:
    def aggregated(accumulator: type) -> Any:
        stream = windowed_harness(ASSIGNERS[0], "k", "k string, n int")
        return stream.aggregate(Summing(accumulator), None, accumulator, OUTPUT)

    with aggregated(Sum) as before:
        before.process_elements([("a", 1), ("a", 2), ("b", 3)], [1, 2, 3])
        snapshot = before.snapshot()
    with aggregated(SumAndCount) as after:
        after.initialize_state(snapshot)
        after.process_element(("a", 4), 5)
        after.process_watermark(100)
        rows = sorted(after.extract_output_values())
        assert rows == [("sum", repr(SumAndCount(-2 + 1, 7))), ("sum", repr(SumAndCount(-2, 3)))]
