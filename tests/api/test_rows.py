"""Rows: by attribute, position and name."""

import copy
import pickle
import unicodedata
from typing import Any

import pytest

from state_engine.api import Row
from state_engine.api.row import row_class


@pytest.fixture
def row() -> Any:
    return row_class(("id", "name"))(7, "seven")


def test_fields_are_reached_by_attribute_position_and_name(row: Any) -> None:
    assert (row.id, row[0], row["id"], row[-1], row[0:2]) == (7, 7, 7, "seven", (7, "seven"))


def test_a_row_unpacks_and_counts(row: Any) -> None:
    number, name = row
    assert (number, name, len(row), list(row)) == (7, "seven", 2, [7, "seven"])


def test_a_row_becomes_a_tuple_or_a_dict(row: Any) -> None:
    assert row.as_tuple() == (7, "seven")
    assert row.as_dict() == {"id": 7, "name": "seven"}
    assert repr(row) == "Row(id=7, name='seven')"


def test_unknown_fields_are_errors(row: Any) -> None:
    with pytest.raises(KeyError, match="nope"):
        row["nope"]
    with pytest.raises(AttributeError):
        row.nope  # noqa: B018
    with pytest.raises(IndexError):
        row[2]


def test_a_row_cannot_change(row: Any) -> None:
    with pytest.raises(AttributeError):
        row.id = 8
    with pytest.raises(TypeError):
        row[0] = 8


def test_rows_of_equal_fields_are_equal_and_hash_alike(row: Any) -> None:
    other = row_class(("id", "name"))(7, "seven")
    assert row == other
    assert hash(row) == hash(other)
    assert row != row_class(("id", "other"))(7, "seven")
    assert row != row_class(("id", "name"))(7, "eight")


def test_one_schema_has_one_class() -> None:
    assert row_class(("a",)) is row_class(("a",))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda row: pickle.loads(pickle.dumps(row))])
@pytest.mark.parametrize("made", [Row(7, "seven"), Row(id=7, name="seven"), Row(), Row((1, 2)), Row(None)], ids=repr)
def test_rows_survive_pickling_and_copying(made: Any, copied: Any) -> None:
    again = copied(made)
    assert again == made
    assert type(again) is type(made)


def test_a_row_with_names_is_an_input_row(row: Any) -> None:
    assert Row(id=7, name="seven") == row


def test_a_row_takes_positions_or_names() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row(1, name="seven")


ODD = (
    "class",
    "as_dict",
    "_hidden",
    "__init__",
    "a b",
    "1st",
    "grüße",
    "f_0_",
    "f_1_",
    "東京",
    "ª",
    "ﬁeld",
    "with`tick",
    "field_names",
)


def test_columns_with_odd_names_are_reached_by_position_and_name() -> None:
    row = row_class(ODD)(*range(len(ODD)))
    assert [row[name] for name in ODD] == list(range(len(ODD)))
    assert row.as_dict() == {name: index for index, name in enumerate(ODD)}
    assert pickle.loads(pickle.dumps(row)) == row


def test_columns_with_odd_names_hide_no_method() -> None:
    row = row_class(ODD)(*range(len(ODD)))
    assert row.field_names() == ODD


@pytest.mark.parametrize("name", ["ª", "ﬁeld", "ｘ"])
def test_names_that_python_spells_otherwise_are_no_attributes(name: str) -> None:
    """Python reads `row.ª` as `row.a`, which may be another column."""
    plain = unicodedata.normalize("NFKC", name)
    row = row_class((name, plain))(1, 2)
    assert (row[name], row[plain], getattr(row, plain)) == (1, 2, 2)
    assert not hasattr(row, name)


@pytest.mark.parametrize("name", ["count", "index", "grüße", "match", "type", "value"])
def test_plain_names_are_attributes(name: str) -> None:
    assert getattr(row_class((name,))(5), name) == 5


def test_a_row_with_names_is_a_row() -> None:
    assert isinstance(Row(id=7, name="seven"), Row)
    assert isinstance(Row(7, "seven"), Row)
    assert not isinstance((7, "seven"), Row)


def test_in_asks_for_names_where_there_are_some() -> None:
    row = Row(id=7, name="seven")
    assert "name" in row
    assert "seven" not in row
    assert "seven" in Row(7, "seven")


def test_nested_rows_become_dicts_on_demand() -> None:
    inner = Row(n=1)
    row = Row(a=inner, many=[inner], by={"k": inner}, plain=Row(1, 2))
    assert row.as_dict() == {"a": inner, "many": [inner], "by": {"k": inner}, "plain": (1, 2)}
    assert row.as_dict(True) == {"a": {"n": 1}, "many": [{"n": 1}], "by": {"k": {"n": 1}}, "plain": (1, 2)}


def test_fields_by_names() -> None:
    assert Row(id=7, name="seven").get_fields_by_names(["name", "id"]) == ["seven", 7]


@pytest.mark.parametrize("row", [Row(7, "seven"), Row(id=7, name="seven")])
def test_a_row_says_that_it_cannot_be_changed(row: Any) -> None:
    with pytest.raises(TypeError, match="Make a new one"):
        row[0] = 8


def test_a_row_without_names_is_no_dict() -> None:
    with pytest.raises(TypeError, match=r"Row\(7, 'seven'\) has no names"):
        Row(7, "seven").as_dict()
