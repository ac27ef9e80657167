"""Structs are read as their type defines: as rows, tuples or dataclasses."""

from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import Row, Types
from state_engine.api.type_hints import type_information
from state_engine.serialization.convert import reader, writer


@dataclass
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x <= 0:
            raise ValueError("not positive")


@dataclass(kw_only=True)
class Named:
    a: int
    b: str = ""


def back(type_info: Any, values: list[Any]) -> list[Any]:
    return reader(type_info)(writer(type_info)(values))


def test_equal_types_with_other_carriers_read_as_their_own() -> None:
    for _ in range(2):
        assert back(Types.TUPLE(["bigint"]), [(1,)]) == [(1,)]
        assert back(Types.ROW(["bigint"]), [(1,)]) == [Row(f0=1)]
        assert back(Types.LIST(Types.TUPLE(["bigint"])), [[(1,)]]) == [[(1,)]]
        assert back(Types.LIST(Types.ROW(["bigint"])), [[(1,)]]) == [[Row(f0=1)]]


def test_a_dataclass_is_not_made_of_a_null() -> None:
    kind = type_information(Positive)
    assert back(kind, [Positive(1), None]) == [Positive(1), None]


def test_a_dataclass_that_takes_names_only() -> None:
    kind = type_information(Named)
    assert back(kind, [Named(a=1, b="x")]) == [Named(a=1, b="x")]


def test_a_nested_dataclass() -> None:
    @dataclass
    class Outer:
        inner: list[Positive]

    kind = Types.LIST(Types.ROW_NAMED(["inner"], [Types.LIST(type_information(Positive))]))
    assert back(kind, [[Outer([Positive(2)])]]) == [[Row(inner=[Positive(2)])]]


def test_a_dataclass_that_refuses_a_value_says_so() -> None:
    kind = type_information(Positive)
    with pytest.raises(ValueError, match="not positive"):
        back(kind, [(-1,)])
