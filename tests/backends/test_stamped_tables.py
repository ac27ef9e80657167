"""States with a time to live, stored as columns: they and their rows in the log equal those of entries."""

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_stamped_values import CONFIGS, KEYS, TTL, asked, bare, content, live_through, lives
from values_by_namespace import ByNamespace, ByRows

from state_engine.api import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.keys import Keys
from state_engine.backends.shapes.column_maps import MapColumnTable
from state_engine.backends.shapes.lists import ListColumnTable, ListTable
from state_engine.backends.shapes.maps import MapTable
from state_engine.backends.shapes.values import ValueColumnTable, ValueTable
from state_engine.backends.time import NO_WATERMARK
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

VALUES: dict[str, list[Any]] = {
    "longs": [1, 2, 3],
    "texts": ["x", "", None],
    "of longs": [None, 1, 2],
    "count": [None, 1, 2],
}
USER_KEYS = [5, 1, None, 3]


def described(name: str, config: StateTtlConfig.Builder) -> Any:
    made: dict[str, Any] = {
        "longs": lambda: ListStateDescriptor("longs", Types.LONG()),
        "texts": lambda: ListStateDescriptor("texts", Types.STRING()),
        "count": lambda: ValueStateDescriptor("count", Types.LONG()),
        "of longs": lambda: MapStateDescriptor("of-longs", Types.INT(), Types.LONG()),
    }
    descriptor = made[name]()
    descriptor.enable_time_to_live(config.build())
    return descriptor


class Both:
    """Tables of columns and tables of entries, with the same calls."""

    def __init__(self, config: StateTtlConfig.Builder) -> None:
        self.config = config
        self.now = 0
        self.by_event_time = (
            config.build().get_ttl_time_characteristic() == StateTtlConfig.TtlTimeCharacteristic.EventTime
        )
        incremental = config.build().get_cleanup_strategies().get_incremental_cleanup_strategy()
        self.cleans = incremental is not None and incremental.get_cleanup_size() > 0
        self.harnesses = [StateHarness(make, "k bigint", now=(0, 0)) for make in (ByNamespace, ByRows)]

    def columns(self, name: str) -> list[Any]:
        return [one.backend.state(described(name, self.config)).columns for one in self.harnesses]

    def at(self, now: int) -> None:
        """Begins an epoch; by event time the first epochs have no watermark.

        A clean-up then gives values without a time one: by entries the current record's, by columns the watermark.
        """
        self.now = now
        has_watermark = self.by_event_time and (self.cleans or now >= 2 * TTL)
        for one in self.harnesses:
            one.time.begin(now, now if has_watermark else NO_WATERMARK)

    def asked(self, drawn: random.Random) -> Keys:
        """Returns some keys; by event time with times, early and late ones among them."""
        keys = asked(drawn)
        if self.by_event_time and drawn.random() < 0.9:
            times = [drawn.choice([None, drawn.randrange(self.now - 150, self.now + 150)]) for _ in range(len(keys))]
            keys.times = pa.array(times, pa.int64())
        return keys

    def end(self) -> None:
        columns, entries = (content(one.seal()) for one in self.harnesses)
        assert columns == entries
        statistics = ({s.name: (s.rows, s.keys) for s in one.backend.statistics()} for one in self.harnesses)
        columns, entries = statistics
        assert columns == entries

    def reopen(self) -> None:
        self.harnesses = [one.reopened() for one in self.harnesses]

    def read(self) -> None:
        for name, key in product(VALUES, KEYS):
            states = [one.state(described(name, self.config), key) for one in self.harnesses]
            first, second = map(read_row, states)
            if name == "of longs" and self.cleans:  # an entry that was removed and put again comes after the others
                first, second = sorted(first, key=repr), sorted(second, key=repr)
            assert first == second

    def do(self, drawn: random.Random, name: str, keys: Keys) -> None:
        """Makes a random call for all keys of one state, and compares the results."""
        values = [drawn.choice(VALUES[name]) for _ in range(len(keys))]
        if name == "of longs":
            user_keys = [drawn.choice(USER_KEYS) for _ in range(len(keys))]
            calls: list[Any] = [
                ("get_many", user_keys), ("contains_many", user_keys), ("remove_many",), ("remove_many", user_keys),
                ("items_many",),
                ("put_many", user_keys, values), ("put_many", user_keys, values),
            ]  # fmt: skip
        elif name == "count":
            calls = [("get_many",), ("contains_many",), ("remove_many",), ("put_many", values), ("put_many", values)]
        else:
            lists = [[drawn.choice(VALUES[name]) for _ in range(drawn.randrange(4))] for _ in range(len(keys))]
            calls = [
                ("get_many",), ("contains_many",), ("remove_many",), ("put_many", lists),
                ("add_many", values), ("add_many", values),
            ]  # fmt: skip
        method, *arguments = drawn.choice(calls)
        first, second = (getattr(columns, method)(keys, *arguments) for columns in self.columns(name))
        if method == "items_many" and self.cleans:  # as in `read`
            first, second = ([sorted(items, key=repr) for items in one.to_pylist()] for one in (first, second))
            assert first == second
        assert (first is None and second is None) or first == second
        for one in self.harnesses:
            one.context.count_records(len(keys))  # as the operator does after a batch


