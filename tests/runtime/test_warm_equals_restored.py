"""An operator that goes on, and one that was loaded from the log in between, give the same rows."""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types, ValueStateDescriptor


class Visits(KeyedProcessFunction):
    """Remembers rows per key and the order of what it met; emits all it knows."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.ROW_NAMED(["n", "x"], [int, float])))
        self.met = runtime_context.get_map_state(MapStateDescriptor("met", Types.TUPLE([int]), float))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        last = self.last.value()
        before = last.n if last is not None else 0
        self.last.update((value.n, 1))
        self.met.put((value.n,), (self.met.get((value.n,)) or 0) + 1)
        known = self.last.value()
        yield f"{before}, {known.n}, {known['x'] / 1}, {list(self.met.items())}", value.n


RECORDS = [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", 3), ("b", 2), ("a", 2)]


def emitted(run: Any, sizes: list[int], restore: bool) -> list[str]:
    running, log, rows, start = run(Visits()), [], [], 0
    for size in sizes:
        found = running.feed(*RECORDS[start : start + size])
        rows += [row["k"] for row in found["main"]]
        start += size
        log += running.operator.backend.freeze(5_000)
        if restore:
            running = run(Visits())
            for schema, table in log:
                running.operator.backend.apply(schema.name, table)
        else:
            running.operator.backend.settle()
    return rows


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [3, 4], [4, 3]])
def test_results_do_not_depend_on_where_it_was_loaded(run: Any, sizes: list[int]) -> None:
    assert emitted(run, sizes, restore=True) == emitted(run, sizes, restore=False)
