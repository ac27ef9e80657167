"""Maps stored as columns: read by columns, they equal those of a table of entries, and so do the rows in the log."""

import datetime
import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_namespaced import KEYS, SPACES, asked, rows, statistics
from test_namespaced_lists import plain
from values_by_namespace import ByNamespace, ByRows

from state_engine.api import MapStateDescriptor, StateTtlConfig, Time, Types
from state_engine.api.keys import Keys
from state_engine.backends.batch_keys import EntryKeys
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import Namespaced
from state_engine.backends.layout import Layout
from state_engine.backends.shapes.column_maps import MapColumnTable
from state_engine.backends.shapes.maps import MapTable
from state_engine.backends.stores import value_runs
from state_engine.backends.stores.map_runs import Entries, MapChange, MapRuns, keys_of
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

USER_KEYS: dict[str, tuple[Any, list[Any]]] = {
    "a": (Types.INT(), [3, 1, 2, -5]),
    "b": (Types.STRING(), ["x", "", None, "y"]),
    "c": (Types.SQL_TIMESTAMP(), [datetime.datetime(2026, 1, day) for day in (3, 1, 2)]),
}
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "a": (Types.LONG(), [None, 1, 2]),
    "b": ("struct<n:bigint,text:string>", [None, (1, "x"), (2, None)]),
    "c": ("array<string>", [None, [], ["x", None]]),
}
DESCRIPTORS = {name: MapStateDescriptor(name, USER_KEYS[name][0], VALUES[name][0]) for name in USER_KEYS}
LONGS = MapStateDescriptor("a", Types.LONG(), Types.LONG())


def longs(keys: list[int]) -> Keys:
    return Keys([pa.array(keys, pa.int64())], lambda columns: columns[0].to_pylist())


@pytest.mark.slow
@pytest.mark.all_pairs(seed=5)
@pytest.mark.parametrize("seed", range(10))
def test_columns_and_log_are_those_of_entries(seed: int) -> None:
    drawn = random.Random(seed)
    both = [StateHarness(make, "k bigint") for make in (ByNamespace, ByRows)]
    for epoch in range(8):
        for _ in range(5):
            name, count = drawn.choice("abc"), drawn.choice([1, 30, 200])
            keys = drawn.choice([asked, plain])(drawn, count)
            keys = keys.take(np.array([drawn.randrange(count) for _ in range(count)])) if drawn.random() < 0.3 else keys
            user_keys = [drawn.choice(USER_KEYS[name][1]) for _ in range(count)]
            states = [one.backend.state(DESCRIPTORS[name]) for one in both]
            change(drawn, name, keys, user_keys, [state.columns for state in states])
            first, second = (state.columns for state in states)
            assert first.get_many(keys, user_keys).equals(second.get_many(keys, user_keys))
            assert first.contains_many(keys, user_keys).equals(second.contains_many(keys, user_keys))
            assert first.items_many(keys).equals(second.items_many(keys))
        if epoch == 3:
            for one in both:
                one.backend.freeze(0)
                one.backend.forget()
        else:
            of_columns, of_entries = (one.seal(epoch) for one in both)
            assert rows(of_columns) == rows(of_entries)
            assert in_order(of_columns) == in_order(of_entries)
        assert statistics(both[0]) == statistics(both[1])
    assert type(both[0].backend._tables["a"]) is MapColumnTable
    assert contents(both[0]) == contents(both[1]) == contents(both[0].reopened()) == contents(both[1].reopened())


def change(drawn: random.Random, name: str, keys: Keys, user_keys: list[Any], states: list[Any]) -> None:
    """Makes the same random call on several states."""
    what, values = drawn.random(), [drawn.choice(VALUES[name][1]) for _ in range(len(keys))]
    for state in states:
        if what < 0.6:
            state.put_many(keys, user_keys, values)
        elif what < 0.85:
            state.remove_many(keys, user_keys)
        else:
            state.remove_many(keys)


def in_order(epoch: dict[str, list[dict[str, Any]]]) -> dict[Any, list[Any]]:
    """Returns the rows of each map in the order of the log."""
    of_map: dict[Any, list[Any]] = {}
    for name, of_state in epoch.items():
        for row in sorted(of_state, key=lambda row: row["seq"]):
            of_map.setdefault((name, row["k"], row["namespace"]), []).append((row["op"], row["user_key"], row["value"]))
    return of_map


def contents(harness: StateHarness) -> dict[Any, Any]:
    places = product(DESCRIPTORS, KEYS, [None, *SPACES])
    return {
        (name, key, space): list(harness.state(DESCRIPTORS[name], key, space).items()) for name, key, space in places
    }


