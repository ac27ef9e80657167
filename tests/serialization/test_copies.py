"""A copy has the same class and is equal, and later changes of the original do not change it."""

import datetime
import decimal
from collections import defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyspark.sql
import pytest

from state_engine.api import Row
from state_engine.api.output_tag import OutputTag
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.serialization.copies import RowCopies, copied


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    tags: list[str]


Pair = namedtuple("Pair", "b a")
TAG = OutputTag("side", "n bigint")


def make_changeable() -> list[Any]:
    """Makes one value of each kind that can change."""
    return [
        [1, 2],
        {"a": [1]},
        {1, 2},
        (1, [2]),
        bytearray(b"x"),
        deque([1]),
        defaultdict(list, {"a": [1]}),
        np.array([1, 2]),
        np.array([[1], 2], dtype=object),
        Point(1, ["a"]),
        Frozen(["a"]),
        Row(1, [2]),
        Row(a=1, b=[2]),
        Pair([1], 2),
        pyspark.sql.Row(b=[1], a=2),
        [[1], ({"a": [2]},)],
        (TAG, [1]),
    ]


def spoil(value: Any) -> None:
    """Changes every mutable part of a value."""
    if isinstance(value, (bytearray, set, deque)):
        value.clear()
    elif isinstance(value, dict):
        for part in value.values():
            spoil(part)
        value.clear()
    elif isinstance(value, np.ndarray):
        value.fill(9)
    elif isinstance(value, (Point, Frozen)):
        value.tags.append("changed")
        if isinstance(value, Point):
            value.x = 99
    elif isinstance(value, (tuple, list, Row)):
        for part in value:
            spoil(part)
        if isinstance(value, list):
            value.clear()


@pytest.mark.parametrize("n", range(len(make_changeable())))
def test_what_is_changed_afterwards_does_not_change_the_copy(n: int) -> None:
    value, same = make_changeable()[n], make_changeable()[n]
    made = copied(value)
    assert type(made) is type(value)
    spoil(value)
    assert repr(made) == repr(same)


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, b"a", datetime.date.min, decimal.Decimal(1), (1, "a"), (), Row(1, "a"), Row(a=1), Pair(1, 2)],
)
def test_what_cannot_change_is_not_copied(value: Any) -> None:
    assert copied(value) is value


def test_objects_of_other_classes_are_themselves_unless_said_otherwise() -> None:
    model = object()
    assert copied((1, model))[1] is model
    assert copied([model], other=id) == [id(model)]


def test_a_view_of_bytes_becomes_bytes() -> None:
    buffer = bytearray(b"abc")
    made = copied(memoryview(buffer))
    buffer[:] = b"xyz"
    assert made == b"abc"


def taken(columns: str, rows: list[Any], **options: Any) -> list[Any]:
    """Returns the rows as an operator with these columns has them after their author has changed them."""
    found: list[Any] = []
    RowCopies(parse_columns_ddl(columns), **options).into(found)(rows)
    for row in rows:
        spoil(row)
    return found


@pytest.mark.parametrize("columns", ["a bigint, b string", "a decimal(5,2), b timestamp"])
def test_tuples_of_atoms_may_be_taken_without_a_look(columns: str) -> None:
    assert RowCopies(parse_columns_ddl(columns)).takes_tuples
    row = (1, "a")
    assert taken(columns, [row])[0] is row


@pytest.mark.parametrize("columns", ["a array<bigint>", "a map<string,int>", "a struct<x:int>", "a binary"])
def test_tuples_of_what_can_change_are_copied(columns: str) -> None:
    assert not RowCopies(parse_columns_ddl(columns)).takes_tuples
    assert taken(columns, [([1],), Row([2])]) == [([1],), Row([2])]


def test_lists_of_atoms_are_copied() -> None:
    assert taken("a bigint", [[1], {"a": 2}]) == [[1], {"a": 2}]


def test_beside_side_outputs_a_pair_with_a_tag_is_copied_and_a_row_is_not() -> None:
    row, tagged, side = (1, "a"), (TAG, (3,)), {"side": parse_columns_ddl("n bigint")}
    rows = taken("a bigint, b string", [row, (TAG, [1]), [2, "b"], tagged], side_outputs=side)
    assert rows == [(1, "a"), (TAG, [1]), [2, "b"], (TAG, (3,))]
    assert rows[0] is row
    assert rows[3] is tagged, "nothing can change a tuple of atoms"
    assert not RowCopies(parse_columns_ddl("a bigint"), side).takes_tuples


def test_a_tuple_of_what_can_change_is_copied_on_its_way_to_a_side_output() -> None:
    side = {"side": parse_columns_ddl("path array<bigint>"), "other": parse_columns_ddl("n bigint")}
    assert taken("a bigint", [(TAG, ([1],)), (1,)], side_outputs=side) == [(TAG, ([1],)), (1,)]


def test_with_reuse_rows_are_taken_themselves() -> None:
    row = [1]
    assert taken("a bigint", [row], reuses=True)[0] is row
