"""Compares the batch recomputation of the orders with cases that were computed by hand."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestate.examples.compare import Truth
from lakestate.examples.files import write_file
from lakestate.examples.orders import data
from lakestate.examples.orders.truth import compute_truth

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MS = datetime.timedelta(milliseconds=1)
DAY = datetime.timedelta(days=1)

Record = dict[str, Any]


def at(days: float, ms: int = 0) -> datetime.datetime:
    return START + days * DAY + ms * MS


def record(kind: str, days: float, order: str = "o1", amount: int = 10, *, ms: int = 0, of: str = "ann") -> Record:
    return {"event_time": at(days, ms), "customer": of, "order_id": order, "kind": kind, "amount": amount}


def placed(days: float, order: str = "o1", amount: int = 10, **other: Any) -> Record:
    return record("placed", days, order, amount, **other)


def paid(days: float, order: str = "o1", amount: int = 10, **other: Any) -> Record:
    return record("paid", days, order, amount, **other)


def truth_of(records: list[Record], folder: Path, *, drained: bool = True) -> Truth:
    rows = [{"seq": seq, **record} for seq, record in enumerate(records)]
    write_file(pa.Table.from_pylist(rows, data.read_part(1).schema), folder, "orders", 1)
    return compute_truth(folder, drained=drained)


def rows(truth: Truth, output: str, *columns: str) -> list[tuple[Any, ...]]:
    table = truth.outputs[output]
    order = [(name, "ascending") for name in ("event_time", "order_id")]
    return [tuple(row[name] for name in columns) for row in table.sort_by(order).to_pylist()]


def state(truth: Truth, name: str) -> dict[Any, Any]:
    return {
        (row["customer"], row["user_key"]) if "user_key" in row else row["customer"]: row["value"]
        for row in truth.states["customer", name].to_pylist()
    }


def test_an_unpaid_order_gets_two_reminders_and_is_cancelled(tmp_path: Path) -> None:
    truth = truth_of([placed(0)], tmp_path)
    assert rows(truth, "reminders", "event_time", "reminder", "owed") == [(at(1), 1, 10), (at(3), 2, 10)]
    assert rows(truth, "cancelled", "event_time", "order_id", "amount", "placed_at") == [(at(7), "o1", 10, at(0))]
    assert rows(truth, "returned", "order_id") == []
    assert state(truth, "unpaid") == {}
    assert state(truth, "orders") == {"ann": 1}
    assert state(truth, "reminded") == {"ann": [at(1), at(3)]}


@pytest.mark.parametrize(("ms", "reminders"), [(-1, 0), (0, 0), (1, 1)])
def test_a_payment_in_the_last_moment_counts(tmp_path: Path, ms: int, reminders: int) -> None:
    truth = truth_of([placed(0), paid(1, ms=ms)], tmp_path)
    assert len(rows(truth, "reminders", "order_id")) == reminders
    assert rows(truth, "cancelled", "order_id") == []


@pytest.mark.parametrize(("ms", "returned"), [(0, []), (1, [("o1", "not open")])])
def test_a_payment_after_the_cancellation_is_given_back(tmp_path: Path, ms: int, returned: list[Any]) -> None:
    truth = truth_of([placed(0), paid(7, ms=ms)], tmp_path)
    assert rows(truth, "returned", "order_id", "reason") == returned
    assert len(rows(truth, "cancelled", "order_id")) == len(returned)


@pytest.mark.parametrize(("days", "ms", "reason"), [(0, 1, "paid twice"), (14, 0, "paid twice"), (14, 1, "not open")])
def test_a_second_payment_is_known_as_one_for_two_weeks(tmp_path: Path, days: int, ms: int, reason: str) -> None:
    truth = truth_of([placed(0), paid(0.5), paid(0.5 + days, ms=ms)], tmp_path)
    assert rows(truth, "returned", "seq", "reason") == [(2, reason)]


def test_what_a_customer_owes_is_the_sum_of_all_open_orders(tmp_path: Path) -> None:
    records = [placed(0, "o1", 10), placed(0.5, "o2", 20), placed(0.5, "o3", 40, of="bob"), paid(1.25, "o1", 10)]
    truth = truth_of([*records, placed(1.5, "o4", 80)], tmp_path)
    assert rows(truth, "reminders", "event_time", "order_id", "reminder", "orders", "owed")[:5] == [
        (at(1), "o1", 1, 2, 30),
        (at(1.5), "o2", 1, 3, 100),
        (at(1.5), "o3", 1, 1, 40),
        (at(2.5), "o4", 1, 3, 100),
        (at(3.5), "o2", 2, 3, 100),
    ]


def test_orders_that_are_due_together_come_in_order_and_cancelled_ones_are_not_owed(tmp_path: Path) -> None:
    truth = truth_of([placed(0, "o1", 10), placed(4, "o3", 40), placed(4, "o2", 20), placed(6, "o4", 80)], tmp_path)
    assert rows(truth, "reminders", "event_time", "order_id", "reminder", "owed", "recent")[2:7] == [
        (at(5), "o2", 1, 70, 3),
        (at(5), "o3", 1, 70, 4),
        (at(7), "o2", 2, 140, 5),
        (at(7), "o3", 2, 140, 5),
        (at(7), "o4", 1, 140, 5),
    ]


def test_reminders_of_the_last_seven_days_are_recent(tmp_path: Path) -> None:
    truth = truth_of([placed(0, "o1"), paid(1.5, "o1"), placed(7, "o2"), paid(8.5, "o2")], tmp_path)
    assert rows(truth, "reminders", "event_time", "recent") == [(at(1), 1), (at(8), 1)]
    assert state(truth, "reminded") == {"ann": [at(1), at(8)]}


def test_the_watermark_of_a_stream_that_goes_on_is_one_millisecond_below_its_newest_record(tmp_path: Path) -> None:
    truth = truth_of([placed(0), placed(1, "o2", of="bob")], tmp_path, drained=False)
    assert rows(truth, "reminders", "order_id") == []
    assert state(truth, "unpaid") == {
        ("ann", "o1"): {"amount": 10, "placed_at": at(0), "reminders": 0},
        ("bob", "o2"): {"amount": 10, "placed_at": at(1), "reminders": 0},
    }
    truth = truth_of([placed(0), placed(1, "o2", ms=1, of="bob")], tmp_path, drained=False)
    assert rows(truth, "reminders", "order_id") == [("o1",)]
    assert state(truth, "unpaid")["ann", "o1"]["reminders"] == 1
