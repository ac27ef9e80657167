"""Values by namespace: read by columns, they equal those of a table of entries, and so do the rows in the log."""

import gc
import random
import weakref
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from values_by_namespace import ByNamespace, ByPlace, ByRows

from state_engine.api import ListStateDescriptor, TimeDomain, Types, ValueStateDescriptor
from state_engine.api.descriptors import StateDescriptor
from state_engine.api.keys import Keys, indices
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.backends.entry_index import ByNamespace as Segments
from state_engine.backends.entry_index import EntryIndex
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec, Namespaced
from state_engine.backends.layout import Layout
from state_engine.serialization.types import parse_columns
from state_engine.testing.state_harness import StateHarness

KEYS, SPACES = list(range(40)), ["0/10", "10/20", "20/30"]
OWN = Keys([pa.array(KEYS)], lambda columns: columns[0].to_pylist())
TYPES = {"a": Types.LONG(), "b": "array<string>"}
VALUES: dict[str, list[Any]] = {"a": [None, 1, 2], "b": [None, ["x"], ["x", "y"], []]}


def asked(drawn: random.Random, count: int) -> NamespacedKeys:
    codes = np.array([drawn.randrange(len(KEYS)) for _ in range(count)], np.int64)
    spaces = np.array([drawn.randrange(len(SPACES)) for _ in range(count)], np.int64)
    return NamespacedKeys([indices(codes), indices(spaces)], OWN, SPACES)


class Compared:
    """A table by namespace and one of entries, with the same calls."""

    def __init__(self, by_columns: Any = ByNamespace) -> None:
        self.harnesses = [StateHarness(make, "k bigint") for make in (by_columns, ByRows)]

    def states(self, name: str) -> list[Any]:
        return [one.backend.state(ValueStateDescriptor(name, TYPES[name])) for one in self.harnesses]

    def same(self, results: list[Any]) -> None:
        assert results[0] == results[1]


@pytest.mark.all_pairs(seed=6)
@pytest.mark.parametrize("by_columns", [ByNamespace, ByPlace])
@pytest.mark.parametrize("seed", range(6))
def test_columns_and_log_are_those_of_entries(seed: int, by_columns: Any) -> None:
    drawn, both = random.Random(seed), Compared(by_columns)
    for epoch in range(6):
        for _ in range(4):
            name, keys = drawn.choice("ab"), asked(drawn, drawn.choice([1, 30, 200]))
            values = [drawn.choice(VALUES[name]) for _ in range(len(keys))]
            first, second = both.states(name)
            assert first.columns.get_many(keys).equals(second.columns.get_many(keys))
            if drawn.random() < 0.3:
                first.columns.remove_many(keys)
                second.columns.remove_many(keys)
            else:
                first.columns.put_many(keys, values)
                second.columns.put_many(keys, values)
            assert first.columns.contains_many(keys).equals(second.columns.contains_many(keys))
        if epoch == 3:
            for one in both.harnesses:
                one.backend.freeze(0)
                one.backend.forget()
        else:
            both.same([rows(one.seal(epoch)) for one in both.harnesses])
        both.same([statistics(one) for one in both.harnesses])
    both.same([contents(one) for one in both.harnesses])
    both.same([contents(one.reopened()) for one in both.harnesses])


def rows(epoch: dict[str, list[dict[str, Any]]]) -> Any:
    """Returns the rows of an epoch; those of different entries have no order."""
    shown = {name: [{**row, "seq": None} for row in of_state] for name, of_state in epoch.items()}
    return {name: sorted(of_state, key=repr) for name, of_state in shown.items()}


def statistics(harness: StateHarness) -> dict[str, tuple[int, int]]:
    return {one.name: (one.rows, one.keys) for one in harness.backend.statistics()}


def contents(harness: StateHarness) -> dict[Any, Any]:
    places = product(TYPES, KEYS, SPACES)
    return {
        (name, key, space): harness.state(ValueStateDescriptor(name, TYPES[name]), key, space).value()
        for name, key, space in places
    }


