"""Values with a time to live, stored as columns: they and their rows in the log equal those of a table of entries."""

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from values_by_namespace import ByNamespace, ByRows

from state_engine.api import StateTtlConfig, Time, Types, ValueStateDescriptor
from state_engine.api.keys import Keys
from state_engine.backends.delta import Delta
from state_engine.backends.entry_index import ByNamespace as Segmented
from state_engine.backends.entry_index import EntryIndex, drop_unused
from state_engine.backends.keys import KeyCodec
from state_engine.backends.shapes import table as tables
from state_engine.backends.shapes.values import ValueColumnTable
from state_engine.backends.stored_type import StoredType
from state_engine.backends.stores.segments import Segments
from state_engine.backends.stores.value_runs import Run, ValueRuns
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_cleanup import IncrementalCleanup
from state_engine.backends.ttl_rules import ttl_rules
from state_engine.log.ops import Op
from state_engine.log.records import StateTtl
from state_engine.serialization.types import parse_columns
from state_engine.testing.state_harness import StateHarness

TTL = 100
KEYS = list(range(30))
VALUES = {"count": [None, 1, 2], "texts": [None, ["x"], ["x", "y"], []]}
TYPES: dict[str, Any] = {"count": Types.LONG(), "texts": "array<string>"}


def lives() -> StateTtlConfig.Builder:
    """Returns a config with which each access checks all of the few keys, in whatever order they are."""
    return bare().cleanup_incrementally(100, False)


def bare() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()


CONFIGS = {
    "written": lives(),
    "read": lives().update_ttl_on_read_and_write(),
    "returned": bare().return_expired_if_not_cleaned_up(),
    "returned and read": (bare().return_expired_if_not_cleaned_up().update_ttl_on_read_and_write()),
    "never cleaned up": bare(),
    "dropped at the start": lives().cleanup_full_snapshot(),
    "cleaned up with each record": lives().cleanup_incrementally(100, True),
}


def described(name: str, config: StateTtlConfig.Builder | None) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(name, TYPES[name])
    if config is not None:
        descriptor.enable_time_to_live(config.build())
    return descriptor


def asked(drawn: random.Random) -> Keys:
    count = drawn.choice([1, 10, 60])
    return Keys([pa.array([drawn.choice(KEYS) for _ in range(count)])], lambda columns: columns[0].to_pylist())


