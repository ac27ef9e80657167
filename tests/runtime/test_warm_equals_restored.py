"""An operator that keeps running, and one that is loaded from the log in between, emit the same rows."""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types, ValueStateDescriptor
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness


class Visits(KeyedProcessFunction):
    """Stores rows per key, and the order in which they came; emits all of them."""

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


def visits() -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(Visits(), "k", "k string, n bigint", "k string, n bigint")


def emitted(sizes: list[int], between: str) -> list[Any]:
    """Processes the records in epochs of these sizes; the output shows all state, even the order of a map's entries."""
    harness, rows, start = visits(), [], 0
    for size in sizes:
        harness.process_elements(RECORDS[start : start + size])
        rows += harness.extract_output_values()
        harness.clear_output()
        start += size
        if between == "loaded from the log":
            harness.close()
        elif between == "restored":
            snapshot, harness = harness.snapshot(), visits()
            harness.initialize_state(snapshot)
    return rows


@pytest.mark.parametrize("between", ["loaded from the log", "restored"])
@pytest.mark.parametrize("sizes", [[7], [1] * 7, [3, 4], [4, 3]])
def test_results_do_not_depend_on_where_it_was_loaded(sizes: list[int], between: str) -> None:
    assert emitted(sizes, between) == emitted(sizes, "nothing")
