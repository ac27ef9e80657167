"""Dates and timestamps that Python does not support are refused by name wherever they are read, and never numbers."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api.type_hints import parse_columns_ddl, type_information
from state_engine.backends.keys import KeyCodec
from state_engine.causes import records_shown, without
from state_engine.errors import YearOutOfRangeError
from state_engine.serialization.column import Column
from state_engine.serialization.convert import ValueTypeError, field_readers, reader, writer
from state_engine.serialization.types import to_arrow
from state_engine.storage.statistics import delta_statistics

FIRST = {"date": -719_162, "us": -62_135_596_800_000_000}
LAST = {"date": 2_932_896, "us": 253_402_300_799_999_999}
NEW_YORK = 253_402_318_799_000_000
"""9999-12-31 23:59:59 in a session with the time zone of New York, as Spark stores it."""


def column(ddl: str, *ticks: int | None) -> Any:
    kind = to_arrow(type_information(ddl))
    return pa.array(ticks, pa.int32() if ddl == "date" else pa.int64()).cast(kind)


BOUNDS = [("date", FIRST["date"], LAST["date"])] + [
    (t, FIRST["us"], LAST["us"]) for t in ("timestamp", "timestamp_ntz")
]


@pytest.mark.parametrize(("ddl", "first", "last"), BOUNDS)
@pytest.mark.parametrize("chunked", [False, True])
def test_the_first_and_the_last_one_are_read(ddl: str, first: int, last: int, chunked: bool) -> None:
    array = column(ddl, first, None, last)
    values = reader(type_information(ddl))(pa.chunked_array([array]) if chunked else array)
    assert values == array.to_pylist()
    assert (values[0].year, values[2].year) == (1, 9999)


@pytest.mark.parametrize(("ddl", "first", "last"), BOUNDS)
@pytest.mark.parametrize("chunked", [False, True])
def test_the_next_ones_are_refused(ddl: str, first: int, last: int, chunked: bool) -> None:
    read = reader(type_information(ddl))
    for tick, text in [(first - 1, "0000-12-31"), (last + 1, "10000-01-01"), (-(1 << 31), "")]:
        array = column(ddl, None, 0, tick) if tick != -(1 << 31) or ddl == "date" else column(ddl, -(1 << 62))
        with pytest.raises(YearOutOfRangeError, match=f"{text}.* outside the years 1 to 9999") as refused:
            read(pa.chunked_array([array]) if chunked else array)
        assert "least(at" in refused.value.action


def test_the_end_of_9999_in_another_time_zone_is_refused_as_what_it_is_in_utc() -> None:
    with pytest.raises(YearOutOfRangeError, match="10000-01-01T04:59:59"):
        reader(type_information("timestamp"))(column("timestamp", NEW_YORK))


@pytest.mark.parametrize(
    ("ddl", "wrap", "path"),
    [
        ("date", lambda a: a, "Field 'at'"),
        ("array<date>", lambda a: pa.ListArray.from_arrays([0, 1], a), "Field 'at'"),
        ("struct<x:date>", lambda a: pa.StructArray.from_arrays([a], names=["x"]), "Field 'at': Field 'x'"),
        ("map<int,date>", lambda a: pa.MapArray.from_arrays([0, 1], pa.array([1], pa.int32()), a), "Field 'at'"),
    ],
)  # fmt: skip
def test_the_field_is_named(ddl: str, wrap: Callable[[Any], Any], path: str) -> None:
    [read] = field_readers(parse_columns_ddl(f"at {ddl}"))
    with pytest.raises(YearOutOfRangeError, match=f"^{path}: '12921-.* outside"):
        read(wrap(column("date", 4_000_000)))


def test_keys_are_named_by_their_column() -> None:
    codec = KeyCodec([Column(name="day", type="date")], 8)
    with pytest.raises(YearOutOfRangeError, match="Field 'day'"):
        codec.read([column("date", 4_000_000)])
    with pytest.raises(YearOutOfRangeError, match="Field 'day'"):
        codec.groups_of([column("date", 4_000_000)])


def test_a_datetime_that_utc_has_not_is_refused_when_it_is_written() -> None:
    late = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    with pytest.raises(ValueTypeError, match="in UTC it is 10000-01-01T04:59:59") as refused:
        writer(type_information("timestamp"))([None, late])
    assert refused.value.index == 1


@pytest.mark.parametrize(("ddl", "tick"), [("date", 4_000_000), ("timestamp", NEW_YORK), ("timestamp_ntz", 1 << 58)])
def test_statistics_leave_the_bound_out(ddl: str, tick: int) -> None:
    statistics = json.loads(delta_statistics(pa.table({"at": column(ddl, 0, tick)})))
    assert statistics["minValues"]["at"].startswith("1970-01-01")
    assert statistics["maxValues"] == {}


def test_records_with_a_date_that_python_has_not_are_hidden() -> None:
    batch = pa.record_batch([column("date", 4_000_000), pa.array(["secret"])], names=["at", "text"])
    with records_shown(False):
        assert "secret" not in without("a secret of 12921-08-31", batch)