def content(epoch: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Returns the rows of an epoch; those of different keys have no order."""
    return {name: sorted(repr({**row, "seq": None}) for row in rows) for name, rows in epoch.items()}


class Both:
    """A table by columns and one of entries, with the same calls."""

    def __init__(self, config: StateTtlConfig.Builder | None) -> None:
        self.config = config
        self.harnesses = [StateHarness(make, "k bigint", now=(0, 0)) for make in (ByNamespace, ByRows)]

    def states(self, name: str) -> list[Any]:
        return [one.backend.state(described(name, self.config)) for one in self.harnesses]

    def at(self, now: int) -> None:
        for one in self.harnesses:
            one.time.begin(now, 0)

    def end(self) -> None:
        """Seals an epoch; the clean-up has the same result in both, because it checks all of the few keys."""
        columns, entries = (content(one.seal()) for one in self.harnesses)
        assert columns == entries
        columns, entries = ([(s.name, s.rows) for s in one.backend.statistics()] for one in self.harnesses)
        assert columns == entries

    def reopen(self) -> None:
        self.harnesses = [one.reopened() for one in self.harnesses]

    def read(self) -> None:
        for name, key in product(TYPES, KEYS):
            values = [one.state(described(name, self.config), key).value() for one in self.harnesses]
            assert values[0] == values[1]


@pytest.mark.all_pairs(seed=3)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("seed", range(8))
def test_columns_and_log_are_those_of_entries(config: StateTtlConfig.Builder, seed: int) -> None:
    drawn, both = random.Random(seed), Both(config)
    both.states("count")
    assert isinstance(both.harnesses[0].backend._tables["count"], ValueColumnTable)  # type: ignore[attr-defined]
    live_through(drawn, both, lambda: in_one_epoch(drawn, both))


def in_one_epoch(drawn: random.Random, both: Both) -> None:
    for name in [drawn.choice(list(TYPES)) for _ in range(drawn.randrange(4))]:
        keys, (first, second) = asked(drawn), both.states(name)
        match drawn.randrange(4):
            case 0:
                first.columns.remove_many(keys)
                second.columns.remove_many(keys)
            case 1:
                assert first.columns.get_many(keys).equals(second.columns.get_many(keys))
            case 2:
                assert first.columns.contains_many(keys).equals(second.columns.contains_many(keys))
            case _:
                values = [drawn.choice(VALUES[name]) for _ in range(len(keys))]
                first.columns.put_many(keys, values)
                second.columns.put_many(keys, values)
        for one in both.harnesses:
            one.context.count_records(len(keys))  # as the operator does after a batch


def live_through(drawn: random.Random, both: Any, do: Callable[[], None]) -> None:
    """Runs both tables through epochs that are sealed or forgotten, and through restarts, and compares them."""
    now = 0
    for _ in range(12):
        now += drawn.choice([0, 1, 30, 60, 130])
        both.at(now)
        do()
        match drawn.randrange(8):
            case 0:
                for one in both.harnesses:
                    one.backend.freeze(now)
                    one.backend.forget()
            case 1:
                both.end()
                both.reopen()
            case 2:
                both.read()
                both.end()
            case _:
                both.end()
    both.read()
    both.end()
    both.reopen()
    both.read()


def test_what_has_no_known_time_begins_its_life_with_the_first_look() -> None:
    both = Both(CONFIGS["never cleaned up"])
    keys = Keys([pa.array(KEYS)], lambda columns: columns[0].to_pylist())
    for one in both.harnesses:
        written = [{"k": key, "op": Op.PUT, "value": key} for key in KEYS]
        one.write_to_log(described("count", both.config), written)
    both.reopen()
    both.at(1_000)
    for state in both.states("count"):
        assert state.columns.get_many(keys.take(np.arange(10))).to_pylist() == KEYS[:10]
    both.end()
    both.at(1_000 + TTL)
    for state in both.states("count"):
        assert state.columns.get_many(keys).to_pylist() == [None] * 10 + KEYS[10:]
    both.end()


@pytest.mark.parametrize("cleaned", [True, False])
def test_what_has_expired_is_read_once_where_that_is_allowed(cleaned: bool) -> None:
    both = Both((lives() if cleaned else bare()).return_expired_if_not_cleaned_up())
    keys = Keys([pa.array([1, 2, 1])], lambda columns: columns[0].to_pylist())
    columns = both.states("count")[0].columns
    columns.put_many(keys, [7, 8, 9])
    both.harnesses[0].seal()
    both.at(5 * TTL)
    assert columns.get_many(keys).to_pylist() == [9, 8, 9]
    assert columns.get_many(keys).to_pylist() == [None] * 3


def test_reads_at_one_time_are_logged_once() -> None:
    harness = StateHarness(ByNamespace, "k bigint", now=(0, 0))
    state = harness.backend.state(described("count", CONFIGS["read"]))
    keys = Keys([pa.array(KEYS)], lambda columns: columns[0].to_pylist())
    state.columns.put_many(keys, KEYS)
    harness.seal()
    harness.time.begin(7, 0)
    for logged in (len(KEYS), 0):
        assert state.columns.get_many(keys).to_pylist() == KEYS
        assert len(harness.seal().get("count", ())) == logged


# Which keys the clean-up checks --------------------------------------------------------------------------------------


class Watched(ValueColumnTable):
    """Records which keys were checked."""

    def __init__(self, times: list[int | None]) -> None:
        stored, index = StoredType(Types.LONG(), stamped=True), EntryIndex(KeyCodec(parse_columns("k bigint"), 8))
        super().__init__(stored, Segmented(index), Segments(lambda: ValueRuns(stored.arrow)))
        self.seen: list[list[int]] = []
        kinds = np.full(len(times), Op.PUT, np.int8)
        values = pa.array([{"value": 7, "last_access": time} for time in times], stored.arrow)
        self.merge(Delta(kinds, values, entries=list(range(len(times)))))
        stamps = [time for time in times if time is not None]
        self.oldest = min(stamps) if len(stamps) == len(times) else float("-inf")

    @property
    def index(self) -> EntryIndex:
        return self.addressing.index

    def clean(self, segment: str | None, numbers: Any, expiry: float, seen: int | None) -> float:
        self.seen.append(numbers.tolist())
        return super().clean(segment, numbers, expiry, seen)

    def changed(self) -> dict[int, Any]:
        """Returns the rows of the epoch, by key, and starts another one."""
        written = {
            number: None if value is None else value["last_access"]
            for run in self.written.values()
            for number, value in zip(run.numbers.tolist(), run.values.to_pylist(), strict=True)
        }
        self.freeze()
        self.settle()
        self.seen = []
        return written


def cleaning(table: ValueColumnTable, now: int, size: int) -> tuple[IncrementalCleanup, OperatorTime]:
    time = OperatorTime(now)
    ttl = StateTtl(milliseconds=TTL, update="write", returns_expired=False, time="processing")
    return IncrementalCleanup(table, ttl_rules(ttl, time), size), time


def test_it_looks_at_as_many_keys_as_are_owed_and_goes_on_where_it_was() -> None:
    table = Watched([10, 20, 30, 200, 10])
    cleanup, _ = cleaning(table, 150, 2)
    cleanup.accessed()
    cleanup.run()
    assert table.seen == [[0, 1]]
    assert table.changed() == {0: None, 1: None}
    cleanup.accessed(2)
    cleanup.run()
    assert table.seen == [[2, 3, 4]]
    assert table.changed() == {2: None, 4: None}
    assert table.rows == 1


def test_a_key_that_was_written_later_is_checked_once_in_a_round() -> None:
    table = Watched([10] * 5)
    cleanup, time = cleaning(table, 50, 5)
    for number in (1, 3):
        table.write(None, Run(np.array([number]), pa.array([{"value": 8, "last_access": 60}], table.stored.arrow)))
        table.changed()
    assert len(table.store.get(None).parts) == 2
    time.begin(120, 0)
    cleanup.accessed()
    cleanup.run()
    assert sorted(number for seen in table.seen for number in seen) == [0, 1, 2, 3, 4]
    assert table.changed() == {0: None, 2: None, 4: None}


def test_no_round_begins_before_something_the_last_one_left_has_expired() -> None:
    table = Watched([20, 10, 30])
    cleanup, time = cleaning(table, 115, 3)
    cleanup.accessed()
    cleanup.run()
    assert table.changed() == {1: None}
    for now in (116, 119):
        time.begin(now, 0)
        cleanup.accessed()
        cleanup.run()
        assert table.seen == []
    time.begin(127, 0)  # an eighth of the time to live after the round before
    cleanup.accessed()
    cleanup.run()
    assert table.changed() == {0: None}


def test_what_was_written_in_the_epoch_stays() -> None:
    table = Watched([10, 10, None, None])
    cleanup, _ = cleaning(table, 150, 10)
    rewritten = pa.array([{"value": 8, "last_access": 150}] * 2, table.stored.arrow)
    table.write(None, Run(np.array([1, 3]), rewritten))
    cleanup.accessed()
    cleanup.run()
    assert table.changed() == {0: None, 1: 150, 2: 150, 3: 150}


def test_keys_that_get_other_numbers_are_not_checked_twice() -> None:
    table = Watched([10, 10, 200, 10, 200])
    cleanup, _ = cleaning(table, 150, 3)
    cleanup.accessed()
    cleanup.run()
    assert table.changed() == {0: None, 1: None}
    table.index.keys.limit = 0
    drop_unused(table.index, [table])
    assert len(table.index.keys) == 3
    cleanup.accessed()
    cleanup.run()
    assert table.seen == [[1, 2]]
    assert table.changed() == {1: None}


def test_a_round_ends_however_many_keys_other_states_get() -> None:
    """Keys are numbered once for all states of an operator."""
    table = Watched([10] * 6)
    cleanup, time = cleaning(table, 50, 1)
    for n in range(20):
        time.begin(120 + n, 0)
        table.index.keys.of(list(range(100 + 10 * n, 110 + 10 * n)))
        cleanup.accessed()
        cleanup.run()
        table.changed()
    assert table.rows == 0


def test_no_look_is_at_more_keys_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "AT_ONCE", 2)
    table = Watched([10] * 5)
    cleanup, _ = cleaning(table, 150, 100)
    cleanup.accessed()
    cleanup.run()
    assert table.seen == [[0, 1], [2, 3], [4]]
    assert table.changed() == dict.fromkeys(range(5))


def test_what_is_removed_is_logged_although_a_load_may_have_dropped_it() -> None:
    """Otherwise a longer time to live would bring it back."""
    harness = StateHarness(ByNamespace, "k bigint")
    descriptor = described("count", CONFIGS["written"])
    state = harness.state(descriptor, 1)
    state.update(5)
    harness.seal()
    table: Any = harness.backend._tables["count"]  # type: ignore[attr-defined]
    table.drop_expired(lambda stamp: True)
    assert (table.rows, state.value()) == (0, None)
    state.clear()
    assert [Op(row["op"]) for row in harness.seal()["count"]] == [Op.DELETE]
