"""The schema that the log has for a descriptor, and its id."""

from state_engine.api import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from state_engine.backends.schemas import state_schema
from state_engine.serialization.types import parse_columns

KEY = parse_columns("k string")


def test_the_id_does_not_change_once_it_was_written() -> None:
    assert state_schema("op", KEY, ValueStateDescriptor("count", int)).schema_id == "e117fd2968718ae3"
    assert state_schema("op", KEY, MapStateDescriptor("m", str, "array<int>")).schema_id == "0858de2e2c2d3878"


def test_the_id_is_that_of_all_fields() -> None:
    schemas = [
        state_schema("op", KEY, ValueStateDescriptor("s", int)),
        state_schema("op", KEY, ValueStateDescriptor("s", str)),
        state_schema("op", KEY, ValueStateDescriptor("t", int)),
        state_schema("op", KEY, ListStateDescriptor("s", int)),
        state_schema("op", KEY, ReducingStateDescriptor("s", max, int)),
        state_schema("op", KEY, MapStateDescriptor("s", int, int)),
        state_schema("op", KEY, MapStateDescriptor("s", str, int)),
        state_schema("op", parse_columns("k bigint"), ValueStateDescriptor("s", int)),
        state_schema("other", KEY, ValueStateDescriptor("s", int)),
    ]
    assert len({schema.schema_id for schema in schemas}) == len(schemas)


def test_types_that_are_spelled_differently_have_one_id() -> None:
    assert state_schema("op", KEY, ValueStateDescriptor("s", "LONG")) == state_schema(
        "op", KEY, ValueStateDescriptor("s", int)
    )
