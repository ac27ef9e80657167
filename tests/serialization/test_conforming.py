"""A value that is put into a state becomes as a load would return it, and shares no mutable part."""

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row as PySparkRow

from state_engine.api import Row, Types
from state_engine.api.type_hints import type_information
from state_engine.api.types import AtomicType, StructType, TypeInformation
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.finished import finished_type, is_immutable
from state_engine.serialization.mutability import conformer, copier
from state_engine.testing.strategies import types, values

columns = types().flatmap(lambda t: st.tuples(st.just(t), st.lists(values(t), max_size=4)))


@dataclass
class Point:
    x: int
    tags: list[str]


@given(columns)
def test_what_a_load_gives_conforms_already(column: tuple[TypeInformation, list[Any]]) -> None:
    type_info, listed = column
    conform = conformer(type_info)
    again = [conform(value) for value in listed]
    assert again == listed
    assert list(map(type, again)) == list(map(type, listed))


def conformed(type_info: Any, value: Any) -> Any:
    """Returns the value as it is stored in a state, after a check that a load returns the same."""
    result = conformer(type_information(type_info))(value)
    kind = type_information(type_info)
    assert reader(kind)(writer(kind)([value])) == [result]
    return result


def test_an_instant_of_another_zone_is_the_same_instant_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    given = datetime.datetime(2024, 2, 29, 3, 15, tzinfo=zone)
    stored = conformed("timestamp", given)
    assert (stored, stored.tzinfo) == (given, datetime.UTC)
    assert stored.replace(tzinfo=None) == datetime.datetime(2024, 2, 28, 21, 45)


def test_rows_become_rows() -> None:
    for given_ in [(1, "x"), [1, "x"], {"b": "x", "a": 1}, Row(1, "x"), Row(a=1, b="x")]:
        assert conformed("struct<a:int,b:string>", given_) == Row(a=1, b="x")


def test_tuples_become_tuples() -> None:
    stored = conformed(Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]), Row(1, (2,)))
    assert (type(stored), stored) == (tuple, (1, [2]))


def test_dataclasses_become_dataclasses() -> None:
    assert conformed(Point, (1, ("a",))) == Point(1, ["a"])


def test_nested_values_conform_all_the_way_down() -> None:
    stored = conformed("map<string,array<struct<a:int>>>", {"k": ((1,), {"a": 2})})
    assert stored == {"k": [Row(a=1), Row(a=2)]}


def test_arrays_become_lists() -> None:
    stored = conformed("array<bigint>", np.array([1, 2]))
    assert (stored, type(stored[0])) == ([1, 2], int)


def test_binary_becomes_bytes() -> None:
    assert type(conformed("binary", bytearray(b"x"))) is bytes


def test_values_that_can_change_are_not_shared() -> None:
    value: dict[str, list[int]] = {"a": [1]}
    stored = conformed("map<string,array<int>>", value)
    value["a"].append(2)
    assert stored == {"a": [1]}


def test_values_of_another_type_are_left_for_the_writer_to_refuse() -> None:
    for ddl, wrong in [("array<int>", "abc"), ("map<int,int>", [1]), ("struct<a:int>", (1, 2)), ("struct<a:int>", 5)]:
        assert conformer(type_information(ddl))(wrong) == wrong


def test_atoms_cost_nothing() -> None:
    for ddl, kind in [("bigint", int), ("int", int), ("string", str), ("boolean", bool), ("date", datetime.date)]:
        assert finished_type(type_information(ddl)) is kind
        assert copier(type_information(ddl)) is None
    assert copier(type_information("struct<a:int,b:binary>")) is None
    assert copier(type_information("array<int>")) is not None


def test_rows_conform_whatever_their_fields_are_called() -> None:
    """Python reads `row.ª` as `row.a`."""
    kind = Types.ROW_NAMED(["ª", "a"], [Types.LONG(), Types.LONG()])
    row = reader(kind)(writer(kind)([(1, 2)]))[0]
    assert conformer(kind)(row) == row
    assert conformed(kind, (1, 2)).as_tuple() == (1, 2)


class Pair(NamedTuple):
    a: int
    b: str


class Turned(NamedTuple):
    b: str
    a: int


class Named(NamedTuple):
    x: int
    y: str


@dataclass
class Fields:
    b: str
    a: int


@dataclass
class Fewer:
    a: int


@dataclass
class Listed(list[Any]):
    """A list counts by position, whatever its fields are."""

    b: str = "no"
    a: int = 0


