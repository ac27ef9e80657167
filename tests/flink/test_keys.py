"""Which key selectors become key columns, and which must be called."""

from collections import namedtuple
from operator import attrgetter, itemgetter
from typing import Any

import pytest

from state_engine.api import Row
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType, columns_of_type
from state_engine.errors import JobDefinitionError
from state_engine.flink import KeySelector
from state_engine.flink.keys import key_of
from state_engine.runtime.keyed_elements import KeyOf, Leading
from state_engine.serialization.rows import row_maker

ROW = columns_of_type(Types.ROW_NAMED(["name", "n", "at"], [Types.STRING(), Types.INT(), Types.LONG()]))
TUPLE = columns_of_type(Types.TUPLE([Types.STRING(), Types.INT()]))
TEXT = columns_of_type(Types.STRING())
FIELD = 1


class ByName(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value.name


@pytest.mark.parametrize(
    ("selector", "columns", "names"),
    [
        (lambda v: v[0], TUPLE, ("f0",)),
        (lambda v: v[-1], TUPLE, ("f1",)),
        (lambda v: v[FIELD], TUPLE, ("f1",)),
        (lambda v: (v[1], v[0]), TUPLE, ("f1", "f0")),
        (lambda v: v.name, ROW, ("name",)),
        (lambda v: v["n"], ROW, ("n",)),
        (lambda v: (v.at, v[0]), ROW, ("at", "name")),
        (lambda v: v, TEXT, ("f0",)),
        (ByName(), ROW, ("name",)),
        (itemgetter(0), TUPLE, ("f0",)),
        (itemgetter(0, 1), TUPLE, ("f0", "f1")),
        (attrgetter("name"), ROW, ("name",)),
    ],
)
def test_picked_fields_are_the_key_columns(selector: Any, columns: StructType, names: tuple[str, ...]) -> None:
    key = key_of(selector, None, columns)
    assert (key.names, key.selector) == (names, None)


def helper(value: Any) -> Any:
    return value[0]


def tried(value: Any) -> Any:
    try:
        return value[0]
    except IndexError:
        return None


class Stateful:
    def __call__(self, value: Any) -> Any:
        return value[0]


@pytest.mark.parametrize(
    ("selector", "columns"),
    [
        (lambda v: v[1] % 2, TUPLE),
        (lambda v: v[0].lower(), TUPLE),
        (lambda v: v[0] if v[0] is not None else "", TUPLE),
        (lambda v: v[0] if v[1] > 3 else v[1], TUPLE),
        (lambda v: v[0] or "", TUPLE),
        (lambda v: v[0] if isinstance(v, tuple) else v, TUPLE),
        (lambda v: f"{v[0]}", TUPLE),
        (lambda v: v[0] == "a", TUPLE),
        (lambda v: v[0] is None, TUPLE),
        (lambda v: not v[0], TUPLE),
        (lambda v: "a" in v[0], TUPLE),
        (lambda v: v[0][0], TUPLE),
        (lambda v: (v[0], v[0]), TUPLE),
        (lambda v: (v[0], 1), TUPLE),
        (lambda v: 0, TUPLE),
        (lambda v: v, TUPLE),
        (lambda v: [v[0]], TUPLE),
        (lambda v: v[0], TEXT),
        (lambda v: (v,), TEXT),
        (lambda v: v.missing, ROW),
        (lambda v: v[7], ROW),
        (lambda v: helper(v), TUPLE),
        (tried, TUPLE),
        (Stateful(), TUPLE),
        (str, TEXT),
    ],
)
def test_whatever_else_a_selector_does_needs_a_type(selector: Any, columns: StructType) -> None:
    with pytest.raises(JobDefinitionError, match="no key_type"):
        key_of(selector, None, columns)
    key = key_of(selector, Types.STRING(), columns)
    assert (key.names, key.selector) == (("key",), selector)


def test_a_field_of_another_type_than_declared_is_computed() -> None:
    assert key_of(lambda v: v[1], Types.INT(), TUPLE).selector is None
    assert key_of(lambda v: v[1], Types.LONG(), TUPLE).computed == StructType(("key",), (Types.LONG(),))


def test_names_of_computed_keys_are_free() -> None:
    columns = columns_of_type(Types.ROW_NAMED(["key", "Key_f0"], [Types.STRING(), Types.INT()]))
    assert key_of(lambda v: v[1] + 1, Types.INT(), columns).names == ("key_",)
    two = key_of(lambda v: (v[1] + 1, v[0]), Types.TUPLE([Types.INT(), Types.STRING()]), columns)
    assert two.names == ("key_f0_", "key_f1")


def test_a_field_whose_name_no_key_column_can_have_is_computed() -> None:
    columns = columns_of_type(Types.ROW_NAMED(["word", "value"], [Types.STRING(), Types.INT()]))
    key = key_of(lambda v: v.value, None, columns)
    assert key.computed == StructType(("key",), (Types.INT(),))
    both = key_of(lambda v: (v.word, v.value), None, columns)
    assert both.computed == StructType(("key_f0", "key_f1"), (Types.STRING(), Types.INT()))


def test_a_key_of_one_field_is_refused() -> None:
    with pytest.raises(JobDefinitionError, match="one field"):
        key_of(lambda v: (v[0],), Types.TUPLE([Types.STRING()]), TUPLE)


@pytest.mark.parametrize("given", [ByName, "name", 0])
def test_what_is_no_selector_is_refused(given: Any) -> None:
    with pytest.raises(JobDefinitionError, match=r"key_by\(\) got"):
        key_of(given, Types.STRING(), ROW)


def test_computed_values_of_a_record() -> None:
    single = key_of(lambda v: v[1] % 2, Types.INT(), TUPLE)
    assert single.given is not None
    assert KeyOf(single.selector, single.given)(("a", 3)) == (1,)
    double = key_of(lambda v: (v[1] % 2, v[0]), Types.TUPLE([Types.INT(), Types.STRING()]), TUPLE)
    assert double.given is not None
    assert KeyOf(double.selector, double.given)(("a", 3)) == (1, "a")


@pytest.mark.parametrize("key", [{"b": "x", "a": 1}, Row(b="x", a=1), namedtuple("Key", "b a")("x", 1), (1, "x")])
def test_computed_values_with_names_count_by_name(key: Any) -> None:
    key_plan = key_of(lambda v: key, Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), TUPLE)
    assert key_plan.given is not None
    assert KeyOf(key_plan.selector, key_plan.given)(("a", 3)) == (1, "x")


def test_functions_do_not_see_computed_columns() -> None:
    def seen(visible: StructType, *values: Any) -> Any:
        columns = StructType((*visible.names, "key"), (*visible.types, Types.INT()), carrier=Leading(visible))
        return row_maker(columns)(*values)

    assert seen(TUPLE, "a", 3, 1) == ("a", 3)
    assert seen(TEXT, "a", 1) == "a"
    assert seen(ROW, "a", 3, 9, 1).as_dict() == {"name": "a", "n": 3, "at": 9}