def read_row(state: Any) -> list[Any]:
    """Returns all that a state has for the current key, by its row methods."""
    if isinstance(state, MapState):
        return list(state.items())
    return list(state.get()) if isinstance(state, ListState) else [state.value()]


def by_event_time() -> StateTtlConfig.Builder:
    return bare().use_event_time()


COMPARED = {
    **CONFIGS,
    "read and never cleaned up": bare().update_ttl_on_read_and_write(),
    "event time": by_event_time(),
    "event time and read": by_event_time().update_ttl_on_read_and_write(),
    "event time and returned": by_event_time().return_expired_if_not_cleaned_up(),
    "event time and cleaned up": lives().use_event_time(),
}


@pytest.mark.slow
@pytest.mark.all_pairs(seed=3)
@pytest.mark.parametrize("config", COMPARED.values(), ids=COMPARED)
@pytest.mark.parametrize("seed", range(8))
def test_columns_and_log_are_those_of_entries(config: StateTtlConfig.Builder, seed: int) -> None:
    drawn, both = random.Random(seed), Both(config)

    def in_one_epoch() -> None:
        for name in [drawn.choice(list(VALUES)) for _ in range(drawn.randrange(5))]:
            both.do(drawn, name, both.asked(drawn))

    live_through(drawn, both, in_one_epoch)


def test_which_tables_they_have() -> None:
    both = Both(CONFIGS["written"])
    for name in VALUES:
        both.columns(name)
    of_columns, of_entries = ([type(t) for t in one.backend._tables.values()] for one in both.harnesses)
    assert of_columns == [ListColumnTable, ListColumnTable, MapColumnTable, ValueColumnTable]
    assert of_entries == [ListTable, ListTable, MapTable, ValueTable]


@pytest.mark.parametrize("name", ["longs", "of longs"])
def test_what_has_no_known_time_begins_its_life_with_the_first_look(name: str) -> None:
    both = Both(CONFIGS["never cleaned up"])
    op = Op.PUT if name == "of longs" else Op.APPEND
    for one in both.harnesses:
        written = [{"k": key, "op": op, "value": key} for key in KEYS]
        if name == "of longs":
            written = [{**row, "user_key": 1} for row in written]
        one.write_to_log(described(name, both.config), written)
    both.reopen()
    both.at(1_000)
    some, every = of(KEYS[:10]), of(KEYS)
    for columns in both.columns(name):
        assert read(columns, some) == KEYS[:10]
    both.end()
    both.at(1_000 + TTL)
    for columns in both.columns(name):
        assert read(columns, every) == [None] * 10 + KEYS[10:]
    both.end()


def of(keys: list[int]) -> Keys:
    return Keys([pa.array(keys, pa.int64())], lambda columns: columns[0].to_pylist())


def read(columns: Any, keys: Keys) -> list[Any]:
    if hasattr(columns, "items_many"):
        return columns.get_many(keys, [1] * len(keys)).to_pylist()
    return [one[0] if one else None for one in columns.get_many(keys).to_pylist()]


@pytest.mark.parametrize("cleaned", [True, False])
def test_what_has_expired_is_read_once_where_that_is_allowed(cleaned: bool) -> None:
    both = Both((lives() if cleaned else bare()).return_expired_if_not_cleaned_up())
    keys, (lists, maps) = of([1, 2, 1]), (both.columns(name)[0] for name in ("longs", "of longs"))
    lists.add_many(keys, [7, 8, 9])
    maps.put_many(keys, [1, 1, 2], [7, 8, 9])
    both.harnesses[0].seal()
    both.at(5 * TTL)
    assert lists.get_many(keys).to_pylist() == [[7, 9], [8], [7, 9]]
    assert lists.get_many(keys).to_pylist() == [[]] * 3
    assert maps.get_many(keys, [1, 1, 2]).to_pylist() == [7, 8, 9]
    assert maps.contains_many(keys, [1, 1, 2]).to_pylist() == [False] * 3


