"""Columns compared value by value: the order of SQL, and equality, for every type."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.runtime.declared.comparison import ordinals, row_numbers, same

IN_ORDER = {
    "bigint": pa.array([None, -(2**63), -1, 0, 2**63 - 1], pa.int64()),
    "tinyint": pa.array([-128, 0, 127], pa.int8()),
    "double": pa.array([None, -math.inf, -1.5, 0.0, 2.0, math.inf, math.nan]),
    "decimal": pa.array([None, Decimal("-2.50"), Decimal("0.00"), Decimal("9.99")], pa.decimal128(38, 2)),
    "string": pa.array([None, "", "a", "ab", "b"]),
    "binary": pa.array([None, b"", b"\x00", b"\xff"]),
    "boolean": pa.array([None, False, True]),
    "date": pa.array([None, date(1900, 1, 1), date(2024, 1, 1)]),
    "timestamp": pa.array([datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("kind", IN_ORDER)
def test_ordinals_are_in_the_order_of_the_values(kind):
    column = IN_ORDER[kind]
    numbers = ordinals(column)
    assert (np.diff(numbers) > 0).all()
    assert (np.diff(~numbers) < 0).all()
    assert (ordinals(pa.concat_arrays([column, column])).reshape(2, -1) == ordinals(column)).all()


def test_zeros_are_one_value_and_so_are_all_nan():
    assert len(set(ordinals(pa.array([0.0, -0.0])).tolist())) == 1
    assert len(set(ordinals(pa.array([math.nan, -math.nan])).tolist())) == 1


ROWS = pa.struct(
    {"a": pa.list_(pa.float64()), "b": pa.map_(pa.string(), pa.struct({"c": pa.int64()})), "d": pa.string()}
)
NUMBERS = st.none() | st.sampled_from([1.0, math.nan])
MAPS = st.dictionaries(st.sampled_from("xy"), st.none() | st.fixed_dictionaries({"c": st.none() | st.just(1)}))
VALUES = st.none() | st.fixed_dictionaries(
    {"a": st.none() | st.lists(NUMBERS, max_size=2), "b": st.none() | MAPS, "d": st.none() | st.sampled_from(["", "s"])}
)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=8), st.integers(0, 3))
def test_rows_are_the_same_as_their_spelling_is(pairs, start):
    pairs = [*pairs, *((one, one) for one, _ in pairs)]
    one, other = (pa.array([_entries(pair[side]) for pair in pairs], ROWS).slice(start) for side in (0, 1))
    assert same(one, other).tolist() == [
        repr(a) == repr(b) for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)
    ]


@given(st.lists(VALUES, max_size=8), st.integers(0, 3))
def test_rows_have_the_number_of_what_is_the_same(values, start):
    column = pa.array([_entries(value) for value in [*values, *values]], ROWS).slice(start)
    beside = pa.array([n % 2 for n in range(len(column))])
    numbers = row_numbers([column, beside]).tolist()
    spelled = list(map(repr, zip(column.to_pylist(), beside.to_pylist(), strict=True)))
    assert [numbers.index(number) for number in numbers] == [spelled.index(one) for one in spelled]


def test_both_zeros_have_one_number_and_so_has_every_nan():
    assert row_numbers([pa.array([[0.0], [math.nan], [-0.0], [-math.nan], [], None])]).tolist() == [0, 1, 0, 1, 2, 3]


def _entries(row):
    return None if row is None else row | {"b": None if row["b"] is None else list(row["b"].items())}