def listed(*values: Any) -> Listed:
    row = Listed()
    row.extend(values)
    return row


AB = "struct<a:int,b:string>"


@pytest.mark.parametrize(
    "row",
    [
        (np.int64(1), "x"),
        [1, "x"],
        Pair(1, "x"),
        Turned("x", 1),
        Named(1, "x"),
        Fields("x", 1),
        {"b": "x", "a": np.int64(1)},
        listed(1, "x"),
        Row(1, "x"),
        Row(a=1, b="x"),
        Row(b="x", a=1),
        PySparkRow(a=1, b="x"),
        PySparkRow(b="x", a=1),
        PySparkRow("x", "y")(1, "x"),
    ],
    ids=lambda row: f"{type(row).__name__}{row}",
)
@pytest.mark.parametrize("carrier", [None, tuple])
def test_each_kind_of_row_conforms_however_often_its_class_has_come(row: Any, carrier: type | None) -> None:
    kind = StructType(("a", "b"), (AtomicType("int"), AtomicType("string")), carrier=carrier)
    conform, right = conformer(kind), (1, "x") if carrier is tuple else Row(a=1, b="x")
    for _ in range(3):
        result = conform(row)
        assert (result, type(result), type(result[0])) == (right, type(right), int)


@pytest.mark.parametrize("row", [Fewer(1), {"a": 1}])
def test_fields_that_a_row_does_not_have_are_null(row: Any) -> None:
    conform = conformer(type_information(AB))
    assert [conform(row), conform(row)] == [Row(a=1, b=None)] * 2


class Longer(tuple[Any, ...]):
    """A tuple with another length than it has fields."""

    _fields = ("a", "b")

    def __len__(self) -> int:
        return 3


def test_rows_that_do_not_fit_are_copied_each_time() -> None:
    conform = conformer(type_information(AB))
    for row in [(1,), [1, "x", 2], {"c": 1}, 7]:
        for _ in range(2):
            assert conform(row) == row
            assert conform(row) is not row or not isinstance(row, (list, dict))
    assert conform(Longer((1, "x"))) == conform(Longer((1, "x"))) == Row(a=1, b="x")


def test_a_finished_row_is_not_copied() -> None:
    kind = type_information("struct<a:int,b:decimal(5,2),c:timestamp,d:timestamp_ntz,e:struct<x:double>>")
    at = datetime.datetime(2024, 2, 29, 3, 15, tzinfo=datetime.UTC)
    row = Row(a=1, b=Decimal("1.50"), c=at, d=at.replace(tzinfo=None), e=Row(x=0.5))
    assert conformer(kind)(row) is row
    assert conformer(kind)(empty := Row(a=None, b=None, c=None, d=None, e=None)) is empty


@pytest.mark.parametrize(
    ("field", "given_", "stored"),
    [
        ("decimal(5,2)", Decimal("1.5"), "1.50"),
        ("decimal(5,2)", Decimal("1.500"), "1.50"),
        ("decimal(5,2)", Decimal("-0.00"), "0.00"),
        ("decimal(5,2)", 3, "3.00"),
        ("bigint", np.int64(4), "4"),
        ("double", 2, "2.0"),
        ("timestamp_ntz", datetime.datetime(2024, 1, 1, fold=1), "2024-01-01 00:00:00"),
        ("timestamp", datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")), "2024-01-01 00:00:00+00:00"),
    ],
)
def test_what_is_not_finished_becomes_so_inside_rows_too(field: str, given_: Any, stored: str) -> None:
    of_field = conformed(field, given_)
    of_row = conformed(f"struct<f:{field},g:array<int>>", Row(f=given_, g=[1])).f
    finished = conformed(f"struct<f:{field}>", Row(f=given_)).f
    for value in (of_field, of_row, finished):
        assert str(value) == stored
        assert type(value) is type(of_field)
        if isinstance(value, datetime.datetime):
            assert (value.fold, value.tzinfo) == (0, datetime.UTC if field == "timestamp" else None)


@given(columns)
def test_values_that_cannot_change_are_read_back_as_they_were(column: tuple[TypeInformation, list[Any]]) -> None:
    type_info, listed = column
    if is_immutable(type_info):
        conformed_values = list(map(conformer(type_info), listed))
        back = reader(type_info)(writer(type_info)(conformed_values))
        assert list(map(repr, back)) == list(map(repr, conformed_values))
