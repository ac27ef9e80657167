"""Value state: what `value()` returns, and the effects of `update` and `clear`."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, Row, Types, ValueStateDescriptor

INPUT = "k string, do string"


class Commands(KeyedProcessFunction):
    """Does what the record says to a value state: `value`, `clear`, `update 5`, `update none`, one after the other."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("v", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for command in value.do.split(", "):
            if command == "value":
                yield Row(ctx.get_current_key(), f"{self.state.value()!r}")
            elif command == "clear":
                self.state.clear()
            else:
                number = command.removeprefix("update ")
                self.state.update(None if number == "none" else int(number))


class TwoStates(KeyedProcessFunction):
    """Counts in one state, keeps the text in another, and gets the first a second time."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.again = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        before = (self.count.value(), self.again.value(), self.text.value())
        self.count.update((self.again.value() or 0) + 1)
        self.text.update(value.do)
        after = (self.count.value(), self.again.value(), self.text.value())
        yield Row(ctx.get_current_key(), f"{before} -> {after}")


class Falsy(KeyedProcessFunction):
    """Keeps a value of four types that is false in Python."""

    def open(self, runtime_context: Any) -> None:
        types = {"long": Types.LONG(), "text": Types.STRING(), "flag": Types.BOOLEAN(), "real": Types.DOUBLE()}
        self.states = [runtime_context.get_state(ValueStateDescriptor(name, t)) for name, t in types.items()]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield Row(ctx.get_current_key(), f"{[state.value() for state in self.states]}")
        for state, falsy in zip(self.states, (0, "", False, 0.0), strict=True):
            state.update(falsy)


class Structs(KeyedProcessFunction):
    """Keeps a row with a null field, and a list."""

    def open(self, runtime_context: Any) -> None:
        row = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])
        self.row = runtime_context.get_state(ValueStateDescriptor("row", row))
        self.list = runtime_context.get_state(ValueStateDescriptor("list", Types.LIST(Types.LONG())))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        row, numbers = self.row.value(), self.list.value()
        yield Row(ctx.get_current_key(), f"{row and (row[0], row[1])} {numbers and list(numbers)}")
        self.row.update(Row((row[0] if row else 0) + 1, None if value.do == "null" else value.do))
        self.list.update([*(numbers or []), len(value.do)])


class ChangesWithoutUpdate(KeyedProcessFunction):
    """Appends to the list that `value()` returned, and updates the state only if the record says `update`."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("v", Types.LIST(Types.LONG())))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        numbers = self.state.value()
        yield Row(ctx.get_current_key(), f"{numbers}")
        numbers = list(numbers) if numbers is not None and value.do == "update" else numbers or []
        numbers.append(len(numbers))
        if value.do == "update":
            self.state.update(numbers)


def commands(name: str, about: str, *records: tuple[str, str], mode: str = "process") -> Scenario:
    steps = [element(*record) for record in records]
    return Scenario(name, about, Operation("process", Commands), steps, input=INPUT, mode=mode)


SCENARIOS = [
    commands("none_before_the_first_update", "value() of a key that was never written is None.",
             ("a", "value"), ("a", "value, value"), ("b", "value")),
    commands("the_last_update_counts", "update replaces; value() within the same call sees it, and so does the next.",
             ("a", "update 1, value"), ("a", "value, update 2, update 3, value"), ("a", "value")),
    commands("clear_forgets", "clear() removes the value; clearing nothing is fine; it can be written again.",
             ("a", "clear, value"), ("a", "update 1"), ("a", "clear, value"), ("a", "value, update 2, value"),
             ("a", "value")),
    commands("update_none_removes", "update(None) leaves what clear() leaves.",
             ("a", "update 1"), ("a", "update none, value"), ("a", "value"), ("a", "update 7"), ("a", "value"),
             mode="thread"),
    commands("each_key_has_its_own", "Keys do not see each other, whatever order they come in.",
             ("a", "update 1"), ("b", "value, update 2"), ("a", "value"), ("c", "value"), ("b", "value, clear"),
             ("a", "value"), ("b", "value")),
    commands("negative_and_large_numbers", "A LONG has 64 bits and a sign.",
             ("a", "update -9223372036854775808, value"), ("a", "value, update 9223372036854775807"), ("a", "value")),
    Scenario("names_tell_states_apart", "Two names are two states; one name asked for twice is one state.",
             Operation("process", TwoStates), [element("a", "x"), element("a", "y"), element("b", "z")], input=INPUT),
    Scenario("falsy_values_are_values", "0, an empty string, False and 0.0 are not None.",
             Operation("process", Falsy), [element("a", ""), element("a", "")], input=INPUT),
    Scenario("rows_and_lists", "A row keeps its null field; a list keeps its order.",
             Operation("process", Structs), [element("a", "x"), element("a", "null"), element("a", "yy"),
                                             element("b", "z"), element("a", "")], input=INPUT),
    Scenario("changes_without_update", "Changing what value() gave changes nothing without update().",
             Operation("process", ChangesWithoutUpdate),
             [element("a", "update"), element("a", "no"), element("a", "no"), element("a", "update"),
              element("a", "no")], input=INPUT, mode="thread"),
]  # fmt: skip
