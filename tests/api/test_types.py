"""`Types.*`, by PyFlink's names, and what each is stored as."""

from typing import Any

import pytest

from state_engine.api import Types
from state_engine.api.types import DecimalType, StructType, TypeInformation
from state_engine.errors import UnsupportedTypeError

SPELLED: list[tuple[TypeInformation, str]] = [
    (Types.STRING(), "string"),
    (Types.CHAR(), "string"),
    (Types.BYTE(), "tinyint"),
    (Types.SHORT(), "smallint"),
    (Types.INT(), "int"),
    (Types.LONG(), "bigint"),
    (Types.BOOLEAN(), "boolean"),
    (Types.FLOAT(), "float"),
    (Types.DOUBLE(), "double"),
    (Types.BIG_INT(), "decimal(38,0)"),
    (Types.BIG_DEC(), "decimal(38,18)"),
    (Types.BIG_DEC(10, 2), "decimal(10,2)"),
    (Types.SQL_DATE(), "date"),
    (Types.SQL_TIMESTAMP(), "timestamp_ntz"),
    (Types.INSTANT(), "timestamp"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "binary"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "array<int>"),
    (Types.BASIC_ARRAY(Types.STRING()), "array<string>"),
    (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), "array<struct<f0:int>>"),
    (Types.LIST(Types.LONG()), "array<bigint>"),
    (Types.MAP(Types.STRING(), Types.LIST(Types.INT())), "map<string,array<int>>"),
    (Types.ROW([Types.INT(), Types.STRING()]), "struct<f0:int,f1:string>"),
    (Types.ROW_NAMED(["a", "b c"], [Types.INT(), Types.STRING()]), "struct<a:int,`b c`:string>"),
    (Types.TUPLE([Types.INT(), Types.INT()]), "struct<f0:int,f1:int>"),
]


@pytest.mark.parametrize(("type_info", "ddl"), SPELLED, ids=[d for _, d in SPELLED])
def test_types_have_a_canonical_spelling(type_info: TypeInformation, ddl: str) -> None:
    assert type_info.ddl() == str(type_info) == ddl


def test_parts_may_be_spelled_in_any_way() -> None:
    assert Types.MAP(str, "array<int>") == Types.MAP(Types.STRING(), Types.LIST(Types.INT()))


def test_a_tuple_and_a_row_are_stored_alike() -> None:
    assert Types.TUPLE([Types.INT()]) == Types.ROW([Types.INT()])


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_decimals_that_do_not_exist_are_refused(precision: int, scale: int) -> None:
    with pytest.raises(UnsupportedTypeError, match=rf"decimal\({precision},{scale}\)"):
        DecimalType(precision, scale)


@pytest.mark.parametrize(
    ("names", "types", "named"),
    [
        (["a", "A"], ["int", "int"], "a"),
        (["", "b"], ["int", "int"], "empty"),
        (["a"], ["int", "int"], "1 field names for 2 types"),
        ([], [], "without fields"),
    ],
)
def test_odd_fields_are_refused(names: list[str], types: list[str], named: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=named) as refused:
        Types.ROW_NAMED(names, types)
    assert refused.value.action


@pytest.mark.parametrize("key", ["array<int>", "map<int,int>", "struct<a:array<int>>"])
def test_map_keys_that_a_dict_cannot_have_are_refused(key: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="keys of type") as refused:
        Types.MAP(key, "int")
    assert key in str(refused.value)


def test_a_bare_type_information_has_no_stored_form() -> None:
    with pytest.raises(UnsupportedTypeError, match="TypeInformation"):
        TypeInformation().ddl()


def test_the_carrier_is_not_part_of_the_type() -> None:
    made: Any = Types.TUPLE(["int"])
    assert isinstance(made, StructType)
    assert made.carrier is tuple
    assert hash(made) == hash(Types.ROW(["int"]))


@pytest.mark.parametrize("kind", ["PICKLED_BYTE_ARRAY", "SQL_TIME"])
def test_types_that_are_not_there_say_what_to_use(kind: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=f"no Types.{kind} here"):
        getattr(Types, kind)()
