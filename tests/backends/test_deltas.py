"""Rows of the log that are applied to a table: a clear or reset among them undoes the rows before it."""

import random
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, Time, Types
from state_engine.api.keys import Keys
from state_engine.backends.delta import entry_of_rows
from state_engine.backends.layout import Layout
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

LISTS = ListStateDescriptor("list", Types.LONG())
MAPS = MapStateDescriptor("map", Types.LONG(), Types.LONG())
KEYS, SPACES = ["a", "b", "c"], [None, "0/10"]


def drawn_rows(drawn: random.Random, descriptor: Any, count: int) -> list[dict[str, Any]]:
    """Returns rows in any order that one epoch, or several epochs folded into one table, could have."""
    ops = [Op.CLEAR, Op.APPEND, Op.APPEND] if descriptor is LISTS else [Op.CLEAR, Op.PUT, Op.PUT, Op.DELETE]
    rows = []
    for number in range(count):
        op = drawn.choice(ops)
        row = {"k": drawn.choice(KEYS), "namespace": drawn.choice(SPACES), "op": op}
        if op in (Op.PUT, Op.APPEND):
            row["value"] = number
        if descriptor is MAPS and op in (Op.PUT, Op.DELETE):
            row["user_key"] = drawn.randrange(3)
        rows.append(row)
    return rows


def content(harness: StateHarness, descriptor: Any) -> dict[Any, Any]:
    values = {}
    for key in KEYS:
        for space in SPACES:
            state = harness.state(descriptor, key, space)
            values[key, space] = list(state.get() if descriptor is LISTS else state.items())
    return values


def played(rows: list[dict[str, Any]], found: dict[Any, Any]) -> dict[Any, Any]:
    """Returns lists or maps after the rows were applied one by one."""
    for row in rows:
        at = row["k"], row["namespace"]
        held = found.get(at, [])
        if row["op"] == Op.CLEAR:
            held = []
        elif row["op"] == Op.APPEND:
            held = [*held, row["value"]]
        else:
            held = [(user_key, value) for user_key, value in held if user_key != row["user_key"]]
            held += [(row["user_key"], row["value"])] if row["op"] == Op.PUT else []
        found[at] = held
    return {(key, space): found.get((key, space), []) for key in KEYS for space in SPACES}


@pytest.mark.parametrize("descriptor", [LISTS, MAPS], ids=["list", "map"])
@pytest.mark.parametrize("layout", [Layout.ENTRIES, Layout.COLUMNS])
@pytest.mark.parametrize("seed", range(6))
def test_a_clear_in_the_middle_undoes_what_came_before(
    make_backend: Any, descriptor: Any, layout: Layout, seed: int
) -> None:
    drawn, harness, wanted = random.Random(seed), StateHarness(make_backend), dict[Any, Any]()
    harness.backend.state(descriptor, layout)
    for _ in range(4):
        rows = drawn_rows(drawn, descriptor, drawn.choice([1, 5, 30]))
        harness.backend.apply(descriptor.name, harness.write_to_log(descriptor, rows))
        wanted = played(rows, wanted)
        assert content(harness, descriptor) == wanted
    loaded = harness.reopened()
    loaded.backend.state(descriptor, layout)
    assert content(loaded, descriptor) == wanted
    assert loaded.backend.statistics() == harness.backend.statistics()


def test_an_expired_entry_keeps_no_spelling_by_columns(make_backend: Any) -> None:
    """Like `test_an_expired_entry_keeps_no_spelling` of the suite, which uses row methods."""
    descriptor = MapStateDescriptor("doubles", Types.DOUBLE(), Types.LONG())
    lives = StateTtlConfig.new_builder(Time.milliseconds(100)).disable_cleanup_in_background().build()
    descriptor.enable_time_to_live(lives)
    key = Keys([pa.array(["a"])], lambda columns: columns[0].to_pylist())
    for later, spelled in ((1_050, "-0.0"), (1_100, "0.0")):
        harness = StateHarness(make_backend)
        columns = harness.backend.state(descriptor, Layout.COLUMNS).columns
        columns.put_many(key, [-0.0], [1])
        harness.seal()
        harness.time.processing_time = later
        columns.put_many(key, [0.0], [2])
        for _ in range(2):
            [[entry]] = columns.items_many(key).to_pylist()
            assert (repr(entry["key"]), entry["value"]) == (spelled, 2)
            harness.seal()


@pytest.mark.parametrize("descriptor", [LISTS, MAPS], ids=["list", "map"])
def test_rows_are_those_of_their_entry_however_many_it_has(make_backend: Any, descriptor: Any) -> None:
    """One clear and some elements each: keys of several key groups, of which some are not written at all."""
    harness, keys = StateHarness(make_backend), "hgfedcba"
    for epoch in range(2):
        for number, key in enumerate(keys):
            state = harness.state(descriptor, key)
            if number % 3 == 0:
                state.clear()
            for value in range(number % 4):
                state.add(10 * number + value) if descriptor is LISTS else state.put(value, 10 * number + value)
        rows = harness.seal()[descriptor.name]
        assert {row["k"] for row in rows if row["op"] == Op.CLEAR} >= ({"e", "b"} if epoch else set())
        written = {key: [row["value"] for row in rows if row["k"] == key and row["op"] != Op.CLEAR] for key in keys}
        assert written == {key: [10 * n + value for value in range(n % 4)] for n, key in enumerate(keys)}


def test_the_entry_of_a_row_is_found_among_entries_with_several_rows() -> None:
    entry_at = entry_of_rows(["a", "none", "b", "c"], [2, 0, 1, 3])
    assert [entry_at(row) for row in range(6)] == ["a", "a", "b", "c", "c", "c"]
