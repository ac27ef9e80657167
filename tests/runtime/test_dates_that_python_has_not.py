"""A record with a date that Python does not support fails the operator with operator, field, value and advice."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import KeyedProcessFunction, ProcessFunction
from state_engine.runtime.failures import OperatorFailure


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [(value.at,)]


class Unkeyed(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [(value.at,)]


@pytest.mark.parametrize(("function", "key"), [(Keyed(), ["at"]), (Keyed(), ["k"]), (Unkeyed(), [])])
@pytest.mark.parametrize(("ddl", "tick"), [("date", 4_000_000), ("timestamp", 1 << 58), ("timestamp_ntz", -(1 << 58))])
def test_the_operator_fails_by_name(run: Any, function: Any, key: list[str], ddl: str, tick: int) -> None:
    running = run(function, f"at {ddl}", input=f"k string, at {ddl}", key=key)
    kind = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}[ddl]
    at: Any = pa.array([tick], pa.int32() if ddl == "date" else pa.int64()).cast(kind)
    with pytest.raises(OperatorFailure) as failed:
        running.operator.process(pa.record_batch([pa.array(["a"]), at], names=["k", "at"]))
    failure = failed.value.failure
    assert failure.uid == "op"
    assert "Field 'at'" in failure.message
    assert "outside the years 1 to 9999" in failure.message
    assert "least(at" in failure.action
