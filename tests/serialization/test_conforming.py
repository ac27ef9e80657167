"""A value that is put into a state becomes as a load would return it, and shares no mutable part."""

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state_engine.api import Row, Types
from state_engine.api.type_hints import type_information
from state_engine.api.types import TypeInformation
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.mutability import conformer, copier, finished_type, plain_type
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


def test_only_some_atoms_come_back_as_they_went_in() -> None:
    assert [plain_type(type_information(d)) for d in ("int", "string", "double", "decimal(5,2)", "array<int>")] == [
        int,
        str,
        float,
        None,
        None,
    ]


def test_rows_conform_whatever_their_fields_are_called() -> None:
    """Python reads `row.ª` as `row.a`."""
    kind = Types.ROW_NAMED(["ª", "a"], [Types.LONG(), Types.LONG()])
    row = reader(kind)(writer(kind)([(1, 2)]))[0]
    assert conformer(kind)(row) == row
    assert conformed(kind, (1, 2)).as_tuple() == (1, 2)
