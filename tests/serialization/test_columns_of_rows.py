"""Rows become columns, narrow and wide: each value gets into its column; errors name the row and field."""

import pytest

from state_engine.api.type_hints import parse_columns_ddl
from state_engine.serialization.convert import ValueTypeError, writer
from state_engine.serialization.rows import columns_of_rows, write_columns

WIDTHS = range(1, 10)


def struct_of(width):
    return parse_columns_ddl(", ".join(f"c{i} {'string' if i % 3 == 2 else 'bigint'}" for i in range(width)))


def rows_of(width, count=50):
    return [tuple(f"{n}.{i}" if i % 3 == 2 else 100 * n + i for i in range(width)) for n in range(count)]


def written(rows, struct):
    return write_columns(rows, struct, [writer(t) for t in struct.types])


@pytest.mark.parametrize("width", WIDTHS)
def test_each_value_lands_in_its_column(width):
    rows = rows_of(width)
    arrays = written(rows, struct_of(width))
    assert [array.to_pylist() for array in arrays] == [[row[i] for row in rows] for i in range(width)]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_rows_are_as_many_empty_columns(width):
    assert columns_of_rows([], struct_of(width)) == [[] for _ in range(width)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("by", [-1, 1])
def test_a_row_of_another_width_is_named(width, by):
    rows = rows_of(width)
    rows[7] = rows_of(width + by)[7]
    rows[8] = rows_of(width - by)[8]  # together they have the number of values of two correct rows
    with pytest.raises(ValueTypeError, match=f"{width + by} fields for {width}") as raised:
        written(rows, struct_of(width))
    assert raised.value.index == 7


@pytest.mark.parametrize("width", WIDTHS)
def test_a_value_of_another_type_is_named_by_row_and_field(width):
    rows = rows_of(width)
    rows[31] = (*rows[31][:-1], 1.5)
    with pytest.raises(ValueTypeError) as raised:
        written(rows, struct_of(width))
    assert (raised.value.index, raised.value.path) == (31, f"c{width - 1}")


@pytest.mark.parametrize("width", WIDTHS)
def test_lists_count_by_position_as_tuples_do(width):
    rows = [list(row) if n % 2 else row for n, row in enumerate(rows_of(width))]
    assert [list(column) for column in columns_of_rows(rows, struct_of(width))] == [
        [row[i] for row in rows] for i in range(width)
    ]
