"""Which types may change into which other types, and how values are converted."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import Types
from state_engine.api.type_hints import parse_ddl
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.evolution import IncompatibleTypesError, conversion, encode_default
from state_engine.serialization.types import to_arrow

D = decimal.Decimal
DAY = datetime.date(2024, 2, 29)


def converted(old: str, new: str, values: list[Any], **said: Any) -> list[Any]:
    """Returns values as plain Python, rows as dicts; converts an array with an offset, as a slice of a file has one."""
    before, after = parse_ddl(old), parse_ddl(new)
    array = writer(before)([values[0], *values])[1:]
    way = conversion(before, after, **said)
    made = way.convert(array)
    made.validate(full=True)
    assert made.type == to_arrow(after)
    assert (
        conversion(before, after, {p: (n,) for p, n in way.renamed.items()}, way.defaults).convert(array).equals(made)
    )
    return made.to_pylist()  # type: ignore[no-any-return]


INTS = {"tinyint": (-128, 127), "smallint": (-(1 << 15), (1 << 15) - 1), "int": (-(1 << 31), (1 << 31) - 1)}
ORDER = ["tinyint", "smallint", "int", "bigint"]
WIDENED: list[tuple[str, str, list[Any], list[Any]]] = [
    *(
        (old, new, [*INTS[old], None], [*INTS[old], None])
        for old in INTS
        for new in [*ORDER[ORDER.index(old) + 1 :], "double", "decimal(12,2)"]
    ),
    ("smallint", "float", [-32768, None], [-32768.0, None]),
    ("bigint", "decimal(19,0)", [-(1 << 63), (1 << 63) - 1], [D(-(1 << 63)), D((1 << 63) - 1)]),
    ("float", "double", [0.5, None, float("inf")], [0.5, None, float("inf")]),
    ("decimal(5,2)", "decimal(6,2)", [D("-999.99"), None], [D("-999.99"), None]),
    ("decimal(5,2)", "decimal(8,4)", [D("999.99")], [D("999.9900")]),
    ("date", "timestamp_ntz", [DAY, None], [datetime.datetime(2024, 2, 29), None]),
    ("array<int>", "array<bigint>", [[1, None], None, []], [[1, None], None, []]),
    ("map<string,int>", "map<string,double>", [{"a": 1}, None, {}], [[("a", 1.0)], None, []]),
]
REFUSED = [
    ("bigint", "int", r"value was bigint, is int"),
    ("int", "smallint", "value was int, is smallint"),
    ("double", "float", "value was double, is float"),
    ("bigint", "double", r"bigint, is double \(a double does not hold all 64 bits\)"),
    ("int", "float", "does not hold all 32 bits"),
    ("double", "bigint", "double, is bigint"),
    ("int", "string", "int, is string"),
    ("string", "binary", "string, is binary"),
    ("boolean", "int", "boolean, is int"),
    ("int", "decimal(11,2)", r"int, is decimal\(11,2\)"),
    ("bigint", "decimal(18,0)", r"decimal\(18,0\)"),
    ("decimal(6,2)", "decimal(5,2)", r"decimal\(6,2\), is decimal\(5,2\)"),
    ("decimal(6,2)", "decimal(6,3)", r"decimal\(6,3\)"),
    ("decimal(6,2)", "decimal(8,1)", r"decimal\(8,1\)"),
    ("decimal(6,0)", "bigint", "is bigint"),
    ("date", "timestamp", "midnight is not the same moment everywhere"),
    ("timestamp_ntz", "timestamp", "timestamp_ntz, is timestamp"),
    ("timestamp", "timestamp_ntz", "timestamp, is timestamp_ntz"),
    ("int", "array<int>", "int, is array<int>"),
    ("array<int>", "map<int,int>", "array<int>, is map<int,int>"),
    ("array<bigint>", "array<int>", "element was bigint, is int"),
    ("map<int,int>", "map<bigint,int>", r"key was int, is bigint \(keys of a map stay"),
    ("struct<a:int>", "int", "struct<a:int>, is int"),
    ("struct<a:int,b:string>", "struct<c:int,d:string>", "no field of the old type is left"),
    ("struct<a:struct<b:bigint>,c:int>", "struct<a:struct<b:int>,c:int>", "a.b was bigint, is int"),
    ("struct<l:array<struct<m:map<string,string>>>>", "struct<l:array<struct<m:map<string,int>>>>",
     "l.element.m.value was string, is int"),
    ("struct<`a b`:int>", "struct<`a b`:string>", "`a b` was int, is string"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "values", "expected"), WIDENED, ids=[f"{o}-{n}" for o, n, _, _ in WIDENED])
def test_widened(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert converted(old, new, values) == expected
    nested = converted(f"struct<x:{old}>", f"struct<x:{new}>", [{"x": v} for v in values])
    assert nested == [{"x": v} for v in expected]


@pytest.mark.parametrize(("old", "new", "says"), REFUSED, ids=[f"{o}-{n}" for o, n, _ in REFUSED])
def test_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(IncompatibleTypesError, match=says):
        conversion(parse_ddl(old), parse_ddl(new))
    with pytest.raises(IncompatibleTypesError):
        conversion(parse_ddl(f"struct<x:{old}>"), parse_ddl(f"struct<x:{new}>"))


AB = "struct<a:int,b:string>"
ROWS = [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]


def test_a_field_is_added_as_null_or_with_its_default() -> None:
    wider = "struct<a:int,b:string,c:array<int>>"
    assert converted(AB, wider, ROWS) == [row and {**row, "c": None} for row in ROWS]
    default = {"c": encode_default(parse_ddl("array<int>"), [1, 2])}
    assert converted(AB, wider, ROWS, defaults=default) == [row and {**row, "c": [1, 2]} for row in ROWS]


def test_fields_are_left_out_and_reordered() -> None:
    assert converted(AB, "struct<b:string>", ROWS) == [row and {"b": row["b"]} for row in ROWS]
    assert converted(AB, "struct<b:string,a:int>", ROWS) == ROWS
    assert [list(row) for row in converted(AB, "struct<b:string,a:int>", ROWS[:1])] == [["b", "a"]]


def test_a_field_is_renamed_by_an_alias_and_widened() -> None:
    renamed = [row and {"b": row["b"], "n": row["a"]} for row in ROWS]
    assert converted(AB, "struct<b:string,n:bigint>", ROWS, aliases={"n": ("gone", "a")}) == renamed
    assert converted(AB, "struct<B:string,A:int>", ROWS) == [row and {"B": row["b"], "A": row["a"]} for row in ROWS]


def test_an_alias_takes_no_field_that_is_still_there() -> None:
    both = "struct<a:int,b:string,n:int>"
    assert converted(AB, both, ROWS, aliases={"n": ("a",)}) == [row and {**row, "n": None} for row in ROWS]
    once = converted(AB, "struct<m:int,n:int>", ROWS, aliases={"m": ("a",), "n": ("a",)})
    assert once == [row and {"m": row["a"], "n": None} for row in ROWS]
    with pytest.raises(IncompatibleTypesError, match="n may be a and b, which both exist"):
        conversion(parse_ddl("struct<a:int,b:int>"), parse_ddl("struct<n:int>"), {"n": ("a", "b")})


def test_fields_of_structs_in_lists_and_maps() -> None:
    old = "struct<lines:array<struct<price:int>>,days:map<string,struct<n:int>>>"
    new = "struct<lines:array<struct<cost:bigint,tax:int>>,days:map<string,struct<n:bigint>>>"
    values = [
        {"lines": [{"price": 1}, None], "days": {"mo": {"n": 1}, "tu": None}},
        {"lines": None, "days": {}},
        {"lines": [], "days": None},
        None,
        {"lines": [{"price": 2}], "days": {"we": {"n": 2}}},
    ]
    rules = {
        "aliases": {"lines.element.cost": ("price",)},
        "defaults": {"lines.element.tax": encode_default(parse_ddl("int"), 7)},
    }
    assert converted(old, new, values, **rules) == [
        {"lines": [{"cost": 1, "tax": 7}, None], "days": [("mo", {"n": 1}), ("tu", None)]},
        {"lines": None, "days": []},
        {"lines": [], "days": None},
        None,
        {"lines": [{"cost": 2, "tax": 7}], "days": [("we", {"n": 2})]},
    ]


def test_null_lists_that_hide_elements() -> None:
    """In Arrow a null may have a length; its elements must not reappear."""
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 5, 6], pa.int32()), pa.array(range(6), pa.int32()), mask=pa.array([False, True, False])
    ).cast(to_arrow(parse_ddl("array<int>")))
    way = conversion(parse_ddl("array<int>"), parse_ddl("array<bigint>"))
    assert way.convert(hidden).to_pylist() == [[0, 1], None, [5]]
    assert way.convert(hidden[1:]).to_pylist() == [None, [5]]
    assert way.convert(hidden[:0]).to_pylist() == []


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("array<int>", "array<bigint>", [[1, 2], [3], [], [4, 5, 6]]),
        ("map<string,int>", "map<string,bigint>", [{"a": 1, "b": 2}, {"c": 3}, {}, {"d": 4}]),
        ("array<array<int>>", "array<array<bigint>>", [[[1], [2, 3]], [[4]], [], [[5, 6], []]]),
    ],
)
def test_every_slice_of_a_column_has_its_own_elements(old: str, new: str, values: list[Any]) -> None:
    array, way = writer(parse_ddl(old))(values), conversion(parse_ddl(old), parse_ddl(new))
    for start in range(len(values) + 1):
        for stop in range(start, len(values) + 1):
            made = way.convert(array[start:stop])
            made.validate(full=True)
            assert reader(parse_ddl(new))(made) == values[start:stop]


def test_what_was_said_is_kept_only_if_it_was_used() -> None:
    rules = {"aliases": {"n": ("a",), "b": ("z",)}, "defaults": {"b": b"", "c": encode_default(Types.INT(), 1)}}
    way = conversion(parse_ddl(AB), parse_ddl("struct<n:int,b:string,c:int>"), **rules)
    assert (way.renamed, list(way.defaults)) == ({"n": "a"}, ["c"])


def test_values_come_back_as_python_reads_the_new_type() -> None:
    way = conversion(Types.TUPLE([Types.INT()]), Types.TUPLE([Types.LONG(), Types.STRING()]))
    array = way.convert(writer(Types.TUPLE([Types.INT()]))([(1,), (2,)]))
    assert reader(Types.TUPLE([Types.LONG(), Types.STRING()]))(array) == [(1, None), (2, None)]