@pytest.mark.parametrize(
    ("descriptor", "put"),
    [(ValueStateDescriptor("a", Types.LONG()), "put_many"), (ListStateDescriptor("a", Types.LONG()), "add_many")],
)
def test_a_namespace_of_which_nothing_is_left_is_gone(descriptor: StateDescriptor, put: str) -> None:
    """New windows replace old ones for ever."""
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(descriptor)
    keys = NamespacedKeys([pa.array([0, 1]), pa.array([0, 0])], OWN, SPACES)
    getattr(state.columns, put)(keys, [1, 2])
    harness.seal()
    table: Any = harness.backend._tables["a"]  # type: ignore[attr-defined]
    assert list(table.store) == ["0/10"]
    state.columns.remove_many(keys)
    harness.seal()
    assert list(table.store) == []
    assert table.rows == 0


def test_keys_of_which_nothing_is_left_are_forgotten() -> None:
    """New keys replace old ones for ever, too; the other keys keep their values."""
    harness = StateHarness(HeapKeyedStateBackend, "k bigint")
    descriptor = ValueStateDescriptor("a", Types.LONG())
    harness.backend.timers_by_columns = True
    state = harness.backend.state(descriptor, Layout.COLUMNS)
    timers = harness.backend.timers(TimeDomain.EVENT_TIME)
    counted, before = [], asked(random.Random(1), 0)
    for start in range(0, 60_000, 2_000):
        plain = Keys([pa.array(range(start, start + 2_000))], lambda columns: columns[0].to_pylist())
        keys = NamespacedKeys([indices(np.arange(2_000)), indices(np.zeros(2_000, np.int64))], plain, [f"{start}/"])
        state.columns.put_many(keys, plain.columns[0])
        timers.register_keys(keys, np.full(2_000, start))
        assert len(timers.due_keys(start - 2_000, in_turn=False) or ()) == (2_000 if start else 0)
        state.columns.remove_many(before)
        before = keys
        harness.seal()
        harness.backend.commit("sealed")
        counted.append(len(harness.backend._index.keys))
        assert harness.state(descriptor, start + 7, f"{start}/").value() == start + 7
        assert harness.backend.rows == 4_000  # values and timers of one window
    assert max(counted) < 10_000
    fired = timers.due_keys(60_000, in_turn=False)
    assert [entry.key for entry in fired.entries] == list(range(58_000, 60_000))


def test_keys_of_a_batch_are_freed_with_it() -> None:
    """Garbage collection would run after the task, so memory for the next slices of a batch would be needed as well."""
    gc.disable()
    try:
        keys = asked(random.Random(1), 10)
        assert len(keys.entries) == len(keys.distinct)
        assert Segments(EntryIndex(KeyCodec(parse_columns("k bigint"), 8))).parts(keys)
        freed = weakref.ref(keys)
        del keys
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [ByNamespace, HeapKeyedStateBackend])
def test_many_timers_of_one_time_are_caught_up_as_they_were(make: Any) -> None:
    harness, other = StateHarness(make, "k bigint"), StateHarness(make, "k bigint")
    timers, caught_up = (one.backend.timers(TimeDomain.EVENT_TIME) for one in (harness, other))
    entries = [Namespaced(key, space) for key in KEYS for space in SPACES]
    for entry in entries[:60]:
        timers.register(entry, 10)
    timers.register_all(entries, 10)
    timers.register_all(entries[:50], 20)
    timers.delete(entries[0], 10)
    assert apply(harness, other) == len(entries) - 1 + 50
    assert list(timers.all_due(10)) == [(10, sorted(entries[1:], key=repr))]
    timers.register_all(entries[:3], 10)
    timers.register_all(entries[40:], 20)
    apply(harness, other)
    assert caught_up.rows == timers.rows == 3 + len(entries)
    assert list(caught_up.due(20)) == list(timers.due(20))


def apply(harness: StateHarness, other: StateHarness) -> int:
    """Seals an epoch of one harness and lets the other one catch up; returns the number of the epoch's rows."""
    changes = harness.backend.freeze(0)
    harness.backend.settle()
    for schema, table in changes:
        other.backend.apply(schema.name, table)
    return sum(table.num_rows for _, table in changes)


@pytest.mark.parametrize("count", [0, 1, 20, 300])
def test_keys_in_namespaces_are_numbered_as_they_come(count: int) -> None:
    """Results that depend on the order, as sketches do, are the same as with any other keys."""
    keys = asked(random.Random(count), count)
    plain = Keys(keys.columns, lambda _: [])
    assert keys.codes.tolist() == plain.codes.tolist()
    assert keys.first.tolist() == plain.first.tolist()
    assert [column.to_pylist() for column in keys.distinct.columns] == [
        column.to_pylist() for column in plain.distinct.columns
    ]
