"""When the incremental clean-up checks keys: the number follows from the accesses, and no whole round is useless."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api.pyflink_types import Types
from state_engine.backends.keys import KeyCodec
from state_engine.backends.shapes.lists import ListTable
from state_engine.backends.shapes.maps import MapTable, UserKeys
from state_engine.backends.shapes.values import ValueTable
from state_engine.backends.stamps import oldest_access
from state_engine.backends.stored_type import StoredType
from state_engine.backends.stores.dicts import DictValues, ListDelta
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_cleanup import IncrementalCleanup
from state_engine.backends.ttl_rules import ttl_rules
from state_engine.log.ops import Op
from state_engine.log.records import StateTtl
from state_engine.serialization.types import parse_columns

TTL = 100
SHAPES = ("value", "list", "map")


class Watched(DictValues):
    """A store that counts how often an entry is checked."""

    looks = 0

    def __init__(self) -> None:
        super().__init__(KeyCodec(parse_columns("k bigint"), 8))

    def get(self, key: Any, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


def table_of(shape: str, times: list[int]) -> tuple[Any, Watched]:
    """Returns a table that was loaded with one row per last access."""
    watched, stored = Watched(), StoredType(Types.LONG(), stamped=True)
    table: Any = ValueTable(stored, watched)
    if shape == "list":
        table = ListTable(stored, watched)
    elif shape == "map":
        table = MapTable(UserKeys(Types.LONG()), stored, watched)
    for key, at in enumerate(times):
        stamped = (7, at)
        watched[key] = [stamped] if shape == "list" else {1: stamped} if shape == "map" else stamped
    table.oldest = min(times)
    return table, watched


def cleanup_of(
    table: Any, time: OperatorTime, size: int, returns: bool = False, *, by_event_time: bool = False
) -> IncrementalCleanup:
    clock = "event" if by_event_time else "processing"
    ttl = StateTtl(milliseconds=TTL, update="write", returns_expired=returns, time=clock)
    return IncrementalCleanup(table, ttl_rules(ttl, time), size)


def visited(cleanup: IncrementalCleanup, accesses: int) -> None:
    for _ in range(accesses):
        cleanup.accessed()
    cleanup.run()


@pytest.mark.parametrize("shape", SHAPES)
def test_no_round_begins_before_something_the_last_one_left_has_expired(shape: str) -> None:
    table, base = table_of(shape, [20, 10, 30])
    time = OperatorTime(115)
    cleanup = cleanup_of(table, time, 3)
    visited(cleanup, 1)
    assert (base.looks, list(table.overlay)) == (3, [1])
    del base[1]
    for now in (116, 119):
        time.begin(now, 0)
        visited(cleanup, 5)
    assert base.looks == 3
    time.begin(115 + TTL // 8 - 1, 0)
    visited(cleanup, 5)
    assert base.looks == 3, "a round may begin only so often"
    time.begin(115 + TTL // 8, 0)
    visited(cleanup, 5)
    assert list(table.overlay) == [1, 0]
    assert base.looks == (5 if shape == "value" else 4)  # of a list and a map it is known when they begin to expire


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_checked_before_what_was_loaded_can_have_expired(shape: str) -> None:
    table, base = table_of(shape, [20, 10, 30])
    time = OperatorTime(50)
    cleanup = cleanup_of(table, time, 3)
    for now in (51, 80, 109):
        visited(cleanup, 5)
        time.begin(now, 0)
    visited(cleanup, 5)
    assert (base.looks, table.overlay) == (0, {})
    time.begin(110, 0)
    visited(cleanup, 5)
    assert list(table.overlay) == [1]


@pytest.mark.parametrize("shape", SHAPES)
def test_by_event_time_nothing_is_checked_before_it_can_have_expired(shape: str) -> None:
    """The watermark moves with nearly each record, and each time a round could begin."""
    table, base = table_of(shape, [20, 10, 30])
    time = OperatorTime(0, 50)
    cleanup = cleanup_of(table, time, 3, by_event_time=True)
    for watermark in range(50, 110):
        time.watermark = watermark
        visited(cleanup, 5)
    assert (base.looks, table.overlay) == (0, {})
    time.watermark = 110
    visited(cleanup, 5)
    assert list(table.overlay) == [1]


@pytest.mark.parametrize("loaded", [[], [40]])
def test_what_the_first_epoch_writes_is_found_when_it_has_expired(loaded: list[int]) -> None:
    table, base = table_of("value", [*loaded, 40])
    table.oldest = min(loaded, default=math.inf)
    written = len(loaded)
    base.pop(written)
    time = OperatorTime(40)
    cleanup = cleanup_of(table, time, 3)
    cleanup.run()
    base[written] = (7, 40)
    table.oldest = min(table.oldest, 40)  # as the backend notes it with the rows for the log
    time.begin(139, 0)
    visited(cleanup, 1)
    assert not table.overlay
    time.begin(140, 0)
    visited(cleanup, 1)
    assert written in table.overlay


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_unknown_time_are_checked_at_once(shape: str) -> None:
    table, base = table_of(shape, [50])
    unknown = (7, None)
    base[0] = [unknown] if shape == "list" else {1: unknown} if shape == "map" else unknown
    table.oldest = -math.inf
    visited(cleanup_of(table, OperatorTime(60), 1), 1)
    assert list(table.overlay) == [0], "it has a time from now on"


@pytest.mark.parametrize("shape", SHAPES)
def test_old_rows_that_come_in_later_are_found(shape: str) -> None:
    table, base = table_of(shape, [90])
    time = OperatorTime(95)
    cleanup = cleanup_of(table, time, 1)
    visited(cleanup, 1)
    older, _ = table_of(shape, [0, 5])
    time.begin(110, 0)
    visited(cleanup, 9)
    assert not table.overlay
    base.update({key + 10: held for key, held in older.base.items()})
    table.oldest = older.oldest
    visited(cleanup, 9)
    assert list(table.overlay) == [10, 11]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_forgotten_attempt_removed_is_found_again(shape: str) -> None:
    table, _ = table_of(shape, [5, 90])
    time = OperatorTime(106)
    cleanup = cleanup_of(table, time, 2)
    visited(cleanup, 1)
    assert list(table.overlay) == [0]
    table.forget()
    cleanup.expect_old()
    time.begin(107, 0)
    visited(cleanup, 1)
    assert list(table.overlay) == [0]


def test_the_oldest_of_log_rows_is_that_of_rows_that_write() -> None:
    put, delete, clear = Op.PUT, Op.DELETE, Op.CLEAR
    assert oldest_access(pa.chunked_array([[7], [5, None]], pa.int64()), np.array([put, put, delete])) == 5
    assert oldest_access(pa.chunked_array([[7, None]], pa.int64()), np.array([put, put])) == -math.inf
    assert oldest_access(pa.chunked_array([[None, None]], pa.int64()), np.array([delete, clear])) == math.inf
    assert oldest_access(pa.chunked_array([], pa.int64()), np.array([], np.int8)) == math.inf


def test_what_is_added_to_a_list_stays_after_the_rest_of_it() -> None:
    """Otherwise a list to which each epoch adds would never be cleaned up."""
    table, _ = table_of("list", [0])
    table.base[0].append((5, 1))
    cleanup = cleanup_of(table, OperatorTime(TTL), 1)
    delta = table.overlay[0] = ListDelta()
    delta.appended.append((8, TTL))
    visited(cleanup, 1)
    assert (delta.cleared, delta.appended) == (True, [(5, 1), (8, TTL)])
    cleanup.expect_old()
    visited(cleanup, 1)
    assert (delta.cleared, delta.appended) == (True, [(5, 1), (8, TTL)])


@pytest.mark.parametrize(("returns", "at_once"), [(False, 0), (True, 3)])
def test_keys_are_checked_together_unless_expired_values_may_be_read(returns: bool, at_once: int) -> None:
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
