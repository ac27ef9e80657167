"""Conversion to Arrow never cuts, rounds or reinterprets: values that do not fit are refused, with index and path."""

import datetime
import decimal
import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from state_engine.api import Row
from state_engine.api.type_hints import type_information
from state_engine.serialization.convert import ValueTypeError, writer

NAIVE = datetime.datetime(2020, 1, 1, 12)
AWARE = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)


class Number(enum.IntEnum):
    ONE = 1


REFUSED: list[tuple[Any, Any]] = [
    ("int", 1.5), ("int", 1.0), ("int", True), ("int", "1"), ("int", decimal.Decimal(1)), ("int", np.float64(1)),
    ("int", np.bool_(True)), ("int", 1 << 31), ("tinyint", 300), ("tinyint", np.int64(300)), ("smallint", -40000),
    ("bigint", 1 << 63),
    ("boolean", 1), ("boolean", "true"), ("boolean", np.int64(1)),
    ("double", "1"), ("double", True), ("double", (1 << 53) + 1), ("double", 1 << 2000), ("double", decimal.Decimal(1)),
    ("float", 1e300), ("float", -1e300), ("float", (1 << 24) + 1),
    ("string", b"x"), ("string", 1), ("string", "\ud800"),
    ("binary", "x"), ("binary", [1, 2]),
    ("date", AWARE), ("date", NAIVE), ("date", pd.Timestamp(NAIVE)), ("date", "2020-01-01"), ("date", 18000),
    ("timestamp", NAIVE), ("timestamp", NAIVE.date()), ("timestamp", 0), ("timestamp", pd.NaT),
    ("timestamp", np.datetime64("2020-01-01T12:00:00")),
    ("timestamp_ntz", AWARE), ("timestamp_ntz", pd.Timestamp("2020-01-01T00:00:00.000000001")),
    ("timestamp_ntz", pd.NaT), ("timestamp_ntz", np.datetime64("2020-01-01T12:00:00", "ns")),
    ("decimal(10,2)", decimal.Decimal("1.234")), ("decimal(10,2)", decimal.Decimal("1e20")), ("decimal(10,2)", 10**20),
    ("decimal(10,2)", decimal.Decimal("NaN")), ("decimal(10,2)", 1.5), ("decimal(10,2)", True), ("decimal(10,2)", "1"),
    ("array<int>", 5), ("array<string>", "abc"), ("array<int>", {1}), ("array<int>", np.array(3)),
    ("array<int>", np.array([[1]])), ("array<int>", {1: 2}),
    ("map<string,int>", [("a", 1)]), ("map<string,int>", {None: 1}),
    ("struct<a:int>", 5), ("struct<a:int>", "a"), ("struct<a:int>", (1, 2)), ("struct<a:int>", ()),
    ("struct<a:int>", np.array([1])), ("struct<a:int>", {"b": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ddl", "wrong"), REFUSED, ids=[f"{n} {type(v).__name__} into {d}" for n, (d, v) in enumerate(REFUSED)]
)
def test_refused(ddl: str, wrong: Any) -> None:
    with pytest.raises(ValueTypeError) as refused:
        writer(type_information(ddl))([None, wrong, None])
    assert refused.value.index == 1
    assert refused.value.path == ""
    plain = wrong.item() if isinstance(wrong, np.generic) else wrong
    assert any(type(shown).__name__ in str(refused.value) for shown in (wrong, plain))


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("int", np.int64(3), 3),
    ("int", np.uint8(3), 3),
    ("int", Number.ONE, 1),
    ("boolean", np.bool_(True), True),
    ("double", 3, 3.0),
    ("double", np.float32(1.5), 1.5),
    ("float", float("inf"), float("inf")),
    ("string", np.str_("x"), "x"),
    ("binary", bytearray(b"x"), b"x"),
    ("binary", memoryview(b"xyz")[::2], b"xz"),
    ("date", np.datetime64("2020-01-01"), datetime.date(2020, 1, 1)),
    ("timestamp", pd.Timestamp(AWARE), AWARE),
    ("timestamp", AWARE.astimezone(datetime.timezone(datetime.timedelta(hours=-7))), AWARE),
    ("timestamp_ntz", pd.Timestamp(NAIVE), NAIVE),
    ("timestamp_ntz", np.datetime64("2020-01-01T12:00:00", "us"), NAIVE),
    ("decimal(10,2)", 5, decimal.Decimal("5.00")),
    ("decimal(10,2)", decimal.Decimal("1E+3"), decimal.Decimal("1000.00")),
    ("array<int>", (1, 2), [1, 2]),
    ("array<int>", np.array([1, 2]), [1, 2]),
    ("struct<a:int,b:string>", [1, "x"], {"a": 1, "b": "x"}),
    ("struct<a:int,b:string>", {"b": "x"}, {"a": None, "b": "x"}),
    ("struct<a:int,b:string>", Row(1, "x"), {"a": 1, "b": "x"}),
    ("struct<a:int,b:string>", Row(b="x", a=1), {"a": 1, "b": "x"}),
    ("struct<a:int,b:string>", Row(c=1, d="x"), {"a": 1, "b": "x"}),
]


@pytest.mark.parametrize(
    ("ddl", "given", "stored"),
    ACCEPTED,
    ids=[f"{n} {type(v).__name__} into {d}" for n, (d, v, _) in enumerate(ACCEPTED)],
)
def test_accepted(ddl: str, given: Any, stored: Any) -> None:
    assert writer(type_information(ddl))([given, None]).to_pylist() == [stored, None]


def test_whole_numbers_and_decimals_mix() -> None:
    column = [decimal.Decimal("1.5"), 1000, None, decimal.Decimal("-0.01"), 10**7]
    assert writer(type_information("decimal(10,2)"))(column).to_pylist() == [
        None if v is None else decimal.Decimal(v) for v in column
    ]


def test_nan_is_a_number_and_no_null() -> None:
    array = writer(type_information("double"))([float("nan"), None])
    assert array.null_count == 1


@dataclass
class Swapped:
    b: str
    a: int


@dataclass
class Other:
    a: int
    c: str


def test_a_dataclass_goes_by_the_names_of_its_fields() -> None:
    struct = type_information("struct<a:int,b:string>")
    assert writer(struct)([Swapped("x", 1)]).to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(ValueTypeError, match=r"unknown fields \['c'\]"):
        writer(struct)([Other(1, "x")])


PATHS: list[tuple[str, Any, str]] = [
    ("array<int>", [1, "x"], "element"),
    ("array<struct<a:int>>", [(1,), ("x",)], "element.a"),
    ("map<string,int>", {"k": "x"}, "value"),
    ("map<string,int>", {5: 1}, "key"),
    ("map<string,struct<a:array<int>>>", {"k": ([1.5],)}, "value.a.element"),
    ("struct<a:int,b:struct<c:string>>", (1, (5,)), "b.c"),
]


@pytest.mark.parametrize(("ddl", "wrong", "path"), PATHS, ids=[p for _, _, p in PATHS])
def test_the_path_leads_to_the_wrong_part(ddl: str, wrong: Any, path: str) -> None:
    struct = type_information(ddl)
    empty: Any = {} if ddl.startswith("map") else [] if ddl.startswith("array") else None
    with pytest.raises(ValueTypeError) as refused:
        writer(struct)([empty, None, wrong])
    assert (refused.value.index, refused.value.path) == (2, path)


def test_the_index_is_that_of_the_first_wrong_value() -> None:
    with pytest.raises(ValueTypeError) as refused:
        writer(type_information("tinyint"))([1, 2, 300, 400])
    assert refused.value.index == 2


def test_long_values_are_shown_short() -> None:
    with pytest.raises(ValueTypeError) as refused:
        writer(type_information("int"))(["x" * 10_000])
    assert len(str(refused.value)) < 200
