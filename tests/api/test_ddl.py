"""Spark DDL: what is understood, and what is refused by name."""

import pytest

from state_engine.api.type_hints import parse_columns_ddl, parse_ddl
from state_engine.errors import UnsupportedTypeError

CANONICAL = {
    "LONG": "bigint",
    " integer ": "int",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "decimal": "decimal(10,0)",
    "numeric(5)": "decimal(5,0)",
    "dec( 5 , 2 )": "decimal(5,2)",
    "ARRAY<MAP<String,Int>>": "array<map<string,int>>",
    "struct<a:int,B:struct<c:date>>": "struct<a:int,B:struct<c:date>>",
    "a int, b string": "struct<a:int,b:string>",
    "date date": "struct<date:date>",
    "comment int, not string": "struct<comment:int,not:string>",
    "`a``b` int not null comment 'text'": "struct<`a``b`:int>",
    "`grüße` int": "struct<`grüße`:int>",
}


@pytest.mark.parametrize("text", ["varchar(10)", "CHAR(3)", "a int, b varchar(3)", "array<struct<a:char(1)>>"])
def test_a_limit_that_would_not_be_checked_is_refused_with_what_to_say(text: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="limits the length of a string") as refused:
        parse_ddl(text)
    assert "Use string" in refused.value.action


@pytest.mark.parametrize(("text", "ddl"), CANONICAL.items())
def test_spellings_become_canonical(text: str, ddl: str) -> None:
    assert parse_ddl(text).ddl() == ddl


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "nope", "interval day to second", "interval year", "variant", "void", "string collate UTF8_LCASE",
        "a string collate UTF8_LCASE", "array<variant>", "array<int", "array<int>>", "map<int>", "struct<>",
        "struct<a>", "decimal(39,1)", "decimal(5,6)", "decimal(x,1)", "decimal(5", "a int,", ",a int", "a int b int",
        "struct<a:int b:int>", "``", "`` int", "a int; drop", "int int int", "timestamp without time zone",
    ],
)  # fmt: skip
def test_what_state_cannot_have_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(UnsupportedTypeError) as refused:
        parse_ddl(text)
    assert text in str(refused.value) or "decimal" in str(refused.value) or "Field names" in str(refused.value)
    assert refused.value.action


def test_columns_may_not_repeat_a_name_in_another_case() -> None:
    with pytest.raises(UnsupportedTypeError, match="ignores case"):
        parse_columns_ddl("a int, A string")


def test_columns_keep_their_order_and_case() -> None:
    assert parse_columns_ddl("B int, a string").names == ("B", "a")
