"""Values as bytes: they are read back as they were written, with the same class."""

import datetime
import decimal
import math
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import Row, Types
from state_engine.api.type_hints import type_information
from state_engine.backends.rocksdb.values import list_codec, value_codec

UTC = datetime.UTC


@dataclass
class Basket:
    owner: str
    bought: datetime.date | None


CASES: list[tuple[Any, list[Any]]] = [
    ("bigint", [0, -1, 1 << 62, -(1 << 63)]),
    ("boolean", [True, False]),
    ("double", [0.1, -0.0, math.inf]),
    ("string", ["", "ü\x00"]),
    ("binary", [b"", b"\x00\xff"]),
    ("date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    ("timestamp", [datetime.datetime(1969, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime.datetime(2400, 1, 1, tzinfo=UTC)]),
    ("timestamp_ntz", [datetime.datetime(2024, 2, 29, 1, 2, 3, 4)]),
    ("decimal(38,10)", [decimal.Decimal("1234567890123456789012345678.0123456789"), decimal.Decimal("1.5000000000")]),
    ("array<date>", [[], [datetime.date(2024, 1, 1), None]]),
    ("array<int>", [[1, None]]),
    ("map<struct<a:int>,array<date>>", [{}, {Row(a=1): [datetime.date(2024, 1, 1)], Row(a=2): None}]),
    ("map<date,int>", [{datetime.date(2024, 1, 1): None}]),
    ("struct<a:int,b:struct<c:date>>", [Row(a=1, b=Row(c=datetime.date(2024, 1, 1))), Row(a=None, b=None)]),
    (Types.TUPLE([int, str]), [(1, "x"), (None, None)]),
    (Basket, [Basket("ann", datetime.date(2024, 1, 1)), Basket("bob", None)]),
]


@pytest.mark.parametrize(("hint", "values"), CASES, ids=[str(case[0]) for case in CASES])
def test_values_come_back(hint: Any, values: list[Any]) -> None:
    codec, lists = value_codec(type_information(hint)), list_codec(type_information(hint))
    for value in [*values, None]:
        decoded = codec.decode(codec.encode(value))
        assert decoded == value
        assert type(decoded) is type(value)
    assert lists.decode(lists.encode([*values, None])) == [*values, None]
    assert lists.decode(lists.encode([])) == []


def test_a_number_that_is_none_comes_back_as_none() -> None:
    codec = value_codec(type_information("double"))
    assert math.isnan(codec.decode(codec.encode(math.nan)))
    assert math.copysign(1, codec.decode(codec.encode(-0.0))) == -1