@pytest.mark.slow
@pytest.mark.all_pairs(seed=3)
@pytest.mark.parametrize("seed", range(6))
def test_row_methods_are_those_of_entries(seed: int) -> None:
    """No function uses both forms; nothing is lost between them."""
    drawn = random.Random(seed)
    both = [StateHarness(make, "k bigint") for make in (ByNamespace, ByRows)]
    for epoch in range(6):
        for _ in range(30):
            name, key, space = drawn.choice("abc"), drawn.choice(KEYS[:5]), drawn.choice([None, SPACES[0]])
            user_key, value = drawn.choice(USER_KEYS[name][1]), drawn.choice(VALUES[name][1])
            many = longs(drawn.choices(KEYS[:5], k=4))
            what = drawn.choice(["put", "put", "put_all", "remove", "clear", "columns"])
            for one in both:
                state = one.state(DESCRIPTORS[name], key, space)
                do(state, what, user_key, value, many)
                assert list(state.keys()) == [one for one, _ in state.items()]
                assert state.is_empty() is (not state.values())
            first, second = (one.state(DESCRIPTORS[name], key, space) for one in both)
            assert list(first.items()) == list(second.items())
            assert first.get(user_key) == second.get(user_key)
            assert first.contains(user_key) is second.contains(user_key)
        assert rows(both[0].seal(epoch)) == rows(both[1].seal(epoch))
    assert contents(both[0]) == contents(both[1].reopened())


def do(state: Any, what: str, user_key: Any, value: Any, many: Keys) -> None:
    match what:
        case "put":
            state.put(user_key, value)
        case "put_all":
            state.put_all({user_key: value})
        case "columns":
            state.columns.put_many(many, [user_key] * len(many), [value] * len(many))
        case "remove":
            state.remove(user_key)
        case "clear":
            state.clear()


def test_a_null_that_was_put_is_there() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state, keys = harness.backend.state(LONGS).columns, longs([1, 1, 2])
    for _ in range(2):
        state.put_many(keys.take(np.array([0, 1])), [7, 8], [None, 5])
        assert state.get_many(keys, [7, 8, 7]).to_pylist() == [None, 5, None]
        assert state.contains_many(keys, [7, 8, 7]).to_pylist() == [True, True, False]
        harness.seal()


def test_the_last_value_of_an_entry_counts_and_user_keys_may_be_read_again() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state, keys, user_keys = harness.backend.state(LONGS).columns, longs([1, 2, 1, 1]), pa.array([5, 5, 5, 6])
    assert state.get_many(keys, user_keys).to_pylist() == [None] * 4
    state.put_many(keys, user_keys, pa.array([1, 2, 3, 4]))
    assert state.get_many(keys, user_keys).to_pylist() == [3, 2, 3, 4]
    assert state.get_many(keys, pa.array([6, 6, 5, 5])).to_pylist() == [4, None, 3, 3]


def test_user_keys_that_change_are_read_again() -> None:
    """NumPy arrays and lists may get other values between two calls."""
    harness = StateHarness(ByNamespace, "k bigint")
    state, keys, user_keys = harness.backend.state(LONGS).columns, longs([1, 2]), np.array([5, 6])
    state.put_many(keys, user_keys, [1, 2])
    user_keys[:] = 6
    assert state.get_many(keys, user_keys).to_pylist() == [None, 2]


@pytest.mark.parametrize("wrap", [pa.array, pa.Array.from_pandas, None])
def test_arrow_shares_the_memory_of_user_keys_that_change(wrap: Any) -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state, keys, slots = harness.backend.state(LONGS).columns, longs([1, 2, 3]), np.zeros(3, np.int64)
    same = pa.array(slots)
    for n in range(3):
        slots[:] = n
        state.put_many(keys, same if wrap is None else wrap(slots), [n * 10] * 3)
    for n in range(3):
        assert state.get_many(keys, [n] * 3).to_pylist() == [n * 10] * 3


def test_keys_that_are_known_as_python_values_alone_find_theirs() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(LONGS).columns
    state.put_many(longs([7, 8]), [1, 1], [5, 6])
    keys = EntryKeys([8, Namespaced(8, "0/10"), 9, 7, 8])
    assert state.get_many(keys, [1, 1, 1, 1, 2]).to_pylist() == [6, None, None, 5, None]
    state.put_many(keys, [1] * 5, [1, 2, 3, 4, 5])
    assert state.get_many(keys, [1] * 5).to_pylist() == [5, 2, 3, 4, 5]


