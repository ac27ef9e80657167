"""Columns as JSON: the same as Python's encoder makes of each value, whichever way it is made."""

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.connectors.json_columns import json_objects, json_of

UTC = dt.UTC


@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.decimal128(38, 2), Decimal("-123456789012345678901234567890.50"), "-123456789012345678901234567890.50"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.string(), "ä€𝄞", '"ä€𝄞"'),
        (pa.string(), 'a"b\\c\n\x01', '"a\\"b\\\\c\\n\\u0001"'),
        (pa.string(), "", '""'),
        (pa.date32(), dt.date(1, 2, 3), '"0001-02-03"'),
        (pa.timestamp("us"), dt.datetime(2024, 1, 2, 3, 4, 5, 6), '"2024-01-02T03:04:05.000006"'),
        (pa.timestamp("us", tz="UTC"), dt.datetime(2024, 1, 2, tzinfo=UTC), '"2024-01-02T00:00:00Z"'),
        (pa.binary(), b"\x00\xff", '"' + base64.b64encode(b"\x00\xff").decode() + '"'),
        (pa.list_(pa.binary()), [b"a"], '["YQ=="]'),
        (pa.struct([("a", pa.int32())]), {"a": None}, '{"a":null}'),
        (pa.map_(pa.string(), pa.bool_()), [("x", True)], '{"x":true}'),
    ],
    ids=str,
)
def test_one_value_of_each_type(data_type: pa.DataType, value: Any, text: str) -> None:
    assert json_of(pa.array([value, None], data_type)).to_pylist() == [text, None]


@given(st.lists(st.text() | st.none()))
def test_any_text(values: list[str | None]) -> None:
    found = json_of(pa.array(values, pa.string())).to_pylist()
    assert [None if text is None else json.loads(text) for text in found] == values


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none()))
def test_any_number(values: list[float | None]) -> None:
    found = json_of(pa.array(values, pa.float64())).to_pylist()
    assert [None if text is None else float(json.loads(text)) for text in found] == values


@given(st.lists(st.tuples(st.text() | st.none(), st.integers(-(2**63), 2**63 - 1) | st.none()), min_size=1))
def test_any_rows(rows: list[tuple[str | None, int | None]]) -> None:
    batch = pa.record_batch({'na"me': [k for k, _ in rows], "n": pa.array([n for _, n in rows], pa.int64())})
    found = [json.loads(text) for text in json_objects(batch, batch.schema.names).to_pylist()]
    assert found == [{'na"me': k, "n": n} for k, n in rows]


def test_rows_without_columns_and_columns_without_rows() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2])})
    assert json_objects(batch, []).to_pylist() == ["{}", "{}"]
    assert json_objects(batch[:0], ["n"]).to_pylist() == []
    assert json_of(pa.array([None, None], pa.float64())).to_pylist() == [None, None]
    assert json_of(pa.array([], pa.string())).to_pylist() == []
