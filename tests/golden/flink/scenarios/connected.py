"""Two connected streams: shared state, watermarks of both inputs, timers, and the simple functions."""

from collections.abc import Iterator
from typing import Any

from scenario import EndOfInput, Operation, ProcessingTime, Scenario, Watermark, element
from scenario_api import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    Row,
    Types,
    ValueStateDescriptor,
)

NEEDS = ("connected streams",)
RIGHT = "k string, text string"
SIDE = OutputTag("side", Types.ROW_NAMED(["k", "t"], [Types.STRING(), Types.LONG()]))


class Both(KeyedCoProcessFunction):
    """Shows what each input sees; both share a state, and set a timer at the sum of the values."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def see(self, what: str, ctx: Any) -> Any:
        self.seen.update((self.seen.value() or "") + what)
        watermark = ctx.timer_service().current_watermark()
        return Row(ctx.get_current_key(), f"{what} at {ctx.timestamp()}, watermark {watermark}: {self.seen.value()}")

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.v:
            ctx.timer_service().register_event_time_timer(value.v)
        yield self.see("L", ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.text.startswith("now+"):
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + int(value.text[4:]))
        yield self.see(f"R({value.text})", ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield SIDE, Row(ctx.get_current_key(), timestamp)
        yield self.see(f"T({timestamp} {ctx.time_domain().name})", ctx)


class Plain(CoProcessFunction):
    """Two inputs without key."""

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SIDE, Row(value.k, value.v)
        yield Row(value.k, f"left {value.v} at {ctx.timestamp()}")

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield Row(value.k, f"right {value.text} at {ctx.timestamp()}")


class Maps(CoMapFunction):
    """Counts over both inputs of a key; emits nothing for zero."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def number(self) -> int:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return number

    def map1(self, value: Any) -> Any:
        number = self.number()
        return Row(value.k, f"{number}. left {value.v}") if value.v else None

    def map2(self, value: Any) -> Any:
        return Row(value.k, f"{self.number()}. right {value.text}")


class PlainMaps(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return Row(value.k, f"left {value.v}")

    def map2(self, value: Any) -> Any:
        return Row(value.k, f"right {value.text}")


class FlatMaps(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        for number in range(value.v):
            yield Row(value.k, f"left {number}")

    def flat_map2(self, value: Any) -> Iterator[Any]:
        for letter in value.text:
            yield Row(value.k, f"right {letter}")


def left(key: str, v: int = 0, at: int | None = None) -> Any:
    return element(key, v, at=at)


def right(key: str, text: str, at: int | None = None) -> Any:
    return element(key, text, at=at, input=2)


def both(name: str, about: str, *steps: Any, needs: tuple[str, ...] = NEEDS) -> Scenario:
    return Scenario(name, about, Operation("co_process", Both), steps, input2=RIGHT, side_outputs=(SIDE,), needs=needs)


MIXED = [left("a", 2), right("a", "xy"), left("b", 0), right("b", ""), left("a", 0), right("c", "z"), left("c", 1)]
SCENARIOS = [
    both("state_is_shared", "Both inputs of a key have the same state; keys do not see each other.",
         left("a", at=1), right("a", "x", at=2), right("b", "y", at=3), left("b", at=4), left("a", at=5)),
    both("the_watermark_is_the_lesser", "The operator's watermark is the lesser of its inputs'.",
         left("a", at=1), Watermark(10), right("a", "x", at=2), Watermark(5, 2), left("a", at=20), Watermark(30, 2),
         right("a", "y", at=25), Watermark(20), left("a", at=40)),
    both("a_timer_waits_for_both", "A timer fires when both inputs' watermarks have reached it.",
         left("a", 10, at=1), Watermark(50), right("a", "x", at=3), Watermark(9, 2), Watermark(10, 2),
         right("a", "y", at=60)),
    both("processing_timers", "A processing-time timer of the second input fires by the clock alone.",
         right("a", "now+10", at=1), ProcessingTime(9), ProcessingTime(10), left("a", at=2)),
    both("end_of_one_input", "The end of both inputs fires all event-time timers.",
         left("a", 1000, at=1), Watermark(10), Watermark(20, 2), EndOfInput()),
    Scenario("process_without_key", "A CoProcessFunction on streams without key, with a side output.",
             Operation("co_process", Plain), [left("a", 1, at=5), right("b", "x", at=3), left("b", 2, at=1)],
             input2=RIGHT, key=None, side_outputs=(SIDE,), needs=NEEDS),
    Scenario("map_with_state", "CoMap on keyed streams may keep state; None gives no row.",
             Operation("co_map", Maps), MIXED, input2=RIGHT, needs=NEEDS),
    Scenario("map_without_key", "CoMap on streams without key.", Operation("co_map", PlainMaps), MIXED, input2=RIGHT,
             key=None, needs=NEEDS),
    Scenario("flat_map_keyed", "CoFlatMap gives any number of rows for a record of either input.",
             Operation("co_flat_map", FlatMaps), MIXED, input2=RIGHT, needs=NEEDS),
    Scenario("flat_map_without_key", "CoFlatMap on streams without key.", Operation("co_flat_map", FlatMaps), MIXED,
             input2=RIGHT, key=None, needs=NEEDS),
]  # fmt: skip
