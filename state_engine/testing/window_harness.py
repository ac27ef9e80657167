"""Windows in a harness, said as they are said in a job."""

from collections.abc import Sequence
from typing import Any

from state_engine.api.output_tag import columns_type
from state_engine.api.windows import WindowAssigner
from state_engine.runtime.windows.stream import WindowedStream
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness


def windowed_harness(
    assigner: WindowAssigner[Any, Any], key: str | Sequence[str], input_type: Any, **options: Any
) -> WindowedStream[KeyedOneInputStreamOperatorTestHarness]:
    """Returns a stream with windows whose `reduce`, `aggregate`, `apply` and `process` give a harness.

    Args:
        assigner: What a job gives to `window(...)`.
        key: Names of the key columns.
        input_type: Columns of the records.
        options: Of `KeyedOneInputStreamOperatorTestHarness`: parallelism, side_outputs, …

    Example:
        ```python
        harness = windowed_harness(TumblingEventTimeWindows.of(Time.seconds(10)), "k", "k string, n bigint").reduce(add)
        ```
    """

    def made(adapter: Any, output_type: Any, uid: str | None) -> KeyedOneInputStreamOperatorTestHarness:
        named = options if uid is None else {**options, "uid": uid}
        return KeyedOneInputStreamOperatorTestHarness(adapter, key, input_type, output_type, **named)

    return WindowedStream(columns_type(input_type, "the input"), assigner, made)


__all__ = ["windowed_harness"]
