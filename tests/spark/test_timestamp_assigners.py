"""The event times that a `TimestampAssigner` returns for a batch of records."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import TimestampAssigner, Types
from state_engine.api.types import columns_of_type
from state_engine.errors import EventTimeError
from state_engine.spark.graph.timing import AssignerRunner


class Field(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return {"whole": 5, "even": 5.0, "none": None}.get(value.v, value.v)


def times_of(*values: str) -> list[int | None]:
    columns = columns_of_type(Types.ROW_NAMED(["v"], [Types.STRING()]))
    batch = pa.RecordBatch.from_pydict({"v": list(values)})
    [timed] = AssignerRunner(Field(), columns, "in")([batch])
    return timed.column(1).to_pylist()  # type: ignore[no-any-return]


def test_whole_numbers_of_any_kind() -> None:
    assert times_of("whole", "even", "none") == [5, 5, None]


def test_something_else_is_named() -> None:
    with pytest.raises(EventTimeError, match="gave '2024-01-01', a str"):
        times_of("whole", "2024-01-01")