def test_no_records_ask_for_nothing() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state, none = harness.backend.state(LONGS).columns, longs([])
    state.put_many(none, [], [])
    state.remove_many(none)
    assert state.get_many(none, []).to_pylist() == state.contains_many(none, []).to_pylist() == []
    assert state.items_many(none).to_pylist() == []
    assert harness.seal() == {}


def test_entries_are_in_the_order_in_which_they_were_put() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state, keys = harness.backend.state(LONGS).columns, longs([2, 1, 2, 2])
    assert state.items_many(keys).to_pylist() == [[]] * 4
    state.put_many(keys, [9, 7, 3, None], [1, None, 2, 3])
    harness.seal()
    state.put_many(keys.take(np.array([0, 1])), [9, 5], [4, 5])
    state.remove_many(keys.take(np.array([2])), [3])
    of_two = [{"key": None, "value": 3}, {"key": 9, "value": 4}]
    of_one = [{"key": 7, "value": None}, {"key": 5, "value": 5}]
    assert state.items_many(keys).to_pylist() == [of_two, of_one, of_two, of_two]
    state.remove_many(longs([2]))
    harness.seal()
    assert state.items_many(keys).to_pylist() == [[], of_one, [], []]


@pytest.mark.parametrize(("user_key", "ttl", "table"), [
    (Types.LONG(), False, MapColumnTable), ("binary", False, MapColumnTable),
    (Types.LONG(), True, MapColumnTable), (Types.DOUBLE(), False, MapTable), ("decimal(10,2)", False, MapTable),
    ("struct<a:int>", False, MapTable),
])  # fmt: skip
def test_which_maps_are_columns(user_key: Any, ttl: bool, table: type) -> None:
    descriptor = MapStateDescriptor("a", user_key, Types.LONG())
    if ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    harness = StateHarness(ByNamespace, "k bigint")
    harness.backend.state(descriptor)
    assert type(harness.backend._tables["a"]) is table


def test_bytes_that_can_change_are_found_under_what_they_were() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.state(MapStateDescriptor("a", "binary", Types.LONG()), 1)
    user_key = bytearray(b"x")
    state.put(user_key, 5)
    user_key[0] = 0
    assert state.get(bytearray(b"x")) == 5
    assert list(state.keys()) == [b"x"]


def test_a_map_that_came_and_went_in_one_epoch_is_not_emptied_in_the_log() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(LONGS).columns
    state.put_many(longs([1]), [5], [5])
    harness.seal()
    state.put_many(longs([2]), [5], [5])
    state.remove_many(longs([1, 2, 3]))
    assert [(row["k"], row["op"]) for row in harness.seal()["a"]] == [(1, Op.CLEAR)]
    assert statistics(harness) == {"a": (0, 0)}


def test_user_keys_of_which_nothing_is_left_are_forgotten() -> None:
    """New items replace old ones for ever; the other items keep their values."""
    harness = StateHarness(HeapKeyedStateBackend, "k bigint")
    state = harness.backend.state(MapStateDescriptor("a", Types.STRING(), Types.LONG()), Layout.COLUMNS)
    table: MapColumnTable = harness.backend._tables["a"]
    keys = longs([n % 7 for n in range(2_000)])
    state.columns.put_many(longs([1]), ["stays"], [1])
    before: list[str] | None = None
    for start in range(0, 40_000, 2_000):
        items = [f"item {n}" for n in range(start, start + 2_000)]
        state.columns.put_many(keys, items, list(range(2_000)))
        if before is not None:
            state.columns.remove_many(keys, before)
        before = items
        harness.seal()
        assert len(table.entries.user_keys) < 10_000
        assert state.columns.get_many(keys, items).to_pylist() == list(range(2_000))
        assert state.columns.get_many(longs([1, 2]), ["stays", "stays"]).to_pylist() == [1, None]
    assert table.entries.user_keys.generation > 0
    assert statistics(harness) == {"a": (2_001, 7)}


def test_what_is_being_written_keeps_its_user_keys() -> None:
    """An epoch may have begun before the previous one is settled."""
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(LONGS)
    table: MapColumnTable = harness.backend._tables["a"]
    many = longs([1] * 5_000)
    state.columns.put_many(many, list(range(5_000)), [0] * 5_000)
    harness.seal()
    state.columns.remove_many(longs([1]))
    harness.backend.freeze(0)
    state.columns.put_many(longs([1, 2]), [4_999, 7_000], [5, 6])
    table.settle()
    assert len(table.entries.user_keys) == 2
    assert state.columns.get_many(longs([1, 2, 1]), [4_999, 7_000, 1]).to_pylist() == [5, 6, None]


