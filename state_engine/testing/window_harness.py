"""Tests windows in a harness, declared as in a job."""

from collections.abc import Iterable, Sequence
from typing import Any

from state_engine.api.output_tag import columns_type
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.api.windows import WindowAssigner
from state_engine.iterating import whole
from state_engine.runtime.windows.all import ALL, AllWindowedStream
from state_engine.runtime.windows.stream import WindowedStream
from state_engine.serialization.rows import as_tuple
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness


def windowed_harness(
    assigner: WindowAssigner[Any, Any], key: str | Sequence[str], input_type: Any, **options: Any
) -> WindowedStream[KeyedOneInputStreamOperatorTestHarness]:
    """Returns a windowed stream; its methods `reduce`, `aggregate`, `apply` and `process` return a harness.

    Args:
        assigner: What a job passes to `window(...)`, or without key columns to `window_all(...)`.
        key: Names of the key columns; empty for windows of all records.
        input_type: Columns of the records.
        options: Other arguments of `KeyedOneInputStreamOperatorTestHarness`: parallelism, side_outputs, …

    Example:
        ```python
        harness = windowed_harness(TumblingEventTimeWindows.of(Time.seconds(10)), "k", "k string, n bigint").reduce(add)
        ```
    """

    def made(adapter: Any, output_type: Any, uid: str | None) -> KeyedOneInputStreamOperatorTestHarness:
        named = options if uid is None else {**options, "uid": uid}
        if not key:
            return _HarnessOfAll(adapter, columns, output_type, **named)
        return KeyedOneInputStreamOperatorTestHarness(adapter, key, input_type, output_type, **named)

    columns = columns_type(input_type, "the input")
    names = (key,) if isinstance(key, str) else tuple(key)
    return (WindowedStream if key else AllWindowedStream)(columns, assigner, made, key=names)


class _HarnessOfAll(KeyedOneInputStreamOperatorTestHarness):
    """Appends the same key to each record, as `window_all` does."""

    def __init__(self, adapter: Any, columns: StructType, output_type: Any, **options: Any) -> None:
        keyed = StructType((*columns.names, ALL), (*columns.types, Types.BOOLEAN()))
        super().__init__(adapter, ALL, keyed, output_type, **options)
        self._columns = columns

    def process_elements(self, records: Iterable[Any], timestamps: Sequence[int | None] | None = None) -> None:
        super().process_elements([(*as_tuple(record, self._columns), None) for record in whole(records)], timestamps)


__all__ = ["windowed_harness"]
