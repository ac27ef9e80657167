"""Keys as bytes: they can be read back, have the same order, and none is a prefix of another one."""

import datetime
import decimal
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state_engine.api import Row
from state_engine.api.type_hints import parse_ddl
from state_engine.backends.keys import KeyCodec, Namespaced
from state_engine.backends.rocksdb.cells import Cells, group_of, inner_prefix, number_bytes, prefix_end
from state_engine.backends.rocksdb.ordered import MISFIT, ordered_codec
from state_engine.serialization.types import parse_columns

UTC = datetime.UTC
DECIMALS = st.decimals(-(10**8), 10**8, places=2).map(lambda d: d.quantize(decimal.Decimal("0.01")))
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "int": st.integers(-5, 5),
    "boolean": st.booleans(),
    "string": st.text(alphabet=st.sampled_from(["\x00", "\x01", "a", "ÿ", "語"]), max_size=4),
    "binary": st.binary(max_size=3),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(12,2)": DECIMALS,
}
PAIRS = st.sampled_from(sorted(TYPES)).flatmap(lambda ddl: st.tuples(st.just(ddl), TYPES[ddl], TYPES[ddl]))


@given(PAIRS)
@example(("binary", b"\x00", b""))
@example(("string", "a\x00", "a"))
def test_values_come_back_and_sort_as_they_did(given: tuple[str, Any, Any]) -> None:
    ddl, one, other = given
    codec = ordered_codec(parse_ddl(ddl))
    a, b = codec.encode(one), codec.encode(other)
    for value, data in ((one, a), (other, b)):
        decoded, end = codec.decode(b"xy" + data + b"\x00", 2)
        assert decoded == value
        assert type(decoded) is type(value)
        assert end == 2 + len(data)
    assert (a < b) == (one < other)
    assert (a == b) == (one == other)
    assert codec.encode(None) < a
    assert codec.decode(codec.encode(None), 0) == (None, 1)
    if a != b and a.startswith(b):
        assert a[len(b)] == 0xFF  # which nothing that follows a key begins with


@given(st.lists(st.tuples(st.one_of(st.none(), TYPES["string"]), st.one_of(st.none(), TYPES["int"])), max_size=5))
def test_rows_sort_field_by_field(rows: list[tuple[Any, Any]]) -> None:
    codec = ordered_codec(parse_ddl("struct<a:string,b:int>"))

    def spelled(row: tuple[Any, Any]) -> Any:
        return [(part is not None, part) if part is not None else (False,) for part in row]

    for one, other in combinations(rows, 2):
        assert (codec.encode(one) < codec.encode(other)) == (spelled(one) < spelled(other))
        assert codec.encode(Row(a=one[0], b=one[1])) == codec.encode(one)
        assert codec.decode(codec.encode(one), 0)[0] == Row(a=one[0], b=one[1])


def test_what_python_holds_for_equal_is_one_key() -> None:
    integers, doubles, flags = (ordered_codec(parse_ddl(ddl)) for ddl in ("bigint", "double", "boolean"))
    assert len({integers.encode(one) for one in (1, 1.0, True, np.int64(1), decimal.Decimal(1))}) == 1
    assert len({doubles.encode(zero) for zero in (0, 0.0, -0.0, False)}) == 1
    assert flags.encode(1) == flags.encode(True)
    decimals = ordered_codec(parse_ddl("decimal(5,2)"))
    assert len({decimals.encode(one) for one in (1, 1.0, True, decimal.Decimal("1.00"))}) == 1
    assert math.isnan(doubles.decode(doubles.encode(math.nan), 0)[0])


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("bigint", [1.5, "1", 1 << 63, math.nan, (1,)]),
        ("boolean", [2, "x", []]),
        ("string", [1, b"x", "\ud800"]),
        ("binary", [1, "x"]),
        ("date", [1, datetime.datetime(2024, 1, 1)]),
        ("timestamp", [1, datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1)]),
        ("timestamp_ntz", [datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
        ("decimal(5,2)", ["x", "1", (0, (1,), 0), decimal.Decimal("NaN"), decimal.Decimal("1.001")]),
        ("double", ["x", (1 << 53) + 1]),
        ("struct<a:int,b:int>", [1, (1,), (1, "x")]),
    ],
)
def test_what_is_not_of_the_type_has_no_key(ddl: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(MISFIT):
            ordered_codec(parse_ddl(ddl)).encode(value)


def test_a_key_group_is_one_range_and_an_entry_one_prefix() -> None:
    codec = KeyCodec(parse_columns("a string, b bigint"), 13)
    cells = Cells(7, codec)
    keys: list[Any] = [("x", n) for n in range(20)] + [("x\x00", 1), (None, None), ("", 2)]
    entries = keys + [Namespaced(key, space) for key in keys for space in ("", "w", "w\x00")]
    heads = cells.keys(entries)
    assert heads == [cells.key(entry) for entry in entries]
    assert [cells.entry(head) for head in heads] == [(e, len(h)) for e, h in zip(entries, heads, strict=True)]
    owners = {}
    for entry, head in zip(entries, heads, strict=True):
        group = codec.key_group(entry.key if isinstance(entry, Namespaced) else entry)
        begin, end = cells.groups(group, group)
        prefix = inner_prefix(head)
        inner = [prefix + number_bytes(n) for n in (0, 1, 1 << 40)]
        for key in (head, *inner):
            assert begin <= key < end
            assert group_of(key) == group
            owners[key] = entry
        assert all(prefix <= key < prefix_end(prefix) for key in inner)
    assert len(owners) == 4 * len(entries)
    for entry, head in zip(entries, heads, strict=True):
        prefix = inner_prefix(head)
        assert {owners[key] for key in owners if prefix <= key < prefix_end(prefix)} == {entry}


def test_the_last_key_group_of_all_is_in_the_states_range() -> None:
    cells = Cells(3, KeyCodec(parse_columns("k bigint"), 32768))
    assert cells.groups(0, 0xFFFF) == (b"\x00\x03\x00\x00", b"\x00\x04")
    assert cells.groups(5, 6) == (b"\x00\x03\x00\x05", b"\x00\x03\x00\x07")