def test_elements_expire_one_by_one() -> None:
    both = Both(CONFIGS["never cleaned up"])
    keys = of([1, 1, 2])
    for now in (0, TTL // 2):
        both.at(now)
        for lists, maps in zip(both.columns("longs"), both.columns("of longs"), strict=True):
            lists.add_many(keys, [now, now + 1, now])
            maps.put_many(keys, [now, now + 1, now], [now, now, None])
        both.end()
    both.at(TTL)
    for lists, maps in zip(both.columns("longs"), both.columns("of longs"), strict=True):
        assert lists.get_many(keys).to_pylist() == [[50, 51], [50, 51], [50]]
        assert maps.contains_many(keys, [0, 50, 50]).to_pylist() == [False, True, True]
        assert maps.get_many(keys, [0, 50, 50]).to_pylist() == [None, 50, None]
    both.end()


@pytest.mark.parametrize("name", ["longs", "texts", "of longs"])
def test_reads_at_one_time_are_logged_once(name: str) -> None:
    harness = StateHarness(ByNamespace, "k bigint", now=(0, 0))
    columns = harness.backend.state(described(name, CONFIGS["read"])).columns
    asked_with = ([1] * 3,) if name == "of longs" else ()
    put = columns.put_many if name == "of longs" else columns.add_many
    put(of([1, 2, 3]), *asked_with, VALUES[name][:3])
    harness.seal()
    harness.time.begin(7, 0)
    for _ in range(2):
        columns.get_many(of([1, 2, 3]), *asked_with)
    assert {
        row["last_access"] for row in harness.seal()[described(name, CONFIGS["read"]).name] if row["op"] != Op.CLEAR
    } == {7}
    harness.time.begin(7, 0)
    columns.get_many(of([1, 2, 3]), *asked_with)
    assert harness.seal() == {}


@pytest.mark.parametrize("name", ["longs", "texts", "of longs"])
def test_a_clean_up_goes_on_where_it_was_when_keys_got_other_numbers(name: str) -> None:
    both = Both(lives().cleanup_incrementally(3, False))
    asked_with = ([1] * len(KEYS),) if name == "of longs" else ()
    columns = both.columns(name)[0]
    (columns.put_many if name == "of longs" else columns.add_many)(of(KEYS), *asked_with, [VALUES[name][1]] * len(KEYS))
    harness = both.harnesses[0]
    harness.seal()
    now = 0
    for key in KEYS[:20]:
        now += TTL * 2 if key == 0 else 1
        both.at(now)
        columns.remove_many(of([key]))
        harness.seal()  # which gives the keys other numbers, in the same order
    assert [(s.rows, s.keys) for s in harness.backend.statistics()] == [(0, 0)]


@pytest.mark.parametrize("count", [1, 700])
def test_lists_to_which_each_epoch_adds_do_not_grow_for_ever(count: int) -> None:
    both, keys = Both(lives().cleanup_incrementally(10, False)), of(list(range(count)))
    for epoch in range(12):
        both.at(60 * epoch)
        for columns in both.columns("longs"):
            columns.add_many(keys, [epoch] * count)
        both.end()
    assert [s.rows for one in both.harnesses for s in one.backend.statistics()] == [2 * count] * 2


def test_lists_of_which_little_expires_each_epoch_are_seldom_written_anew() -> None:
    both, keys, logged = Both(lives().cleanup_incrementally(10, False)), of([1, 2]), [0, 0]
    for epoch in range(120):
        both.at(5 * epoch)
        for columns in both.columns("longs"):
            columns.add_many(keys, [epoch] * 2)
        for n, one in enumerate(both.harnesses):
            rows = len(one.seal()["longs"])
            logged[n] += rows if epoch >= 40 else 0
            [counted] = one.backend.statistics()
            assert counted.rows <= 2 * 28  # 20 live, and up to a third more
    added = 2 * 80
    assert logged[0] == logged[1]
    assert 2 * added < logged[0] <= 4 * added + 2 * 28


def test_user_keys_may_come_once() -> None:
    harness = StateHarness(ByNamespace, "k bigint", now=(0, 0))
    columns = harness.backend.state(described("of longs", CONFIGS["written"])).columns
    columns.put_many(of([1, 2]), iter([5, 6]), [7, 8])
    columns.remove_many(of([1, 3]), iter([5, 6]))
    assert columns.get_many(of([1, 2]), iter([5, 6])).to_pylist() == [None, 8]


def test_numbers_of_lists_are_not_those_of_their_elements() -> None:
    """A clean-up counts keys, not their elements."""
    harness = StateHarness(ByNamespace, "k bigint", now=(0, 0))
    columns = harness.backend.state(described("longs", lives().cleanup_incrementally(1, False))).columns
    columns.add_many(of([n % 3 for n in range(3_000)]), np.arange(3_000))
    harness.seal()
    harness.time.begin(TTL, 0)
    columns.contains_many(of([7, 8]))
    assert len([row for row in harness.seal()["longs"] if row["op"] == Op.CLEAR]) == 2