def test_an_epoch_costs_what_it_changes() -> None:
    """However many entries exist, they are not rewritten for each few entries that are added after them."""
    harness = StateHarness(HeapKeyedStateBackend, "k bigint")
    state, many = harness.backend.state(LONGS, Layout.COLUMNS), 50_000
    store = harness.backend._tables["a"].store
    state.columns.put_many(longs([n % 50 for n in range(many)]), np.arange(many), np.arange(many))
    harness.seal()
    largest = store.get(None)._runs._runs[0].values
    for epoch in range(20):
        state.columns.put_many(longs([epoch, 1, 2]), [epoch, 1, 2], [epoch] * 3)
        harness.seal()
    assert store.get(None)._runs._runs[0].values is largest


def test_an_epoch_may_put_often() -> None:
    harness = StateHarness(ByNamespace, "k bigint")
    state = harness.backend.state(LONGS)
    for n in range(100):
        state.columns.put_many(longs([1, 2, 3]), [n, n, n // 2], [n, -n, n])
        assert len(harness.backend._tables["a"].written[None]._parts) <= 8
    state.columns.remove_many(longs([2]), [99])
    values = state.columns.get_many(longs([1, 2, 2, 3, 3]), [99, 99, 98, 49, 50]).to_pylist()
    assert values == [99, None, -98, 99, None]
    assert state.columns.contains_many(longs([1, 2, 3]), [99, 99, 50]).to_pylist() == [True, False, False]
    harness.seal()
    assert statistics(harness) == {"a": (100 + 99 + 50, 3)}


def test_what_was_put_key_by_key_was_put_before() -> None:
    both = [StateHarness(make, "k bigint") for make in (ByNamespace, ByRows)]
    for one in both:
        one.state(LONGS, 1).put(5, 5)
        one.backend.state(LONGS).columns.put_many(longs([1]), [6], [6])
        one.state(LONGS, 1).put(4, 4)
        assert list(one.state(LONGS, 1).keys()) == [5, 6, 4]


Changes = st.lists(
    st.tuples(
        st.lists(st.integers(0, 6), max_size=3),
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.booleans()), max_size=20),
    ),
    max_size=20,
)  # fmt: skip


@pytest.mark.parametrize("most", [1 << 30, 100])
@given(Changes, st.sets(st.integers(0, 6)))
def test_runs_are_maps_by_key(most: int, changes: Any, kept: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_runs, "MOST_BYTES", most)
        compare(changes, kept)


def compare(changes: Any, kept: set[int]) -> None:
    runs, maps, counted = MapRuns(pa.int64()), {}, 0
    for cleared, done in changes:
        for key in cleared:
            maps.pop(key, None)
        entries = {}
        for key, user_key, removed in done:
            counted += 1
            entries[key << 32 | user_key] = counted, removed
            maps.setdefault(key, {}).pop(user_key, None)
            if not removed:
                maps[key][user_key] = counted
        numbers = sorted(entries)
        removed = np.array([entries[n][1] for n in numbers], bool)
        places = np.array([entries[n][0] for n in numbers], np.int64)
        values = pa.array([None if entries[n][1] else entries[n][0] for n in numbers], pa.int64())
        runs.change(
            MapChange(
                np.unique(np.array(cleared, np.int64)), Entries(np.array(numbers, np.int64), values, places, removed)
            )
        )
        same(runs, maps)
    runs.keep(lambda keys: np.isin(keys, list(kept)))
    same(runs, {key: of_key for key, of_key in maps.items() if key in kept})


def same(runs: MapRuns, maps: dict[int, dict[int, int]]) -> None:
    assert (runs.keys, runs.rows) == (sum(map(bool, maps.values())), sum(map(len, maps.values())))
    every = np.array([key << 32 | user_key for key in range(7) for user_key in range(5)], np.int64)
    wanted = [maps.get(int(n) >> 32, {}).get(int(n) & 7) for n in every]
    assert runs.of(every).to_pylist() == wanted
    assert runs.has(every).tolist() == [value is not None for value in wanted]
    entries = runs.entries(np.arange(1, 7))
    of_all = sorted((value, key) for key, of_key in maps.items() if key for value in of_key.values())
    order = np.argsort(entries.places)
    assert list(zip(entries.places[order].tolist(), keys_of(entries.numbers)[order].tolist(), strict=True)) == of_all
