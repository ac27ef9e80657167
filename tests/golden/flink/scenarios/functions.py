"""map, flat_map, filter and reduce on streams with and without key; ProcessFunction."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    Row,
    Types,
    ValueStateDescriptor,
)

PAIR = "k string, v bigint"


class Describe(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield Row(value.k, f"{value.v} at {ctx.timestamp()}")


class NumberedMap(MapFunction):
    """Counts in a keyed state, which a MapFunction on a keyed stream may have."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> Any:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return Row(value.k, f"{number}. {value.v}")


class Repeat(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        for number in range(value.v):
            yield Row(value.k, f"{number}")


class FirstOfEach(FilterFunction):
    """Lets the first record of each key pass."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value: Any) -> bool:
        new = not self.seen.value()
        self.seen.update(True)
        return new


class Difference(ReduceFunction):
    """Shows which argument is which."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return Row(value1[0], value1[1] * 10 + value2[1])


STEPS = [element("a", 1), element("a", 2), element("b", 0), element("a", 0), element("b", 3), element("a", 4)]
SCENARIOS = [
    Scenario("map_with_state", "map on a keyed stream gives one row for each, and may keep state.",
             Operation("map", NumberedMap), STEPS),
    Scenario("map_of_a_plain_function", "map takes a plain function; without key, too.",
             Operation("map", lambda: lambda value: Row(value.k, f"{value.v + 1}")), STEPS, key=None),
    Scenario("flat_map", "flat_map gives any number of rows for a record, in order.",
             Operation("flat_map", Repeat), STEPS),
    Scenario("flat_map_without_key", "The same on a stream without key.", Operation("flat_map", Repeat), STEPS,
             key=None),
    Scenario("filter_with_state", "filter on a keyed stream may keep state.", Operation("filter", FirstOfEach), STEPS,
             output=PAIR),
    Scenario("filter_of_a_plain_function", "filter takes a plain function; without key, too.",
             Operation("filter", lambda: lambda value: value.v > 1), STEPS, output=PAIR, key=None),
    Scenario("reduce_in_order", "The first record passes as it is; then (reduced, new) -> reduced, a row for each.",
             Operation("reduce", Difference), STEPS, output=PAIR),
    Scenario("reduce_of_a_plain_function", "reduce takes a plain function, which may give back one of the two.",
             Operation("reduce", lambda: lambda a, b: a if a[1] > b[1] else b), STEPS, output=PAIR),
    Scenario("process_without_key", "A ProcessFunction sees records and their timestamps.",
             Operation("process", Describe), [element("a", 1, at=5), element("b", 2, at=3)], key=None,
             needs=("event time",)),
]  # fmt: skip
