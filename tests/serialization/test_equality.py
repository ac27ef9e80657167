"""Which keys are equal, by their type, without a state backend."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from state_engine.api.pyflink_types import Types
from state_engine.api.row import InputRow, row_class
from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import KEY_ATOMS
from state_engine.serialization.convert import key_reader, reader
from state_engine.serialization.equality import spelling_in, spells
from state_engine.serialization.finished import finished_key_type, finished_type
from state_engine.serialization.mutability import conformer, key_conformer
from state_engine.serialization.types import to_arrow


@pytest.mark.parametrize("name", sorted(KEY_ATOMS))
def test_types_without_floats_cost_nothing_more(name: str) -> None:
    type_info = parse_ddl(name)
    assert key_conformer(type_info) is conformer(type_info)
    assert finished_key_type(type_info) is finished_type(type_info)
    assert spells(type_info) is None


def test_a_row_without_floats_and_decimals_costs_nothing_more() -> None:
    type_info = parse_ddl("struct<a:int,b:string>")
    assert key_conformer(type_info).__qualname__ == conformer(type_info).__qualname__
    assert spells(type_info) is None


def test_what_is_read_is_found_in_a_dict() -> None:
    for ddl, one in (("double", math.nan), ("float", math.nan), ("struct<x:double>", {"x": math.nan})):
        type_info = parse_ddl(ddl)
        conform = key_conformer(type_info)
        [read] = key_reader(type_info)(pa.array([one], to_arrow(type_info)))
        key = row_class(("x",))(float("nan")) if isinstance(read, InputRow) else float("nan")
        assert conform(key) in {read}
    [read] = reader(parse_ddl("map<double,int>"))(pa.array([[(math.nan, 1)]], pa.map_(pa.float64(), pa.int32())))
    assert read[math.nan] == 1


def test_nulls_and_what_is_not_of_the_type_are_left_to_the_writer() -> None:
    for ddl in ("double", "decimal(5,2)", "struct<x:double>"):
        conform = key_conformer(parse_ddl(ddl))
        assert [conform(value) for value in (None, "x", (1, 2))] == [None, "x", (1, 2)]


def test_a_dict_tells_its_own_spelling_of_a_key() -> None:
    entries = {-0.0: 1, (-0.0, "a"): 2}
    assert repr(spelling_in(entries, 0.0)) == "-0.0"
    assert repr(spelling_in(entries, (0.0, "a"))) == "(-0.0, 'a')"
    assert spelling_in(entries, 1.0) == 1.0
    nan = Types.TUPLE([Types.DOUBLE(), Types.DOUBLE()])
    conform = key_conformer(nan)
    [known] = {conform((float("nan"), -0.0)): 1}
    assert spelling_in({known: 1}, conform((float("nan"), 0.0))) is known


def test_a_decimal_key_has_one_zero() -> None:
    conform = key_conformer(parse_ddl("decimal(5,2)"))
    assert [str(conform(Decimal(text))) for text in ("-0", "0.0", "1.5")] == ["0.00", "0.00", "1.50"]
