"""The contents of the package, and their layout for the file source."""

import itertools
import zoneinfo
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from lakestate.examples.flights import data


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return data.read_flights()


def test_the_counts_that_the_documentation_gives(flights: pa.Table) -> None:
    assert flights.num_rows == data.RECORDS
    known = {name: len(flights) - flights[name].null_count for name in flights.column_names}
    assert known["tailnum"] == 334_264
    assert known["dep_time"] == 328_521
    assert known["arr_delay"] == 327_346
    assert set(flights.column_names) - {"tailnum", "dep_time", "arr_delay"} == {
        n for n in known if known[n] == len(flights)
    }
    assert flights.filter(pc.field("tailnum").is_null() & pc.field("dep_time").is_valid()).num_rows == 0


def test_the_order_is_total_and_kept(flights: pa.Table) -> None:
    keys = list(zip(*(flights[name].to_pylist() for name in data.ORDER), strict=True))
    assert all(a < b for a, b in itertools.pairwise(keys))


def test_event_time_is_new_york_wall_clock_as_an_instant(flights: pa.Table) -> None:
    # The first flight was due at 05:15 in winter time; the only one before 05:00 in the year at 01:06 on 27 July.
    new_york = zoneinfo.ZoneInfo("America/New_York")
    instants: list[Any] = flights["event_time"].unique().to_pylist()
    times = [instant.astimezone(new_york) for instant in instants]
    assert times[0].strftime("%Y-%m-%d %H:%M") == "2013-01-01 05:15"
    assert [t.strftime("%m-%d %H:%M") for t in times if t.hour < 5] == ["07-27 01:06"]
    assert {t.year for t in times} == {2013}


def table(*rows: tuple[str, int]) -> pa.Table:
    """Makes rows in the package's layout that differ in hour and minute."""
    columns = {
        "carrier": "AA",
        "flight": 1,
        "tailnum": None,
        "origin": "JFK",
        "dest": "SEA",
        "dep_time": None,
        "arr_delay": None,
    }
    made = [{**columns, "time_hour": hour, "minute": minute} for hour, minute in rows]
    hours = pa.array([f"2013-01-01 {row['time_hour']}:00:00" for row in made]).cast(pa.timestamp("s"))
    return pa.Table.from_pylist(made).set_column(7, "time_hour", hours.cast(pa.timestamp("s", tz="UTC")))


def column(table: pa.Table, name: str) -> list[Any]:
    return list(table[name].to_pylist())


def test_a_tie_is_refused_by_name() -> None:
    assert column(data.order_flights(table(("11", 2), ("10", 5))), "event_time")[0].minute == 5
    with pytest.raises(ValueError, match=r"1 flights tie in event_time, carrier, flight, origin, such as .*AA"):
        data.order_flights(table(("10", 5), ("10", 5)))


def test_files_come_in_order_with_growing_times(flights: pa.Table, tmp_path: Path) -> None:
    first = flights.slice(0, 2_500)
    paths = data.write_files(first, tmp_path / "in", records_per_file=1_000)
    assert sorted((tmp_path / "in").iterdir()) == paths
    times = [path.stat().st_mtime_ns for path in paths]
    assert times == sorted(set(times))
    assert [pyarrow.parquet.read_metadata(path).num_rows for path in paths] == [1_000, 1_000, 500]
    assert pa.concat_tables(pyarrow.parquet.read_table(path) for path in paths).equals(first)


def test_a_folder_that_is_not_empty_is_refused(flights: pa.Table, tmp_path: Path) -> None:
    data.write_files(flights.slice(0, 1), tmp_path)
    with pytest.raises(FileExistsError, match="already holds Parquet files"):
        data.write_files(flights.slice(0, 1), tmp_path)


def test_parts_are_the_whole_stream_in_its_order(flights: pa.Table) -> None:
    parts = [data.read_part(number) for number in range(1, data.PARTS + 1)]
    assert all(part.num_rows for part in parts)
    assert pa.concat_tables(parts).equals(flights)


@pytest.mark.parametrize("number", [0, data.PARTS + 1])
def test_there_is_no_part_before_the_first_and_none_after_the_last(number: int) -> None:
    with pytest.raises(IndexError, match=f"no part {number}"):
        data.read_part(number)
