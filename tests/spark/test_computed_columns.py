"""Columns that a Python function computes before an operator, and event times of bare values."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import TimestampAssigner, Types
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType, columns_of_type
from state_engine.errors import UserFunctionError
from state_engine.spark.graph.computed import ComputedRunner, computing
from state_engine.spark.graph.timing import assigning

ROWS = parse_columns_ddl("word string, n bigint")
KEY = parse_columns_ddl("key bigint")


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_computed_columns_are_between_the_authors_and_ours() -> None:
    runner = ComputedRunner(lambda row: (row.n % 2,), ROWS, KEY, "in")
    [made] = runner([batch(word=["a", "b"], n=[3, 4], __ls_time=[7, 8])])
    assert made.schema.names == ["word", "n", "key", "__ls_time"]
    assert made.to_pydict() == {"word": ["a", "b"], "n": [3, 4], "key": [1, 0], "__ls_time": [7, 8]}


def test_an_empty_batch_has_the_columns_too() -> None:
    empty = pa.RecordBatch.from_pydict({"word": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    [made] = ComputedRunner(lambda row: (row.n % 2,), ROWS, KEY, "in")([empty])
    assert (made.schema.names, made.num_rows) == (["word", "n", "key"], 0)


def test_a_computed_value_of_another_type_is_named() -> None:
    with pytest.raises(UserFunctionError, match=r"'key'.*'a'"):
        list(ComputedRunner(lambda row: (row.word,), ROWS, KEY, "in")([batch(word=["a"], n=[3])]))


@pytest.mark.parametrize(
    ("columns", "record", "expected"),
    [
        (columns_of_type(Types.STRING()), "to be", ("to be", 5)),
        (columns_of_type(Types.TUPLE([Types.STRING(), Types.INT()])), ("to", 1), ("to", 1, 2)),
        (columns_of_type(Types.LIST(Types.LONG())), [4, 4], ([4, 4], 2)),
    ],
)
def test_between_operators_they_follow_the_record(columns: StructType, record: Any, expected: Any) -> None:
    class Length(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return len(value)

    assert computing(lambda value: (len(value),), columns)(record) == expected
    assert assigning(Length(), columns)(record) == expected
