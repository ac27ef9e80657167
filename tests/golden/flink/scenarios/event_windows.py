"""Event-time windows: tumbling and sliding, how they are evaluated, lateness, late data, per-window state."""

from collections.abc import Iterable
from typing import Any

from scenario import EndOfInput, Operation, Scenario, Watermark, element
from scenario_api import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    Row,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WindowFunction,
)

PAIR = "k string, v bigint"
NEEDS = ("windows",)
LATE = OutputTag("late", Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()]))


class Contents(ProcessWindowFunction):
    """Shows the window, its elements, and the values of the context."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        values = [row[1] for row in elements]
        yield Row(key, f"[{window.start}, {window.end}) {values}, watermark {context.current_watermark()}")


class Firings(ProcessWindowFunction):
    """Counts firings, per window and over all windows of the key; clear() empties the window's state."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        states = (context.window_state(), context.global_state())
        counts = []
        for name, store in zip(("here", "everywhere"), states, strict=True):
            state = store.get_state(ValueStateDescriptor(name, Types.LONG()))
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield Row(key, f"[{context.window().start}) {[row[1] for row in elements]}, firings {counts}")

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).clear()


class Applied(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [Row(key, f"[{window.start}, {window.end}) {[row[1] for row in inputs]}")]


class Added(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return Row(value1[0], value1[1] * 10 + value2[1])


class Mean(AggregateFunction):
    """Returns a row, as the output of the stream is one."""

    def create_accumulator(self) -> Any:
        return ("", 0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + value[1], accumulator[2] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return Row(accumulator[0], f"{accumulator[1]}/{accumulator[2]}")

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2])


ACCUMULATOR = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def tumbling() -> Any:
    return TumblingEventTimeWindows.of(Time.milliseconds(10))


def windowed(name: str, about: str, assigner: Any, steps: Any, *, output: str = "k string, saw string",
             mode: str = "process", **options: Any) -> Scenario:  # fmt: skip
    options = {"how": "process", "function": Contents} | options
    tags = (options["late"],) if "late" in options else ()
    operation = Operation("window", assigner, options)
    return Scenario(name, about, operation, steps, output=output, side_outputs=tags, needs=NEEDS, mode=mode)


def at(*times: int, key: str = "a") -> list[Any]:
    """Makes elements with their times as values."""
    return [element(key, time, at=time) for time in times]


PLAIN = [*at(1, 9, 10), *at(3, key="b"), Watermark(8), *at(4), Watermark(9), Watermark(18), Watermark(19), EndOfInput()]
SCENARIOS = [
    windowed("tumbling", "A window fires when the watermark reaches its end - 1, with its elements in order.",
             tumbling, PLAIN),
    windowed("tumbling_with_offset", "An offset moves all windows; a negative one, too.",
             lambda: TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)),
             [*at(2, 3, 12, 13, -1), Watermark(2), Watermark(12), EndOfInput()]),
    windowed("tumbling_of_negative_times", "Windows before 1970 begin at multiples of the size.",
             tumbling, [*at(-1, -10, -11, 0), Watermark(-1), EndOfInput()]),
    windowed("sliding", "An element is in size/slide windows; each fires at its own end.",
             lambda: SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
             [*at(1, 7, 12), Watermark(4), Watermark(9), Watermark(14), EndOfInput()]),
    windowed("sliding_with_offset", "A slide that does not divide the size, with an offset.",
             lambda: SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4), Time.milliseconds(1)),
             [*at(1, 6, 11), Watermark(10), EndOfInput()]),
    windowed("hopping_with_gaps", "With a slide beyond the size some elements are in no window.",
             lambda: SlidingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(10)),
             [*at(1, 6, 12, 17), Watermark(5), EndOfInput()]),
    windowed("apply", "A WindowFunction gets key, window and elements.", tumbling, PLAIN, how="apply",
             function=Applied),
    windowed("reduce", "Elements are reduced as they come; the window gives the reduced row.", tumbling, PLAIN,
             how="reduce", fold=Added, function=lambda: None, output=PAIR),
    windowed("reduce_with_process", "The process function gets the reduced row as the only element.", tumbling, PLAIN,
             how="reduce", fold=Added),
    windowed("reduce_with_window_function", "The window function gets the reduced row as the only element.", tumbling,
             PLAIN, how="reduce", fold=Added, function=Applied),
    windowed("aggregate", "Elements are aggregated as they come; the window gives the result.", tumbling, PLAIN,
             how="aggregate", fold=Mean, function=lambda: None, accumulator=lambda: ACCUMULATOR),
    windowed("aggregate_with_process", "The process function gets the result as the only element.", tumbling, PLAIN,
             how="aggregate", fold=Mean, accumulator=lambda: ACCUMULATOR),
    windowed("late_elements_are_dropped", "An element whose windows have passed is dropped; others are not late.",
             tumbling, [*at(1), Watermark(9), *at(2, 11, 9), Watermark(19), *at(19, 20), EndOfInput()]),
    windowed("late_elements_go_aside", "With a tag for late data they go to it.", tumbling,
             [*at(1), Watermark(9), *at(2, 11, 9), Watermark(19), *at(19, 20), EndOfInput()], late=LATE),
    windowed("lateness_fires_again", "Within the allowed lateness each late element fires its window again at once.",
             tumbling, [*at(1, 2), Watermark(9), *at(3), Watermark(13), *at(4), Watermark(14), *at(5), EndOfInput()],
             allowed_lateness=lambda: 5, late=LATE),
    windowed("lateness_of_an_empty_window", "A late element within the lateness makes a window that had none.",
             tumbling, [*at(25), Watermark(12), *at(3), Watermark(14), *at(4), EndOfInput()],
             allowed_lateness=lambda: 5, late=LATE),
    windowed("late_in_some_sliding_windows", "An element that is late for one of its windows is in the others only.",
             lambda: SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
             [*at(1), Watermark(10), *at(7, 3, -2), EndOfInput()], late=LATE),
    windowed("lateness_of_sliding_windows", "Within the lateness an element fires each of its windows that has fired.",
             lambda: SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
             [*at(1, 7), Watermark(10), *at(6), Watermark(14), *at(8), Watermark(16), *at(4), EndOfInput()], late=LATE,
             allowed_lateness=lambda: 5),
    windowed("lateness_of_reduced_windows", "A late firing gives the reduced value with the late element in it.",
             tumbling, [*at(1, 2), Watermark(9), *at(3), Watermark(13), *at(4), EndOfInput()], how="reduce", fold=Added,
             allowed_lateness=lambda: 5),
    windowed("large_jump_of_the_watermark", "One watermark fires a key's windows in the order of their ends.", tumbling,
             [*at(35, 1, 12, 22), *at(5, key="b"), Watermark(100)]),
    windowed("state_of_window_and_key", "window_state is the window's, global_state the key's; clear() at the end.",
             tumbling, [*at(1), Watermark(9), *at(2), *at(3, key="b"), Watermark(15), *at(11), Watermark(19),
                        EndOfInput()], function=Firings, allowed_lateness=lambda: 5),
]  # fmt: skip
