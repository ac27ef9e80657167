"""List state: its order, what replaces it, and what an empty one is."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, ListStateDescriptor, Row, Types

INPUT = "k string, do string"


class Commands(KeyedProcessFunction):
    """Does what the record says to a list of texts: `get`, `add x`, `add_all x y`, `update x y`, `clear`."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_list_state(ListStateDescriptor("l", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            if verb == "get":
                yield Row(ctx.get_current_key(), f"{list(self.state.get())}")
            elif verb == "iterate":
                yield Row(ctx.get_current_key(), f"{list(self.state)}")
            elif verb == "add":
                self.state.add(given[0])
            elif verb == "clear":
                self.state.clear()
            else:
                getattr(self.state, verb)(given)


class Nested(KeyedProcessFunction):
    """Keeps rows, and lists of numbers."""

    def open(self, runtime_context: Any) -> None:
        row = Types.ROW([Types.LONG(), Types.STRING()])
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", row))
        self.lists = runtime_context.get_list_state(ListStateDescriptor("lists", Types.LIST(Types.LONG())))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rows, lists = [(row[0], row[1]) for row in self.rows.get()], [list(numbers) for numbers in self.lists.get()]
        yield Row(ctx.get_current_key(), f"{rows} {lists}")
        self.rows.add(Row(len(value.do), value.do))
        self.lists.add_all([[len(value.do)], []])


def commands(name: str, about: str, *records: tuple[str, str]) -> Scenario:
    return Scenario(name, about, Operation("process", Commands), [element(*record) for record in records], input=INPUT)


SCENARIOS = [
    commands("empty_before_the_first_add", "get() of a list that was never written gives nothing, and not None.",
             ("a", "get, iterate"), ("a", "get")),
    commands("elements_keep_their_order", "add appends; equal elements are kept, each of them.",
             ("a", "add x, get"), ("a", "add y, add x, get"), ("a", "get, iterate")),
    commands("add_all_appends", "add_all appends in order; an empty one changes nothing.",
             ("a", "add x"), ("a", "add_all y z, get"), ("a", "add_all, get"), ("a", "get")),
    commands("update_replaces", "update replaces the whole list, within a call and for the next.",
             ("a", "add x, update y z, get"), ("a", "get, update w"), ("a", "get, add v"), ("a", "get")),
    commands("update_with_nothing_empties", "update([]) leaves an empty list.",
             ("a", "update x"), ("a", "update, get"), ("a", "get, add y"), ("a", "get")),
    commands("clear_empties", "clear() leaves an empty list; it can be filled again within the same call.",
             ("a", "add x"), ("a", "clear, get, add y, get"), ("a", "get, clear"), ("a", "get")),
    commands("each_key_has_its_own_list", "Keys do not see each other's elements.",
             ("a", "add x"), ("b", "get, add y"), ("a", "add z, get"), ("b", "get, clear"), ("a", "get"), ("b", "get")),
    Scenario("rows_and_lists_are_elements", "Elements may be rows and lists, empty ones too.",
             Operation("process", Nested), [element("a", "x"), element("a", "yy"), element("b", ""), element("a", "")],
             input=INPUT),
]  # fmt: skip
