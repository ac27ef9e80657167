"""Lakestate's functions. Python workers import this module, so it imports nothing that they could do without."""

from typing import Any

from state_engine.api import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key and emits the count with each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        return [(value.k, n)]


class ThreeNumbers(KeyedProcessFunction):
    """Keeps three numbers of a key: how many values it had, their sum and the largest."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[tuple[Any, ...]]:
        n, total, largest = self.numbers.value() or (0, 0, value.v)
        self.numbers.update((n + 1, total + value.v, max(largest, value.v)))
        return []
