"""The effect of a time to live on schemas and rows of the log."""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from state_engine.errors import TtlTimeChangedError
from state_engine.log.manifest import decode_manifest, encode_manifest
from state_engine.log.ops import log_schema
from state_engine.log.records import EarliestTimers, Manifest, Span, StateSchema, StateTtl
from state_engine.log.state_ttl import ALL, carry_ttl, drop_expired, forget_unknown, settled_time
from state_engine.serialization.types import ddl_to_arrow
from state_engine.testing.changes import state

PLAIN = state("sum", "count", "k string", "bigint")
MORTAL = replace(PLAIN, ttl=StateTtl(milliseconds=100, drops_expired=True))
EVENT = replace(PLAIN, ttl=StateTtl(milliseconds=100, time="event", drops_expired=True))
ALLOWED = replace(PLAIN, ttl=StateTtl(milliseconds=100, time="event", drops_expired=True, allow_change=True))

MANIFEST = Manifest(
    job="j", generation=1, epoch=1, kind="epoch", incarnation="i", incarnation_number=1, predecessor="",
    processing_time=0, lineage=(Span(generation=1, first=1),),
)  # fmt: skip


def rows(*accesses: tuple[int, int | None]) -> pa.Table:
    """Makes rows of (position, last access); the value is the row's number."""
    names = log_schema(PLAIN, ddl_to_arrow, position=True)
    made: list[dict[str, Any]] = [
        {"key_group": 1, "k": str(n), "value": n, "op": 1, "position": position, "seq": n, "last_access": access}
        for n, (position, access) in enumerate(accesses)
    ]
    return pa.Table.from_pylist(made, names)


def left(table: pa.Table) -> list[Any]:
    return table.column("value").to_pylist()


def test_the_settings_of_today_are_taken() -> None:
    longer = replace(PLAIN, ttl=StateTtl(milliseconds=200))
    assert carry_ttl(MORTAL, longer, 7) == longer
    assert carry_ttl(MORTAL, PLAIN, 7) == PLAIN
    assert carry_ttl(PLAIN, MORTAL, 7) == MORTAL
    assert carry_ttl(MORTAL, MORTAL, 7) is MORTAL


@pytest.mark.parametrize(("known", "found"), [(PLAIN, EVENT), (MORTAL, EVENT), (EVENT, MORTAL)])
def test_another_time_has_to_be_allowed(known: StateSchema, found: StateSchema) -> None:
    with pytest.raises(TtlTimeChangedError, match=r"'count' of operator 'sum'.*allow_time_characteristic_change"):
        carry_ttl(known, found, 7)


def test_rows_of_another_time_are_unknown_up_to_the_last_of_them() -> None:
    changed = carry_ttl(MORTAL, ALLOWED, 7)
    assert changed == replace(EVENT, unknown_until=7)
    assert carry_ttl(changed, ALLOWED, 9) == changed, "the permission is for the change, not for the rows after it"


def test_an_event_time_ttl_that_goes_leaves_unknown_rows() -> None:
    without = carry_ttl(EVENT, PLAIN, 7)
    assert without == replace(PLAIN, unknown_until=7)
    assert carry_ttl(without, MORTAL, 9) == replace(MORTAL, unknown_until=7)


def test_unknown_times_are_forgotten_by_position() -> None:
    table = rows((6, 10), (7, 20), (8, 30), (8, None))
    assert forget_unknown(table, None) is table
    for until, expected in [(5, [10, 20, 30, None]), (7, [None, None, 30, None]), (ALL, [None] * 4)]:
        forgotten = forget_unknown(table, until)
        assert forgotten.column("last_access").to_pylist() == expected
        assert forgotten.schema == table.schema
        assert left(forgotten) == [0, 1, 2, 3]


def test_what_expired_is_dropped() -> None:
    table = rows((1, 0), (2, 99), (3, 100), (4, 101), (5, None))
    assert left(drop_expired(MORTAL, table, 200, None)) == [3, 4]
    assert left(drop_expired(MORTAL, table, 199, None)) == [2, 3, 4]
    assert left(drop_expired(MORTAL, table, 99, None)) == [0, 1, 2, 3, 4]


def test_event_time_goes_by_the_watermark() -> None:
    table = rows((1, 0), (2, 100), (3, 101))
    assert left(drop_expired(EVENT, table, 1 << 60, 200)) == [2]
    assert left(drop_expired(EVENT, table, 1 << 60, None)) == [0, 1, 2]
    assert left(drop_expired(EVENT, table, 1 << 60, -(1 << 63))) == [0, 1, 2]
    assert left(drop_expired(EVENT, table, 1 << 60, (1 << 63) - 1)) == [0, 1, 2], "the end of the input is no time"


def test_what_is_unknown_is_never_dropped() -> None:
    table = rows((6, 0), (7, 0), (8, 0))
    assert left(drop_expired(replace(MORTAL, unknown_until=7), table, 200, None)) == [0, 1]


def test_nothing_is_dropped_without_ttl_or_against_its_settings() -> None:
    table = rows((1, 0))
    for schema in (PLAIN, replace(PLAIN, ttl=StateTtl(milliseconds=1)), MORTAL):
        now = 50 if schema is MORTAL else 1 << 60
        assert drop_expired(schema, table, now, None).num_rows == 1
    huge = replace(PLAIN, ttl=StateTtl(milliseconds=(1 << 63) - 1, drops_expired=True))
    assert drop_expired(huge, table, -5, None).num_rows == 1


@pytest.mark.parametrize(
    ("watermark", "timer", "settled"),
    [(None, None, None), (None, 5, None), (50, None, 50), (50, 60, 50), (50, 40, 40), ((1 << 63) - 1, 40, 40)],
)
def test_event_time_is_settled_up_to_the_next_timer(
    watermark: int | None, timer: int | None, settled: int | None
) -> None:
    manifest = replace(
        MANIFEST,
        watermarks={} if watermark is None else {"sum": watermark},
        timers={"sum": EarliestTimers(event_time=timer, processing_time=1)},
    )
    assert settled_time(manifest, "sum") == settled
    assert settled_time(replace(manifest, timers={}), "sum") == watermark


def test_a_manifest_keeps_the_settings() -> None:
    manifest = replace(MANIFEST, schemas=(PLAIN, replace(EVENT, unknown_until=3)))
    data, _ = encode_manifest(manifest)
    assert decode_manifest(data, path="p").manifest == manifest
    assert data.count(b'"ttl"') == data.count(b'"unknown_until"') == 1
