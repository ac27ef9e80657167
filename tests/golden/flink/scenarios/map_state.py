"""Map state: entries, absence and null, and methods that read all of it. Entries have no order, so they are sorted."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, element
from scenario_api import KeyedProcessFunction, MapStateDescriptor, Row, Types

INPUT = "k string, do string"


class Commands(KeyedProcessFunction):
    """Does what the record says to a map of texts to numbers: `get x`, `put x 1`, `remove x`, `items`, …"""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for command in value.do.split(", "):
            verb, *given = command.split(" ")
            found = self.change(verb, given) if verb in ("put", "put_all", "set", "clear") else self.look(verb, given)
            if found is not ...:
                yield Row(ctx.get_current_key(), f"{found}")

    def change(self, verb: str, given: list[str]) -> Any:
        if verb == "put":
            self.state.put(given[0], int(given[1]))
        elif verb == "set":
            self.state[given[0]] = int(given[1])
        elif verb == "put_all":
            self.state.put_all({name: len(name) for name in given})
        else:
            self.state.clear()
        return ...

    def look(self, verb: str, given: list[str]) -> Any:
        if verb == "remove":
            self.state.remove(given[0])
            return ...
        if verb == "del":
            del self.state[given[0]]
            return ...
        if verb in ("get", "contains"):
            return getattr(self.state, verb)(given[0])
        if verb == "in":
            return given[0] in self.state
        if verb == "item":
            return self.state[given[0]]
        if verb == "is_empty":
            return self.state.is_empty()
        return sorted(iter(self.state) if verb == "iterate" else getattr(self.state, verb)())


class Nulls(KeyedProcessFunction):
    """Puts a null value under one key."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.do == "put":
            self.state.put("x", None)
            self.state.put("y", 1)
        seen = (self.state.get("x"), self.state.contains("x"), sorted(self.state.keys()), self.state.is_empty())
        yield Row(ctx.get_current_key(), f"{seen}")


class RowKeys(KeyedProcessFunction):
    """Keeps lists under rows."""

    def open(self, runtime_context: Any) -> None:
        key = Types.TUPLE([Types.STRING(), Types.LONG()])
        self.state = runtime_context.get_map_state(MapStateDescriptor("m", key, Types.LIST(Types.LONG())))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        before = self.state.get((value.do, 1))
        self.state.put((value.do, 1), [*(before or []), len(before or [])])
        yield Row(ctx.get_current_key(), f"{sorted((tuple(k), list(v)) for k, v in self.state.items())}")


def commands(name: str, about: str, *records: tuple[str, str], mode: str = "process") -> Scenario:
    steps = [element(*record) for record in records]
    return Scenario(name, about, Operation("process", Commands), steps, input=INPUT, mode=mode)


SCENARIOS = [
    commands("empty_before_the_first_put", "Nothing is there: get gives None, contains and in say no.",
             ("a", "get x, contains x, in x, is_empty, items, keys, values, iterate"), ("a", "is_empty")),
    commands("put_get_and_overwrite", "put and [] write; the last one counts.",
             ("a", "put x 1, get x, is_empty"), ("a", "set x 2, item x"), ("a", "get x, put y 3"), ("a", "items")),
    commands("remove_takes_one_entry", "remove and del take one entry; removing what is not there is fine.",
             ("a", "put x 1, put y 2, put z 3"), ("a", "remove x, get x, contains x, items"),
             ("a", "remove x, del y, remove never, keys"), ("a", "remove z, is_empty"), ("a", "is_empty, items"),
             mode="thread"),
    commands("put_all_merges", "put_all writes all given entries and leaves the others.",
             ("a", "put x 9, put yy 9"), ("a", "put_all yy zzz, items"), ("a", "put_all, items"), mode="thread"),
    commands("views_show_what_is_there", "items, keys, values and iteration agree, before and after changes.",
             ("a", "put b 1, put aa 2, put ccc 3"), ("a", "items, keys, values, iterate"),
             ("a", "remove aa, put d 4, items, iterate"), ("a", "values")),
    commands("clear_takes_all_entries", "clear() empties the map of its key only; it can be filled again at once.",
             ("a", "put x 1, put y 2"), ("b", "put x 3"), ("a", "clear, is_empty, put z 4, items"),
             ("a", "items, clear"), ("a", "is_empty, get z"), ("b", "items")),
    commands("each_key_has_its_own_map", "Keys do not see each other's entries.",
             ("a", "put x 1"), ("b", "get x, put x 2, put y 3"), ("a", "items"), ("b", "items, remove x"),
             ("a", "get x"), ("b", "items")),
    Scenario("a_null_value_is_an_entry", "A null value is contained, counted and gives None.",
             Operation("process", Nulls), [element("a", "look"), element("a", "put"), element("a", "look")],
             input=INPUT, mode="thread"),
    Scenario("tuples_are_keys", "Keys of entries may be tuples, values lists.", Operation("process", RowKeys),
             [element("a", "x"), element("a", "y"), element("a", "x"), element("b", "x")], input=INPUT),
]  # fmt: skip
