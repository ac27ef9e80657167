"""Descriptors and tags: names that may be folders, types that may be columns."""

from typing import Any

import pytest

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import JobDefinitionError, UnsupportedTypeError


@pytest.mark.parametrize("name", ["a", "count", "a.b-c_d", "0", "x" * 128])
def test_names_that_may_be_folders(name: str) -> None:
    assert ValueStateDescriptor(name, int).get_name() == name


@pytest.mark.parametrize("name", ["", "_a", ".a", "-a", "a b", "a/b", "..", "grüße", "x" * 129, None, 5, "a\n"])
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(JobDefinitionError, match="cannot name") as refused:
        ValueStateDescriptor(name, int)
    assert repr(name) in str(refused.value)


def test_descriptors_know_their_types() -> None:
    assert ListStateDescriptor("s", Types.INT()).type_info == Types.INT()
    described = MapStateDescriptor("s", str, "array<int>")
    assert (described.key_type_info, described.type_info) == (Types.STRING(), Types.LIST("int"))
    assert repr(described) == "MapStateDescriptor('s', array<int>)"


def test_a_reducing_state_needs_a_function() -> None:
    with pytest.raises(JobDefinitionError, match="'s' got 5"):
        ReducingStateDescriptor("s", 5, int)  # type: ignore[arg-type]


def test_an_aggregating_state_needs_an_aggregate_function() -> None:
    with pytest.raises(JobDefinitionError, match="AggregateFunction"):
        AggregatingStateDescriptor("s", max, int)  # type: ignore[arg-type]


def test_a_type_without_a_stored_form_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError):
        ValueStateDescriptor("s", object)


def test_tags_of_one_id_are_one_tag() -> None:
    assert OutputTag("late", "a int") == OutputTag("late")
    assert hash(OutputTag("late", "a int")) == hash(OutputTag("late"))
    assert OutputTag("late") != OutputTag("early")
    assert repr(OutputTag("late")) == "OutputTag('late')"


def test_a_tag_declares_columns() -> None:
    declared = OutputTag("late", "a int, b string").type_info
    assert declared is not None
    assert declared.names == ("a", "b")
    bare = OutputTag("late", int).type_info
    assert bare is not None
    assert bare.ddl() == "struct<f0:bigint>"
    with pytest.raises(UnsupportedTypeError):
        OutputTag("late", object)
