"""Processing-time, count and global windows, and triggers."""

from collections.abc import Iterable
from typing import Any

from scenario import EndOfInput, Operation, ProcessingTime, Scenario, Watermark, element
from scenario_api import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    Row,
    SlidingProcessingTimeWindows,
    Time,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
)

NEEDS = ("windows",)


class Values(ProcessWindowFunction):
    """Shows elements, and begin and end of a window that has them."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        bounds = f"[{window.start}, {window.end}) " if hasattr(window, "start") else ""
        yield Row(key, f"{bounds}{[row[1] for row in elements]}")


class EverySecond(Trigger):
    """Fires at each second element of a window, purges at a value of 99, and shows its other calls as firings."""

    COUNT = ValueStateDescriptor("count", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        state = ctx.get_partitioned_state(self.COUNT)
        state.update((state.value() or 0) + 1)
        ctx.register_event_time_timer(window.max_timestamp())
        if element[1] == 99:
            return TriggerResult.PURGE
        return TriggerResult.FIRE if state.value() % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise AssertionError("windows of this kind never merge")

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.COUNT).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


class MergingCount(Trigger):
    """Fires when a session has three elements, counted over merges, and then not at its end."""

    COUNT = ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        state = ctx.get_partitioned_state(self.COUNT)
        state.add(1)
        return TriggerResult.FIRE if state.get() == 3 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.COUNT)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.COUNT).clear()


def other(
    name: str, about: str, assigner: Any, steps: Any, *, verb: str = "window", mode: str = "process", **options: Any
) -> Scenario:
    operation = Operation(verb, assigner, {"how": "process", "function": Values} | options)
    return Scenario(name, about, operation, steps, needs=NEEDS, mode=mode)


def at(*times: int, key: str = "a") -> list[Any]:
    return [element(key, time, at=time) for time in times]


def values(*numbers: int, key: str = "a") -> list[Any]:
    return [element(key, number) for number in numbers]


def tumbling() -> Any:
    return TumblingEventTimeWindows.of(Time.milliseconds(10))


SEVEN = [*values(1, 2), *values(10, key="b"), *values(3, 4, 5, 6, 7), *values(11, key="b")]
SCENARIOS = [
    other("tumbling_processing_time", "Windows by the clock fire when it reaches their end - 1.",
          lambda: TumblingProcessingTimeWindows.of(Time.milliseconds(10)),
          [ProcessingTime(3), *values(1), ProcessingTime(8), *values(2), *values(3, key="b"), ProcessingTime(9),
           ProcessingTime(12), *values(4), ProcessingTime(40)]),
    other("sliding_processing_time", "Sliding windows by the clock.",
          lambda: SlidingProcessingTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
          [ProcessingTime(3), *values(1), ProcessingTime(6), *values(2), ProcessingTime(9), ProcessingTime(14)]),
    other("tumbling_processing_time_with_offset", "An offset moves windows by the clock, too.",
          lambda: TumblingProcessingTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4)),
          [ProcessingTime(3), *values(1), ProcessingTime(4), *values(2), ProcessingTime(13), ProcessingTime(14)]),
    other("processing_windows_at_the_end", "At the end of input windows by the clock that are open are dropped.",
          lambda: TumblingProcessingTimeWindows.of(Time.milliseconds(10)),
          [ProcessingTime(3), *values(1, 2), EndOfInput()]),
    other("count_tumbling", "A count window fires with each third element of a key.", lambda: (3,), SEVEN,
          verb="count_window"),
    other("count_sliding", "A sliding count window: size 3, slide 2.", lambda: (3, 2), SEVEN, verb="count_window"),
    other("count_at_the_end", "At the end of input incomplete count windows are dropped.", lambda: (3,),
          [*values(1, 2), EndOfInput()], verb="count_window"),
    other("count_reduce", "A count window of reduced rows.", lambda: (2,), SEVEN, verb="count_window", how="reduce",
          fold=lambda: lambda a, b: Row(a[0], a[1] * 10 + b[1]), function=Values),
    other("count_sliding_slide_beyond_size", "Size 2, slide 3: one of three is left out.", lambda: (2, 3), SEVEN,
          verb="count_window"),
    other("purging_event_time", "PurgingTrigger around EventTimeTrigger: a late element fires alone.", tumbling,
          [*at(1, 2), Watermark(9), *at(3), Watermark(30)], allowed_lateness=lambda: 10,
          trigger=lambda: PurgingTrigger.of(EventTimeTrigger.create())),
    other("global_never_fires", "A global window does not fire by itself.", GlobalWindows.create,
          [*at(1, 2), Watermark(100), EndOfInput()]),
    other("global_with_count_trigger", "CountTrigger fires with each second element, and keeps the elements.",
          GlobalWindows.create, SEVEN, trigger=lambda: CountTrigger.of(2)),
    other("global_with_purging_count_trigger", "PurgingTrigger drops the elements with each firing.",
          GlobalWindows.create, SEVEN, trigger=lambda: PurgingTrigger.of(CountTrigger.of(2))),
    other("tumbling_with_count_trigger", "A CountTrigger replaces the default: the window's end fires nothing.",
          tumbling, [*at(1, 2, 3, 11, 4), Watermark(9), Watermark(30)], trigger=lambda: CountTrigger.of(2)),
    other("continuous_event_time", "ContinuousEventTimeTrigger fires at each interval, and at the end.",
          tumbling, [*at(1, 2), Watermark(3), Watermark(4), *at(6), Watermark(7), Watermark(8), Watermark(9), *at(15),
                     EndOfInput()], trigger=lambda: ContinuousEventTimeTrigger.of(Time.milliseconds(4))),
    other("continuous_processing_time", "ContinuousProcessingTimeTrigger fires at each interval of the clock.",
          GlobalWindows.create, [ProcessingTime(1), *values(1), ProcessingTime(9), ProcessingTime(10), *values(2),
                                 ProcessingTime(20), ProcessingTime(30)],
          trigger=lambda: ContinuousProcessingTimeTrigger.of(Time.milliseconds(10))),
    other("custom_trigger", "A trigger's state is the window's; PURGE keeps the window, clear() empties the state.",
          tumbling, [*at(1, 2, 3), element("a", 99, at=4), *at(5, 11), *at(6, key="b"), Watermark(9), *at(12),
                     Watermark(19)], trigger=EverySecond),
    other("custom_trigger_that_merges", "on_merge adds the counts of merged sessions.",
          lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
          [*at(1), *at(15), *at(8), *at(9), Watermark(50), *at(60, 61), *at(62), EndOfInput()], trigger=MergingCount,
          mode="thread"),
]  # fmt: skip
