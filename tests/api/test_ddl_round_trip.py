"""A type's DDL contains everything that is stored, and so does its Arrow form."""

from hypothesis import given, settings

from state_engine.api.type_hints import parse_columns_ddl, parse_ddl
from state_engine.api.types import StructType, TypeInformation, quote
from state_engine.serialization.types import arrow_to_ddl, ddl_to_arrow, from_arrow, to_arrow
from state_engine.testing.strategies import structs, types


@given(types())
def test_ddl_parses_to_the_same_type(type_info: TypeInformation) -> None:
    assert parse_ddl(type_info.ddl()) == type_info


@given(types())
def test_arrow_maps_back_to_the_same_type(type_info: TypeInformation) -> None:
    assert from_arrow(to_arrow(type_info)) == type_info
    assert arrow_to_ddl(ddl_to_arrow(type_info.ddl())) == type_info.ddl()


@given(structs(types()))
@settings(max_examples=settings.default.max_examples // 4)
def test_columns_parse_to_the_same_struct(struct: StructType) -> None:
    columns = ", ".join(f"{quote(n)} {t.ddl()}" for n, t in zip(struct.names, struct.types, strict=True))
    assert parse_columns_ddl(columns) == struct
