"""Lakestate's functions. Python workers import this module, so it imports nothing that they could do without."""

from hashlib import shake_128
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

WIDTH = 512


def wide_text(key: int) -> bytes:
    """Returns the `WIDTH` bytes that belong to a key, of which no two are alike and none can be compressed."""
    return shake_128(key.to_bytes(8, "big")).digest(WIDTH)


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key and emits the count with each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return [(value.k, n)]


class RunningCountOfBatches(KeyedBatchProcessFunction):
    """As `RunningCount`, for all records of an epoch at once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: KeyedBatchProcessFunction.Context) -> Any:
        each = keys.distinct
        found: Any = self.count.get_many(each)
        before = np.asarray(pc.fill_null(found, 0))
        self.count.put_many(each, before + keys.counts())
        n = pa.array(before[keys.codes] + keys.running_counts())
        return pa.RecordBatch.from_arrays([batch.column("k"), n], names=["k", "n"])


class ThreeNumbers(KeyedProcessFunction):
    """Keeps three numbers of a key: how many values it had, their sum and the largest."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest = self.numbers.value() or (0, 0, value.v)
        self.numbers.update((n + 1, total + value.v, max(largest, value.v)))
        return []


class WideNumbers(KeyedProcessFunction):
    """Keeps the three numbers of a key beside a text that is far larger than they are."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest, text = self.numbers.value() or (0, 0, value.v, wide_text(value.k))
        self.numbers.update((n + 1, total + value.v, max(largest, value.v), text))
        return []


class KeepBytes(KeyedProcessFunction):
    """Keeps the last value of a key, some bytes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        self.kept.update(value.v)
        return []
