"""The shop's stream is endless and the same everywhere, and each part can be made by itself."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from lakestate.examples.orders import data


@pytest.fixture(scope="module")
def parts() -> list[pa.Table]:
    return [data.read_part(number) for number in range(1, 161)]  # forty days: longer than any order's life


@pytest.fixture(scope="module")
def records(parts: list[pa.Table]) -> list[dict[str, Any]]:
    return list(pa.concat_tables(parts).to_pylist())


def test_the_order_is_total_and_goes_on_from_part_to_part(records: list[dict[str, Any]]) -> None:
    keys = [(record["event_time"], record["seq"]) for record in records]
    assert all(a < b for a, b in itertools.pairwise(keys))
    assert len({seq for _, seq in keys}) == len(keys)


def test_a_part_holds_its_six_hours(parts: list[pa.Table]) -> None:
    for index, part in enumerate(parts):
        times = part["event_time"].to_pylist()
        first = data.START + index * data.PART
        assert first <= times[0] <= times[-1] < first + data.PART
        assert all(time.microsecond % 1000 == 0 for time in times)


def test_a_part_does_not_depend_on_the_parts_read_before(parts: list[pa.Table]) -> None:
    data._placed_in.cache_clear()
    assert data.read_part(140).equals(parts[139])


def test_the_first_records_are_what_they_always_were(records: list[dict[str, Any]]) -> None:
    first = [(str(r["event_time"]), r["seq"], r["customer"], r["order_id"], r["kind"], r["amount"]) for r in records]
    assert first[:3] == FIRST


def test_payments_are_of_orders_that_were_placed_before(records: list[dict[str, Any]]) -> None:
    placed: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["kind"] == "placed":
            assert record["order_id"] not in placed
            placed[record["order_id"]] = record
        else:
            order = placed[record["order_id"]]
            assert (record["customer"], record["amount"]) == (order["customer"], order["amount"])
            assert record["event_time"] > order["event_time"]


def test_every_case_that_the_job_distinguishes_occurs(records: list[dict[str, Any]]) -> None:
    placed = {r["order_id"]: r["event_time"] for r in records if r["kind"] == "placed"}
    payments: dict[str, list[float]] = {}
    for record in records:
        if record["kind"] == "paid":
            days = (record["event_time"] - placed[record["order_id"]]).total_seconds() / 86_400
            payments.setdefault(record["order_id"], []).append(days)
    first = Counter(next(day for day in (1, 3, 7, 10) if days[0] <= day) for days in payments.values())
    assert all(first[day] > 100 for day in (1, 3, 7, 10)), first
    assert len(placed) - len(payments) > 100
    twice = [days[1] - days[0] for days in payments.values() if len(days) == 2]
    assert sum(days <= 14 for days in twice) > 50 < len([days for days in twice if days > 14]) * 2
    assert max(map(len, payments.values())) == 2


def test_parts_begin_with_one() -> None:
    with pytest.raises(IndexError, match="no part 0"):
        data.read_part(0)


def test_files_hold_the_parts(parts: list[pa.Table], tmp_path: Path) -> None:
    paths = data.write_files(3, tmp_path / "in")
    assert [path.name for path in paths] == [f"orders-0000{number}.parquet" for number in (1, 2, 3)]
    assert [pyarrow.parquet.read_table(path).num_rows for path in paths] == [part.num_rows for part in parts[:3]]


FIRST = [
    ("2026-01-01 00:00:01.067000+00:00", 21, "c0092", "o00000007", "placed", 505),
    ("2026-01-01 00:06:14.185000+00:00", 180, "c0425", "o00000060", "placed", 5414),
    ("2026-01-01 00:07:12.008000+00:00", 114, "c0001", "o00000038", "placed", 36833),
]
