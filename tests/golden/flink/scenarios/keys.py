"""Keys of several types, also unusual ones: state, timers and the current key belong to them."""

from collections.abc import Iterator
from typing import Any

from scenario import Operation, Scenario, Watermark, element
from scenario_api import KeyedProcessFunction, Row, Types, ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Counts the records of a key, and sets a timer that emits the count."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)
        yield Row(value.k, f"{ctx.get_current_key()!r} {self.count.value()}")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield Row(ctx.get_current_key(), f"timer of {ctx.get_current_key()!r} {self.count.value()}")


def keyed(name: str, about: str, kind: str, *keys: Any) -> Scenario:
    steps = [*(element(key, 1, at=number) for number, key in enumerate(keys)), Watermark(100)]
    columns = {"input": f"k {kind}, v bigint", "output": f"k {kind}, saw string"}
    return Scenario(name, about, Operation("process", Count), steps, needs=("event time",), **columns)


SCENARIOS = [
    keyed("texts", "The empty text, case, blanks and other scripts make keys.", "string",
          "a", "", "A", " a", "ä", "日本", "", "a", "日本"),
    keyed("numbers", "Keys of 64 bits, with signs.", "bigint",
          1, -1, 0, 9223372036854775807, -9223372036854775808, 4294967297, 1, 0, -1),
    keyed("small_numbers", "Keys of 32 bits.", "int", 1, -1, 2147483647, -2147483648, 1, -1),
    keyed("booleans", "Two keys.", "boolean", True, False, True),
]  # fmt: skip
