"""Generated orders and payments of a shop: the same ones on every machine, in any number.

The stream has no end. It comes in parts of six hours. Each part is computed from its number alone, so a writer can go
on at any part. The random values of an order come from a generator that is seeded with the part in which the order was
placed. Only its `random()` is used, which Python promises not to change.

The order of the stream is total: by `event_time`, then by `seq`. The source gives the sequence number, as
`flights/data.py` advises for streams with ties.
"""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lakestate.examples.files import write_file

SCHEMA = "event_time timestamp, seq bigint, customer string, order_id string, kind string, amount bigint"
"""Spark DDL of the files. `kind` is `placed` or `paid`, `amount` is in cents, event times are whole milliseconds."""

START = datetime(2026, 1, 1, tzinfo=UTC)
PART = timedelta(hours=6)
ORDERS_PER_PART = 200
CUSTOMERS = 1_000

_DAY_MS = 86_400_000
_PART_MS = PART // timedelta(milliseconds=1)
_START_MS = int(START.timestamp()) * 1_000

# (cumulative share of all orders, paid after this many days, and before this many days); the rest is never paid.
_PAID = ((0.60, 0, 1), (0.85, 1, 3), (0.94, 3, 7), (0.97, 7, 10))
_PAID_TWICE = 0.03  # share of the paid orders, within twenty days
_TWICE_DAYS = 20
_LONGEST = (10 + _TWICE_DAYS) * _DAY_MS // _PART_MS + 1  # parts from an order to its last payment

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_time", pa.timestamp("us", tz="UTC")),
    ("seq", pa.int64()),
    ("customer", pa.string()),
    ("order_id", pa.string()),
    ("kind", pa.string()),
    ("amount", pa.int64()),
]
_ARROW = pa.schema(_FIELDS)


class Record(NamedTuple):
    """An order that is placed, or a payment for one; the stream is ordered by the first two fields."""

    ms: int
    seq: int
    customer: str
    order_id: str
    kind: str
    amount: int


def read_part(number: int) -> pa.Table:
    """Returns the records of one part of six hours, in the order of the stream.

    Args:
        number: Number of the part; the part that begins at `START` is 1.

    Raises:
        IndexError: The number is less than 1.
    """
    if number < 1:
        raise IndexError(f"Parts of the orders start at 1; there is no part {number}.")
    first = _START_MS + (number - 1) * _PART_MS
    placed_in = range(max(1, number - _LONGEST), number + 1)
    records = sorted(
        record for part in placed_in for record in _placed_in(part) if first <= record.ms < first + _PART_MS
    )
    rows = [(record.ms * 1_000, *record[1:]) for record in records]
    columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    return pa.Table.from_arrays(
        [pa.array(values, kind) for values, (_, kind) in zip(columns, _FIELDS, strict=True)], schema=_ARROW
    )


def write_files(parts: int, folder: Path) -> list[Path]:
    """Writes the first parts of the stream, one file each, and returns the paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_file(read_part(number), folder, "orders", number) for number in range(1, parts + 1)]


@lru_cache(maxsize=_LONGEST + 1)
def _placed_in(part: int) -> tuple[Record, ...]:
    """Returns the records of all orders that were placed in a part, with their payments at any later time."""
    draw = random.Random(f"orders of part {part}").random
    first = _START_MS + (part - 1) * _PART_MS
    numbers = range((part - 1) * ORDERS_PER_PART, part * ORDERS_PER_PART)
    return tuple(record for number in numbers for record in _order(number, first, draw))


def _order(number: int, first_ms: int, draw: Callable[[], float]) -> Iterator[Record]:
    ms = first_ms + int(draw() * _PART_MS)
    customer = f"c{int(draw() ** 2 * CUSTOMERS):04}"  # squared: some order more often than others
    amount = 500 + int(draw() ** 3 * 50_000)
    for seq, (kind, at) in enumerate([("placed", ms), *(("paid", ms + after) for after in _payments(draw))]):
        yield Record(at, number * 3 + seq, customer, f"o{number:08}", kind, amount)


def _payments(draw: Callable[[], float]) -> Iterator[int]:
    """Returns when an order is paid, in ms after it was placed: never, once or twice."""
    fate = draw()
    for share, after, before in _PAID:
        if fate < share:
            once = 1_000 + int((after + draw() * (before - after)) * (_DAY_MS - 1_000))
            yield once
            if draw() < _PAID_TWICE:
                yield once + 1_000 + int(draw() * (_TWICE_DAYS * _DAY_MS - 1_000))
            return


__all__ = ["CUSTOMERS", "ORDERS_PER_PART", "PART", "SCHEMA", "START", "Record", "read_part", "write_files"]
