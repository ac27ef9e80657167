"""Conversion of keys between Python and columns."""

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.backends.keys import KeyCodec, KeyContext, Namespaced, join_entries, split_entries
from state_engine.errors import UnsupportedTypeError
from state_engine.key_groups import key_group_of
from state_engine.serialization.types import parse_columns

KEYS: dict[str, list[Any]] = {
    "k bigint": [1, -1, None, 1 << 40],
    "k int": [1, 2],
    "k string": ["a", "", "ü", "one that is longer than thirty-two bytes, so that other lanes count"],
    "k smallint": [3, None],
    "a bigint, b smallint, c string": [(1, 2, "x"), (None, 2, None), (1, None, "x"), (1, 2, None)],
    "k date": [datetime.date(1969, 1, 1), None],
    "k decimal(20,2)": [decimal.Decimal("1.50"), decimal.Decimal("-1.50")],
    "k timestamp": [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)],
    "a string, b bigint": [("x", 1), (None, 1), ("x", None), (None, None)],
}


@pytest.mark.parametrize("ddl", KEYS)
def test_keys_come_back_as_they_went_in(ddl: str) -> None:
    codec = KeyCodec(parse_columns(ddl), 13)
    assert codec.read(codec.write(KEYS[ddl])) == KEYS[ddl]
    assert codec.read(codec.write([])) == []


@pytest.mark.parametrize("ddl", KEYS)
def test_key_groups_of_many_are_those_of_each(ddl: str) -> None:
    codec, keys = KeyCodec(parse_columns(ddl), 13), KEYS[ddl]
    types = [c.type for c in codec.columns]
    groups = codec.key_groups(keys, codec.write(keys))
    assert groups.dtype == np.int32
    assert groups.tolist() == codec.groups_of(codec.write(keys)).tolist()
    assert (
        groups.tolist()
        == [key_group_of(key if isinstance(key, tuple) else (key,), types, 13) for key in keys]
        == [codec.key_group(key) for key in keys]
    )


def test_other_key_types_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="double"):
        KeyCodec(parse_columns("k double"), 13)


def test_a_namespaced_key_is_never_a_plain_one() -> None:
    assert Namespaced("a", "w") == Namespaced("a", "w")
    assert Namespaced("a", "w") != "a"
    assert len({Namespaced("a", "w"), Namespaced("a", "v"), "a", ("a", "w")}) == 4


def test_entries_split_and_join() -> None:
    entries = ["a", Namespaced("a", "w"), Namespaced(None, ""), None]
    keys, namespaces = split_entries(entries)
    assert (keys, namespaces) == (["a", "a", None, None], [None, "w", "", None])
    assert join_entries(keys, namespaces) == entries
    assert split_entries(["a", None]) == (["a", None], None)
    assert join_entries(["a"], None) == ["a"]


def test_the_current_key_is_without_its_namespace() -> None:
    context = KeyContext()
    context.entry = Namespaced(("a", 1), "w")
    assert context.current_key() == ("a", 1)
    context.entry = ("a", 1)
    assert context.current_key() == ("a", 1)


def test_keys_are_read_from_chunks() -> None:
    codec = KeyCodec(parse_columns("a string, b bigint"), 13)
    columns = [pa.chunked_array([["x"], ["y", None]], pa.string()), pa.chunked_array([[1, 2], [3]], pa.int64())]
    assert codec.read(columns) == [("x", 1), ("y", 2), (None, 3)]
