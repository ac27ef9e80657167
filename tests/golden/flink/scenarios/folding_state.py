"""Reducing and aggregating state: when their functions are called, and with what."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    Row,
    Types,
)

INPUT = "k string, do string"


class Joined(ReduceFunction):
    """Shows which argument is which."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return f"({value1}+{value2})"


class Mean(AggregateFunction):
    """Input, accumulator and result are of three types."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + len(value), accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return f"{accumulator[0]}/{accumulator[1]}"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Commands(KeyedProcessFunction):
    """Applies `get`, `add x` and `clear` to the state that a subclass opens."""

    state: Any

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            if verb == "get":
                yield Row(ctx.get_current_key(), f"{self.state.get()!r}")
            else:
                getattr(self.state, verb)(*given)


class Reducing(Commands):
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_reducing_state(ReducingStateDescriptor("r", Joined(), Types.STRING()))


class Aggregating(Commands):
    def open(self, runtime_context: Any) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        descriptor = AggregatingStateDescriptor("a", Mean(), accumulator)
        self.state = runtime_context.get_aggregating_state(descriptor)


class SumOfRows(KeyedProcessFunction):
    """Reduces rows; the first one is kept as it is."""

    def open(self, runtime_context: Any) -> None:
        row = Types.ROW([Types.STRING(), Types.LONG()])
        descriptor = ReducingStateDescriptor("r", lambda a, b: Row(a[0] + b[0], a[1] + b[1]), row)
        self.state = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.state.add(Row(value.do, len(value.do)))
        row = self.state.get()
        yield Row(ctx.get_current_key(), f"{(row[0], row[1])}")


STEPS = {
    "none_before_the_first_add": [("a", "get"), ("a", "get, get")],
    "added_one_by_one": [("a", "add x, get"), ("a", "add yy, get, add zzz, get"), ("a", "get")],
    "several_between_two_looks": [("a", "add x, add yy, add zzz"), ("a", "add wwww"), ("a", "get, get")],
    "clear_starts_anew": [("a", "add x, add yy"), ("a", "clear, get, add zzz, get"), ("a", "get, clear"), ("a", "get"),
                          ("a", "clear, add w"), ("a", "get")],
    "each_key_has_its_own": [("a", "add x"), ("b", "get, add yy"), ("a", "add zzz, get"), ("b", "get, clear"),
                             ("a", "get"), ("b", "get")],
}  # fmt: skip
SCENARIOS = [
    *(
        Scenario(
            f"{function.__name__.lower()}_{name}",
            f"{function.__name__} state: {name.replace('_', ' ')}.",
            Operation("process", function),
            [element(*record) for record in records],
            input=INPUT,
        )
        for function in (Reducing, Aggregating)
        for name, records in STEPS.items()
    ),
    Scenario("reducing_rows", "Rows are reduced by a plain function.", Operation("process", SumOfRows),
             [element("a", "x"), element("a", "yy"), element("b", "z"), element("a", "w")], input=INPUT),
]  # fmt: skip
