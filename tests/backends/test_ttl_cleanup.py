"""When the incremental clean-up looks at keys: as many as accesses ask for, and never in vain for a whole round."""

from typing import Any

import pytest

from state_engine.api.types import Types
from state_engine.backends.tables import HeapTable, ListDelta, ListTable, MapTable, ValueTable
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_cleanup import IncrementalCleanup
from state_engine.backends.ttl_rules import ttl_rules
from state_engine.log.records import StateTtl

TTL = 100
SHAPES = ("value", "list", "map")


class Watched(dict[Any, Any]):
    """A base that counts how often an entry is looked at."""

    looks = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


def table_of(shape: str, times: list[int]) -> tuple[HeapTable, Watched]:
    """A table with a row of each last access."""
    table: HeapTable = ValueTable(Types.LONG(), stamped=True)
    if shape == "list":
        table = ListTable(Types.LONG(), stamped=True)
    elif shape == "map":
        table = MapTable(Types.LONG(), Types.LONG(), stamped=True)
    watched = Watched()
    for key, at in enumerate(times):
        stamped = (7, at)
        watched[key] = [stamped] if shape == "list" else {1: stamped} if shape == "map" else stamped
    table.base = watched
    return table, watched


def cleanup_of(table: HeapTable, time: OperatorTime, size: int, returns: bool = False) -> IncrementalCleanup:
    ttl = StateTtl(milliseconds=TTL, update="write", returns_expired=returns, time="processing")
    return IncrementalCleanup(table, ttl_rules(ttl, time), size)


def visited(cleanup: IncrementalCleanup, accesses: int) -> None:
    for _ in range(accesses):
        cleanup.accessed()
    cleanup.run()


@pytest.mark.parametrize("shape", SHAPES)
def test_no_round_begins_before_something_the_last_one_left_has_expired(shape: str) -> None:
    table, base = table_of(shape, [20, 10, 30])
    time = OperatorTime(50)
    cleanup = cleanup_of(table, time, 3)
    visited(cleanup, 1)
    assert (base.looks, table.overlay) == (3, {})
    for now in (51, 80, 109):
        time.begin(now, 0)
        visited(cleanup, 5)
    assert base.looks == 3
    time.begin(110, 0)
    visited(cleanup, 5)
    assert list(table.overlay) == [1]
    assert base.looks == 6


@pytest.mark.parametrize("shape", SHAPES)
def test_old_rows_that_come_in_later_are_found(shape: str) -> None:
    table, base = table_of(shape, [90])
    time = OperatorTime(95)
    cleanup = cleanup_of(table, time, 1)
    visited(cleanup, 1)
    older, _ = table_of(shape, [0, 5])
    base.update({key + 10: held for key, held in older.base.items()})
    time.begin(110, 0)
    visited(cleanup, 9)
    assert not table.overlay
    cleanup.expect_old()
    visited(cleanup, 9)
    assert list(table.overlay) == [10, 11]


def test_a_list_that_is_added_to_is_looked_at_again() -> None:
    table, _ = table_of("list", [0])
    time = OperatorTime(TTL)
    cleanup = cleanup_of(table, time, 1)
    delta = table.overlay[0] = ListDelta()
    delta.appended.append((8, TTL))
    visited(cleanup, 1)
    assert not delta.cleared
    table.base[0].append((8, TTL))
    table.overlay.clear()
    time.begin(TTL + 1, 0)
    visited(cleanup, 1)
    assert (table.overlay[0].cleared, table.overlay[0].appended) == (True, [(8, TTL)])


@pytest.mark.parametrize(("returns", "at_once"), [(False, 0), (True, 3)])
def test_keys_are_looked_at_together_unless_expired_values_may_be_read(returns: bool, at_once: int) -> None:
    table, base = table_of("value", [0] * 10)
    cleanup = cleanup_of(table, OperatorTime(TTL), 3, returns)
    cleanup.accessed()
    assert base.looks == at_once
    cleanup.run()
    assert base.looks == 3


def test_a_long_epoch_does_not_wait_for_its_end() -> None:
    table, _ = table_of("value", [0] * 5_000)
    cleanup = cleanup_of(table, OperatorTime(TTL), 10)
    for _ in range(400):
        cleanup.accessed()
    assert len(table.overlay) == 4_000
