"""Lists by namespace: read by columns, they equal those of a table of entries, and so do the rows in the log."""

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_namespaced import KEYS, SPACES, asked, rows, statistics
from values_by_namespace import ByNamespace, ByRows

from state_engine.api import ListStateDescriptor, Types
from state_engine.api.keys import Keys, indices
from state_engine.backends.batch_keys import EntryKeys
from state_engine.backends.keys import Namespaced
from state_engine.backends.stores import list_runs
from state_engine.backends.stores.list_runs import Elements, ListRuns
from state_engine.testing.state_harness import StateHarness

TYPES = {"a": Types.LONG(), "b": "struct<n:bigint,text:string>"}
VALUES: dict[str, list[Any]] = {"a": [1, 2, 3], "b": [(1, "x"), (2, None)]}
DESCRIPTORS = {name: ListStateDescriptor(name, type_info) for name, type_info in TYPES.items()}


def plain(drawn: random.Random, count: int) -> Keys:
    keys = pa.array([drawn.choice(KEYS) for _ in range(count)], pa.int64())
    return Keys([keys], lambda columns: columns[0].to_pylist())


@pytest.mark.all_pairs(seed=4)
@pytest.mark.parametrize("seed", range(8))
def test_columns_and_log_are_those_of_entries(seed: int) -> None:
    drawn = random.Random(seed)
    both = [StateHarness(make, "k bigint") for make in (ByNamespace, ByRows)]
    for epoch in range(8):
        for _ in range(4):
            name, count = drawn.choice("ab"), drawn.choice([1, 30, 200])
            keys = drawn.choice([asked, plain])(drawn, count)
            keys = keys.take(np.array([drawn.randrange(count) for _ in range(count)])) if drawn.random() < 0.3 else keys
            states = [one.backend.state(DESCRIPTORS[name]) for one in both]
            change(drawn, name, keys, [state.columns for state in states])
            assert states[0].columns.get_many(keys).to_pylist() == states[1].columns.get_many(keys).to_pylist()
            assert states[0].columns.contains_many(keys).equals(states[1].columns.contains_many(keys))
        if epoch == 3:
            for one in both:
                one.backend.freeze(0)
                one.backend.forget()
        else:
            first, second = (rows(one.seal(epoch)) for one in both)
            assert first == second
        assert statistics(both[0]) == statistics(both[1])
    assert contents(both[0]) == contents(both[1]) == contents(both[0].reopened()) == contents(both[1].reopened())


def change(drawn: random.Random, name: str, keys: Keys, states: list[Any]) -> None:
    """Makes the same random call on several states."""
    what, values = drawn.random(), VALUES[name]
    added = [drawn.choice(values) for _ in range(len(keys))]
    lists = [[drawn.choice(values) for _ in range(drawn.randrange(4))] for _ in range(len(keys))]
    for state in states:
        if what < 0.5:
            state.add_many(keys, added)
        elif what < 0.8:
            state.put_many(keys, lists)
        else:
            state.remove_many(keys)


def contents(harness: StateHarness) -> dict[Any, Any]:
    places = product(DESCRIPTORS, KEYS, [None, *SPACES])
    return {(name, key, space): list(harness.state(DESCRIPTORS[name], key, space).get()) for name, key, space in places}


def test_keys_that_are_known_as_python_values_alone_find_theirs() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(DESCRIPTORS["a"]).columns
    state.add_many(Keys([pa.array([7, 8, 7])], lambda columns: columns[0].to_pylist()), [1, 2, 3])
    keys = EntryKeys([8, 9, 7, 8])
    assert keys.distinct.entries == [8, 9, 7]
    assert state.get_many(keys).to_pylist() == [[2], [], [1, 3], [2]]
    state.put_many(keys, [[0], [4], [5], [6]])
    assert state.get_many(keys).to_pylist() == [[6], [4], [5], [6]]


def test_entries_of_several_namespaces_find_theirs() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(DESCRIPTORS["a"]).columns
    keys = EntryKeys([Namespaced(1, "0/10"), 1, Namespaced(2, "0/10")])
    state.add_many(keys, [1, 2, 3])
    assert state.get_many(keys).to_pylist() == [[1], [2], [3]]
    assert contents(harness)["a", 1, "0/10"] == [1]
    assert contents(harness)["a", 1, None] == [2]


@pytest.mark.parametrize("count", [100, 3_000])
def test_runs_are_few_however_many_epochs_there_were(count: int) -> None:
    runs = ListRuns()
    for n in range(count):
        runs.append(Elements(np.arange(n % 7, 40, 7), pa.array(np.arange(n % 7, 40, 7))))
    assert len(runs.all()) <= np.log2(runs.rows) + 1
    assert runs.keys == 40


@pytest.mark.parametrize("most", [1 << 30, 100])
@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 12), max_size=30)), max_size=40),
    st.lists(st.integers(0, 14), max_size=20),
)
def test_runs_are_lists_by_key(most: int, changes: list[tuple[bool, list[int]]], wanted: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_runs, "MOST_BYTES", most)
        compare(changes, wanted)


def compare(changes: list[tuple[bool, list[int]]], wanted: list[int]) -> None:
    runs, lists, counted = ListRuns(), {}, 0
    for adds, numbers in changes:
        if adds:
            values = list(range(counted, counted := counted + len(numbers)))
            runs.append(Elements(np.array(numbers, np.int64), pa.array(values, pa.int64())))
            for number, value in zip(numbers, values, strict=True):
                lists.setdefault(number, []).append(value)
        else:
            runs.clear(np.unique(np.array(numbers, np.int64)))
            for number in numbers:
                lists.pop(number, None)
        assert (runs.keys, runs.rows) == (len(lists), sum(map(len, lists.values())))
    asked_for = np.array(wanted, np.int64)
    assert runs.has(asked_for).tolist() == [number in lists for number in wanted]
    found: list[list[int]] = [[] for _ in wanted]
    for elements in runs.of(asked_for):
        for at, value in zip(elements.numbers.tolist(), elements.values.to_pylist(), strict=True):
            found[at].append(value)
    assert found == [lists.get(number, []) for number in wanted]


def test_what_an_epoch_adds_is_all_that_it_merges() -> None:
    """A run of a million elements is not rewritten for each thousand that are appended after it."""
    runs = ListRuns()
    runs.append(Elements(np.arange(100_000), pa.array(np.arange(100_000))))
    largest = runs.all()[0].values
    for n in range(40):
        runs.append(Elements(np.arange(n, n + 100), pa.array(np.arange(100))))
    assert runs.all()[0].values is largest


def test_keys_taken_from_keys_are_numbered_as_they_come() -> None:
    keys = Keys([pa.array(["b", "a", "c"])], lambda columns: columns[0].to_pylist())
    assert keys.distinct is keys
    taken = keys.take(np.array([2, 0, 2])).take(np.array([1, 0, 2]))
    assert (taken.codes.tolist(), taken.entries) == ([0, 1, 1], ["b", "c"])
    assert keys.take([2, 0]).entries == keys.take(pa.array([2, 0])).entries == ["c", "b"]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="flatnonzero"):
        keys.take(np.array([True, False, True]))
    assert indices(taken.distinct.codes).to_pylist() == [0, 1]
