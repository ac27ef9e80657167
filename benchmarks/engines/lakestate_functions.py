"""Lakestate's row functions. Python workers import this module, so it imports only what they need."""

from collections.abc import Iterable
from hashlib import shake_128
from typing import Any

from benchmarks.workloads.workload import wrapped
from state_engine.api import (
    AggregateFunction,
    CheckpointedFunction,
    Duration,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.windows import TimeWindow, WindowFunction

WIDTH = 512
ITEMS, EVERY = 10, 8
NOTED = "noted"
"""Name of the operator state with the sums of a `Noting` function."""


def wide_text(key: int) -> bytes:
    """Returns `WIDTH` bytes for a key; they differ for each key and cannot be compressed."""
    return shake_128(key.to_bytes(8, "big")).digest(WIDTH)


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key and emits the count with each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return [(value.k, n)]


def hour() -> StateTtlConfig:
    """Returns a time to live of an hour from the last write."""
    settings = StateTtlConfig.new_builder(Duration.of_hours(1))
    return settings.update_ttl_on_create_and_write().never_return_expired().build()


def count_with_ttl() -> ValueStateDescriptor:
    """Returns a count with a time to live of an hour."""
    descriptor = ValueStateDescriptor("count", Types.LONG())
    descriptor.enable_time_to_live(hour())
    return descriptor


class CountWithTtl(RunningCount):
    """As `RunningCount`, in a value with a time to live of an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(count_with_ttl())


class Notes(CheckpointedFunction):
    """Notes sums of emitted rows, as the peers do: one row of operator state for each subtask and epoch."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        row = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.noted = context.get_operator_state_store().get_list_state(ListStateDescriptor(NOTED, row))
        self.rows = self.sum = self.weighted = 0

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.noted.add((self.rows, wrapped(self.sum), wrapped(self.weighted)))
        self.rows = self.sum = self.weighted = 0

    def note(self, key: int, number: int) -> None:
        """Adds an emitted row with this number."""
        self.rows += 1
        self.sum += number
        self.weighted += number * number * key


class Noting(Notes, KeyedProcessFunction):
    """Base of functions that process record by record, and note sums of their emitted rows."""


class MapAndList(Noting):
    """Counts a key's items in a map, keeps its values in a list; every eighth of an item emits the list's sum."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.INT(), Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        item = value.item
        n = (self.counts.get(item) or 0) + 1
        self.counts.put(item, n)
        self.values.add(value.v)
        if n % EVERY:
            return []
        total = sum(self.values.get())
        self.values.clear()
        self.note(value.k, (total + n) * ITEMS + item)
        return [(value.k, item, n, total)]


def open_session() -> ValueStateDescriptor:
    """Returns the count of a session, and the time of its last record."""
    return ValueStateDescriptor("session", Types.TUPLE([Types.LONG(), Types.LONG()]))


class Sessions(Noting):
    """Counts the records of a key until none arrives for the gap, in event time."""

    def __init__(self, gap_ms: int) -> None:
        self.gap = gap_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self.session = runtime_context.get_state(open_session())

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]] | None:
        t, timers = value.t, ctx.timer_service()
        held, count, closed = self.session.value(), 0, None
        if held is not None:
            count, last = held
            timers.delete_event_time_timer(last + self.gap)
            if last + self.gap < t:
                closed = [self.close_session(value.k, count)]
                count = 0
        self.session.update((count + 1, t))
        timers.register_event_time_timer(t + self.gap)
        return closed

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[tuple[Any, ...]] | None:
        held = self.session.value()
        if held is None or held[1] + self.gap != timestamp:
            return None
        self.session.clear()
        return [self.close_session(ctx.get_current_key(), held[0])]

    def close_session(self, key: int, count: int) -> tuple[int, int]:
        """Returns the row of a session."""
        self.note(key, count)
        return key, count


class CountAndSum(AggregateFunction):
    """Counts the records of a window and adds up their values."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value.v

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class RowOfWindow(WindowFunction[tuple[int, int], tuple[Any, ...], int, TimeWindow]):
    """Adds key and start of a window to its count and sum."""

    def apply(self, key: int, window: TimeWindow, inputs: Iterable[tuple[int, int]]) -> list[tuple[Any, ...]]:
        return [(key, window.start, n, total) for n, total in inputs]


class ThreeNumbers(KeyedProcessFunction):
    """Keeps three numbers of a key: the number of its values, their sum and the largest."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest = self.numbers.value() or (0, 0, value.v)
        self.numbers.update((n + 1, total + value.v, max(largest, value.v)))
        return []


class WideNumbers(KeyedProcessFunction):
    """Keeps the three numbers of a key and a text that is much larger."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest, text = self.numbers.value() or (0, 0, value.v, wide_text(value.k))
        self.numbers.update((n + 1, total + value.v, max(largest, value.v), text))
        return []


class KeepBytes(KeyedProcessFunction):
    """Keeps the last value of a key, a byte string."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        self.kept.update(value.v)
        return []
