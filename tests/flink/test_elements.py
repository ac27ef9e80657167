"""Types of collections, and elements as they are printed and returned."""

import datetime
import decimal
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import Row, Types
from state_engine.api.types import Bare, StructType, columns_of_type
from state_engine.errors import UnsupportedTypeError
from state_engine.flink.collections import batch_of
from state_engine.flink.elements import elements_of, lines_of, type_of_values


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("values", "ddl"),
    [
        (["a", None], "string"),
        ([1, 2], "bigint"),
        ([1.5], "double"),
        ([True], "boolean"),
        ([b"x"], "binary"),
        ([datetime.date(2024, 1, 1)], "date"),
        ([("a", 1), ("b", None)], "struct<f0:string,f1:bigint>"),
        ([(None, 1), ("b", None)], "struct<f0:string,f1:bigint>"),
        ([Row("a", 1)], "struct<f0:string,f1:bigint>"),
        ([Row(name="a", n=1)], "struct<name:string,n:bigint>"),
        ([Point(1, 2)], "struct<x:bigint,y:bigint>"),
        ([[], [1]], "array<bigint>"),
        ([{}, {"a": [1]}], "map<string,array<bigint>>"),
        ([("a", (1, "b"))], "struct<f0:string,f1:struct<f0:bigint,f1:string>>"),
        ([decimal.Decimal("1.5")], "decimal(38,18)"),
    ],
)
def test_the_type_of_a_collection(values: list[Any], ddl: str) -> None:
    kind = type_of_values(values)
    assert kind.ddl() == ddl
    if isinstance(values[0], (tuple, Point)):
        carrier = {tuple: tuple, Row: None}.get(type(values[0]), Point if isinstance(values[0], Point) else None)
        assert isinstance(kind, StructType)
        assert kind.carrier is carrier


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "has no values"),
        ([None], "has no values"),
        ([1, "a"], "mixes bigint and string"),
        ([1, 1.5], "mixes"),
        ([1, True], "mixes"),
        ([("a",), ("a", 1)], "mixes"),
        ([("a", 1), Row("a", 1)], "mixes"),
        ([("a", None)], "is unknown"),
        ([[]], "is unknown"),
        ([object()], "nothing is pickled"),
        ([{1}], "nothing is pickled"),
    ],
)
def test_what_has_no_type_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=message):
        type_of_values(values)


def test_a_value_of_another_type_than_declared_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="'b'"):
        batch_of([1, "b"], columns_of_type(Types.INT()))


NAMED = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("type_", "values", "lines"),
    [
        (Types.STRING(), ["a", None], ["a", "null"]),
        (Types.BOOLEAN(), [True], ["true"]),
        (Types.LIST(Types.INT()), [[1, 2]], ["[1, 2]"]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}], ["{a=1}"]),
        (Types.TUPLE([Types.STRING(), Types.INT()]), [("a", 1), ("b", None)], ["(a,1)", "(b,null)"]),
        (Types.ROW([Types.STRING(), Types.INT()]), [Row("a", 1)], ["+I[a, 1]"]),
        (NAMED, [Row(name="a", n=1)], ["+I[a, 1]"]),
        (Types.ROW([Types.TUPLE([Types.INT()]), NAMED]), [Row((1,), Row(name="a", n=1))], ["+I[(1), +I[a, 1]]"]),
    ],
)
def test_elements_come_back_as_they_were_and_are_printed_as_flink_does(
    type_: Any, values: list[Any], lines: list[str]
) -> None:
    import pyarrow as pa

    columns = columns_of_type(type_)
    table = pa.Table.from_batches([batch_of(values, columns)])
    assert lines_of(table, columns) == lines
    if "struct" not in "".join(t.ddl() for t in columns.types):
        elements = elements_of(table, columns)
        assert elements == values
        assert list(map(type, elements)) == list(map(type, values))
    assert elements_of(table.slice(0, 0), columns) == []


def test_bare_values_are_one_column() -> None:
    columns = columns_of_type(Types.STRING())
    assert (columns.names, isinstance(columns.carrier, Bare)) == (("f0",), True)
    assert batch_of(["a", None], columns).to_pydict() == {"f0": ["a", None]}
