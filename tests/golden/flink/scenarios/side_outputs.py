"""Side outputs: rows by tag, beside the main output and without it."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, OutputTag, ProcessFunction, Row, Types, ValueStateDescriptor

LARGE = OutputTag("large", Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()]))
ODD = OutputTag("odd", Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()]))


def sorted_out(key: str, number: int) -> Iterator[Any]:
    if number > 10:
        yield LARGE, Row(key, number)
    if number % 2:
        yield ODD, Row(key, number)
    if number >= 0:
        yield Row(key, f"{number}")
    if number > 100:
        yield LARGE, Row(key, -number)


class Keyed(KeyedProcessFunction):
    """Sends numbers to tags, and counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from sorted_out(value.k, value.v)
        self.count.update((self.count.value() or 0) + 1)
        yield ODD, Row(f"count of {ctx.get_current_key()}", self.count.value())


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from sorted_out(value.k, value.v)


class OnlySide(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield LARGE, Row(value.k, value.v)


STEPS = [element("a", 1), element("a", 12), element("b", -3), element("a", 101), element("b", 2)]
SCENARIOS = [
    Scenario("of_a_keyed_function", "Each row goes to the output of its tag, in order; state goes on beside it.",
             Operation("process", Keyed), STEPS, side_outputs=(LARGE, ODD)),
    Scenario("of_a_function_without_key", "A ProcessFunction has side outputs, too.", Operation("process", Plain),
             STEPS, key=None, side_outputs=(LARGE, ODD)),
    Scenario("without_main_output", "A function may emit to side outputs only.", Operation("process", OnlySide), STEPS,
             side_outputs=(LARGE,)),
    Scenario("of_two_tags_one_is_read", "Rows of a tag that nobody reads are dropped.", Operation("process", Keyed),
             STEPS, side_outputs=(LARGE,)),
]  # fmt: skip
