"""Rows with names are read by name if these are the columns' names; ambiguous rows are refused."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import pyspark.sql
import pytest

from state_engine.api import Row, Types
from state_engine.api.type_hints import parse_columns_ddl, type_information
from state_engine.serialization.convert import ValueTypeError, writer
from state_engine.serialization.mutability import conformer
from state_engine.serialization.rows import columns_of_rows

STRUCT = parse_columns_ddl("a string, b string")


class Typed(NamedTuple):
    b: str
    a: str


Make = Callable[..., Any]
FORMS: list[Make] = [
    lambda **fields: namedtuple("Named", fields)(**fields),
    lambda **fields: pyspark.sql.Row(**fields),
    lambda **fields: Row(**fields),
]
FORM_IDS = ["named tuple", "PySpark row", "row"]


@pytest.mark.parametrize(
    "make", [*FORMS, lambda **fields: Typed(**fields), dict], ids=[*FORM_IDS, "NamedTuple", "dict"]
)
def test_names_of_the_columns_in_another_order(make: Make) -> None:
    assert columns_of_rows([make(b="B", a="A"), ("1", "2")], STRUCT) == [["A", "1"], ["B", "2"]]


@pytest.mark.parametrize("make", FORMS, ids=FORM_IDS)
def test_other_names_count_by_position(make: Make) -> None:
    assert columns_of_rows([make(x="A", y="B")], STRUCT) == [["A"], ["B"]]
    assert columns_of_rows([make(x="A", b="B")], STRUCT) == [["A"], ["B"]]


@pytest.mark.parametrize("row", [("A", "B"), ["A", "B"], Row("A", "B"), pyspark.sql.Row("A", "B")])
def test_rows_without_names_count_by_position(row: Any) -> None:
    assert columns_of_rows([row], STRUCT) == [["A"], ["B"]]


@pytest.mark.parametrize("make", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("fields", [{"b": "B", "c": "C"}, {"c": "C", "a": "A"}])
def test_a_name_of_the_columns_at_another_position_is_refused(make: Make, fields: dict[str, str]) -> None:
    with pytest.raises(ValueTypeError, match=f"called {', '.join(fields)}, and '[ab]' is another field") as refused:
        columns_of_rows([("A", "B"), make(**fields)], STRUCT)
    assert refused.value.index == 1


@pytest.mark.parametrize("make", FORMS, ids=FORM_IDS)
def test_structs_inside_values(make: Make) -> None:
    kind = type_information("array<struct<a:string,b:string>>")
    assert writer(kind)([[make(b="B", a="A")]]).to_pylist() == [[{"a": "A", "b": "B"}]]
    assert conformer(kind)([make(b="B", a="A")]) == [Row(a="A", b="B")]


@pytest.mark.parametrize("make", FORMS, ids=FORM_IDS)
def test_tuples_as_carriers(make: Make) -> None:
    assert conformer(Types.TUPLE([Types.STRING(), Types.STRING()]))(make(f1="B", f0="A")) == ("A", "B")


def test_another_number_of_fields_is_named_as_such() -> None:
    with pytest.raises(ValueTypeError, match="3 fields for 2"):
        columns_of_rows([namedtuple("Named", "b a c")("B", "A", "C")], STRUCT)
