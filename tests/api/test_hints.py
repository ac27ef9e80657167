"""Python hints and dataclasses as types."""

import datetime
import decimal
import enum
import typing
from dataclasses import InitVar, dataclass, field
from typing import Any, Optional

import pytest

from state_engine.api import Types
from state_engine.api.type_hints import type_information
from state_engine.errors import UnsupportedTypeError


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)
    at: datetime.datetime | None = None


@dataclass
class Line:
    begin: Point
    end: Optional["Point"]


@dataclass
class Tree:
    left: Optional["Tree"]


@dataclass
class Computed:
    x: int
    twice: int = field(init=False)


@dataclass
class Needing:
    x: int
    seed: InitVar[int]


class Colour(enum.IntEnum):
    RED = 1


HINTS: list[tuple[Any, str]] = [
    (int, "bigint"),
    (str, "string"),
    (float, "double"),
    (bool, "boolean"),
    (bytes, "binary"),
    (bytearray, "binary"),
    (datetime.date, "date"),
    (datetime.datetime, "timestamp"),
    (decimal.Decimal, "decimal(38,18)"),
    (list[int], "array<bigint>"),
    (typing.List[str], "array<string>"),  # noqa: UP006
    (dict[str, list[float]], "map<string,array<double>>"),
    (tuple[int, str], "struct<f0:bigint,f1:string>"),
    (Optional[int], "bigint"),  # noqa: UP045
    (int | None, "bigint"),
    (list[int | None], "array<bigint>"),
    (Point, "struct<x:bigint,tags:array<string>,at:timestamp>"),
    (
        Line,
        "struct<begin:struct<x:bigint,tags:array<string>,at:timestamp>,"
        "end:struct<x:bigint,tags:array<string>,at:timestamp>>",
    ),
    (Types.INT(), "int"),
    ("int", "int"),
]


@pytest.mark.parametrize(("hint", "ddl"), HINTS, ids=[str(h) for h, _ in HINTS])
def test_hints_are_types(hint: Any, ddl: str) -> None:
    assert type_information(hint).ddl() == ddl


@pytest.mark.parametrize(
    "hint",
    [
        list, dict, tuple, object, None, 5, complex, set[int], int | str, tuple[int, ...], tuple[()], Colour, Any,
        int | str | None, dict[list[int], int], datetime.timedelta, Point(1),
    ],
    ids=str,
)  # fmt: skip
def test_hints_without_a_stored_form_are_refused_by_name(hint: Any) -> None:
    with pytest.raises(UnsupportedTypeError) as refused:
        type_information(hint)
    assert repr(hint) in str(refused.value) or "array<bigint>" in str(refused.value)
    assert refused.value.action


def test_a_dataclass_that_contains_itself_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match=r"Tree.*contains itself"):
        type_information(Tree)


@pytest.mark.parametrize("kind", [Computed, Needing])
def test_a_dataclass_that_its_fields_cannot_make_is_refused(kind: type) -> None:
    with pytest.raises(UnsupportedTypeError, match=kind.__name__) as refused:
        type_information(kind)
    assert "__init__" in refused.value.action


def test_a_dataclass_with_hints_that_cannot_be_resolved_is_refused() -> None:
    @dataclass
    class Lost:
        field: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UnsupportedTypeError, match="Nowhere"):
        type_information(Lost)
