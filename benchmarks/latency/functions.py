"""The functions of `latency`: the number of a key's records so far, with each record. Workers import this module."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from state_engine.api import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor


class Count(KeyedProcessFunction):
    """In Lakestate."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return [(value.k, n, value.file)]


class CountProcessor(StatefulProcessor):
    """For `transformWithState`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint", None)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        held = self.count.get()
        n = held[0] if held is not None else 0
        for row in rows:
            n += 1
            yield Row(k=key[0], n=n, file=row.file)
        self.count.update((n,))

    def close(self) -> None: ...
