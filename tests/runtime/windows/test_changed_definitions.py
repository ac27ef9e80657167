"""A release with other windows continues with the open ones, or its start is refused by name."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import Aggregate, KeyedProcessFunction, OutputTag, ProcessWindowFunction, ValueStateDescriptor
from state_engine.api.pyflink_types import Types
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from state_engine.errors import WindowsChangedError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, windowed_harness

INPUT = "k string, n bigint"
OUTPUT = "k string, window string, seen string"
LATE = OutputTag("late", INPUT)
END = (1 << 63) - 1


class Seen(ProcessWindowFunction[Any, Any, Any, Any]):
    """Has its own state if windows may have it; `clear` removes it."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        if type(window) is TimeWindow:
            yield key, f"{window.start}-{window.end}", " ".join(str(e.n) for e in elements)
        else:
            yield key, str(window), " ".join(str(e.n) for e in elements)


class Numbered(Seen):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        self.number(context).update(1)
        return super().process(key, context, elements)

    def number(self, context: Any) -> Any:
        return context.window_state().get_state(ValueStateDescriptor("number", Types.LONG()))

    def clear(self, context: Any) -> None:
        self.number(context).clear()


Told = Callable[[Any], Any]


def release(
    assigner: Any, told: Told = lambda stream: stream, function: Any = None, **options: Any
) -> KeyedOneInputStreamOperatorTestHarness:
    """Returns a release with these windows; `told` adds settings to them."""
    stream = windowed_harness(assigner, "k", INPUT, side_outputs=[LATE], **options)
    if assigner.is_event_time():
        stream.side_output_late_data(LATE)
    return told(stream).process(function or Seen(), OUTPUT)  # type: ignore[no-any-return]


def late_by(ms: int) -> Told:
    return lambda stream: stream.allowed_lateness(ms)


def goes_on(before: Any, after: Any, events: list[tuple[int, int]], watermark: int | None = None) -> Any:
    """Runs a release with records of one key (numbers and event times); returns the next release, with its state."""
    with before:
        before.process_elements([("a", n) for n, _ in events], [at for _, at in events])
        if watermark is not None:
            before.process_watermark(watermark)
        after.initialize_state(before.snapshot())
    return after


def seen(running: Any) -> list[tuple[str, str]]:
    rows = [tuple(row)[1:] for row in running.extract_output_values()]
    running.clear_output()
    return rows


def ends_with_nothing(running: Any) -> list[tuple[str, str]]:
    """Ends the input; returns the output. No state and no timer may be left."""
    running.process_watermark(END)
    rows = seen(running)
    assert {name: held for name, held in running.snapshot().states().items() if held} == {}
    assert running.num_event_time_timers() == 0
    running.close()
    return rows


# Lateness -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [Seen, Numbered])
@pytest.mark.parametrize("watermark", [5, 9, 12])
@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0), (5, 20), (20, 5)])
def test_nothing_is_left_of_windows_whose_lateness_changed(
    before: int, after: int, watermark: int, function: Any
) -> None:
    assigner = TumblingEventTimeWindows(10)
    first, second = (release(assigner, late_by(ms), function()) for ms in (before, after))
    running = goes_on(first, second, [(1, 1)], watermark)
    assert ends_with_nothing(running) == ([("0-10", "1")] if watermark < 9 else [])


@pytest.mark.parametrize("watermark", [4, 5, 9, 12])
@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0), (5, 20), (20, 5)])
def test_nothing_is_left_of_sessions_whose_lateness_changed(before: int, after: int, watermark: int) -> None:
    first, second = (release(EventTimeSessionWindows(5), late_by(ms)) for ms in (before, after))
    running = goes_on(first, second, [(1, 1)], watermark)
    assert ends_with_nothing(running) == ([("1-6", "1")] if watermark < 5 else [])


def test_a_window_takes_late_records_for_as_long_as_today_says() -> None:
    assigner = TumblingEventTimeWindows(10)
    more = goes_on(release(assigner), release(assigner, late_by(5)), [(1, 1)], 5)
    more.process_watermark(13)
    more.process_elements([("a", 2)], [2])
    assert seen(more) == [("0-10", "1"), ("0-10", "1 2")]
    assert ends_with_nothing(more) == []
    less = goes_on(release(assigner, late_by(5)), release(assigner), [(1, 1)], 12)
    less.process_elements([("a", 2)], [2])
    assert less.get_side_output(LATE) == [("a", 2)]
    assert ends_with_nothing(less) == []


def test_a_session_that_is_over_by_todays_lateness_is_joined_by_nothing() -> None:
    """The session of 1 would be kept to 55; the record at 6 is late, and its own session is not over."""
    first = release(EventTimeSessionWindows(5), late_by(50))
    running = goes_on(first, release(EventTimeSessionWindows(5)), [(1, 1)], 9)
    running.process_elements([("a", 2), ("a", 3)], [2, 6])
    assert running.get_side_output(LATE) == [("a", 2)]
    assert ends_with_nothing(running) == [("6-11", "3")]


def test_a_session_that_is_not_over_by_todays_lateness_is_joined() -> None:
    running = goes_on(
        release(EventTimeSessionWindows(5), late_by(10)), release(EventTimeSessionWindows(5), late_by(30)), [(1, 1)], 12
    )
    running.process_watermark(20)
    running.process_elements([("a", 2)], [4])
    assert seen(running) == [("1-9", "1 2")]
    assert ends_with_nothing(running) == []


# State that the next release continues with ---------------------------------------------------------------------------

CARRIED: dict[str, tuple[Any, Any, list[tuple[str, str]]]] = {
    "size": (
        release(TumblingEventTimeWindows(10)),
        release(TumblingEventTimeWindows(6)),
        [("0-6", "2"), ("0-10", "1"), ("6-12", "3")],
    ),
    "offset": (
        release(TumblingEventTimeWindows(10)),
        release(TumblingEventTimeWindows(10, 5)),
        [("-5-5", "2"), ("0-10", "1"), ("5-15", "3")],
    ),
    "slide": (
        release(SlidingEventTimeWindows(10, 10)),
        release(SlidingEventTimeWindows(10, 5)),
        [("-5-5", "2"), ("0-10", "1 2 3"), ("5-15", "3")],
    ),
    "tumbling to sliding": (
        release(TumblingEventTimeWindows(10)),
        release(SlidingEventTimeWindows(10, 5)),
        [("-5-5", "2"), ("0-10", "1 2 3"), ("5-15", "3")],
    ),
    "longer gap": (release(EventTimeSessionWindows(2)), release(EventTimeSessionWindows(5)), [("1-12", "1 2 3")]),
    "shorter gap": (
        release(EventTimeSessionWindows(5)),
        release(EventTimeSessionWindows(2)),
        [("1-6", "1 2"), ("7-9", "3")],
    ),
    "a trigger that purges": (
        release(TumblingEventTimeWindows(10), lambda s: s.trigger(EventTimeTrigger())),
        release(TumblingEventTimeWindows(10), lambda s: s.trigger(PurgingTrigger(EventTimeTrigger()))),
        [("0-10", "1 2 3")],
    ),
    "number of a trigger": (
        release(TumblingEventTimeWindows(10), lambda s: s.trigger(CountTrigger(5))),
        release(TumblingEventTimeWindows(10), lambda s: s.trigger(CountTrigger(2))),
        [("0-10", "1 2")],
    ),
    "number of an evictor": (
        release(TumblingEventTimeWindows(10), lambda s: s.evictor(CountEvictor(9))),
        release(TumblingEventTimeWindows(10), lambda s: s.evictor(CountEvictor(2))),
        [("0-10", "2 3")],
    ),
}


@pytest.mark.parametrize("name", CARRIED)
def test_windows_that_are_open_go_on(name: str) -> None:
    before, after, rows = CARRIED[name]
    running = goes_on(before, after, [(1, 1)])
    running.process_elements([("a", 2), ("a", 3)], [3, 7])
    early = seen(running)
    assert sorted([*early, *ends_with_nothing(running)]) == sorted(rows)


def test_a_trigger_fires_at_multiples_of_todays_interval() -> None:
    def every(ms: int) -> Told:
        return lambda stream: stream.trigger(ContinuousEventTimeTrigger(ms))

    first, second = (release(TumblingEventTimeWindows(20), every(ms)) for ms in (4, 3))
    running = goes_on(first, second, [(1, 1)])
    fired = []
    for watermark in range(1, 20):
        running.process_watermark(watermark)
        fired += [watermark for _ in seen(running)]
    assert fired == [4, 6, 9, 12, 15, 18, 19]
    assert ends_with_nothing(running) == []


# What is refused ------------------------------------------------------------------------------------------------------


class Own(TumblingEventTimeWindows):
    """An author's assigner; its windows have the text of all windows of time."""


def declared(assigner: Any) -> Any:
    return windowed_harness(assigner, "k", INPUT).aggregate({"total": Aggregate.sum("n")})


class Plain(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def plain() -> Any:
    return KeyedOneInputStreamOperatorTestHarness(Plain(), "k", INPUT, OUTPUT)


def tumbling(told: Told = lambda stream: stream) -> Any:
    return release(TumblingEventTimeWindows(10), told)


def global_(trigger: Any) -> Any:
    return release(GlobalWindows(), lambda s: s.trigger(trigger))


REFUSED: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "sessions": (tumbling, lambda: release(EventTimeSessionWindows(5)), "they were windows of time, and are sessions"),
    "no sessions": (lambda: release(EventTimeSessionWindows(5)), tumbling, "were sessions, and are windows of time"),
    "clock": (
        tumbling,
        lambda: release(TumblingProcessingTimeWindows(10)),
        "they ended by event time, and do by processing time; their trigger was EventTimeTrigger, and is "
        "ProcessingTimeTrigger",
    ),
    "count": (
        tumbling,
        lambda: release(CountTumblingWindowAssigner(3)),
        "they were windows of time, and are windows by count (tumble-count-assigner)",
    ),
    "sliding count": (
        lambda: release(CountTumblingWindowAssigner(3)),
        lambda: release(CountSlidingWindowAssigner(3, 1)),
        "windows by count (tumble-count-assigner), and are windows by count (slide-count-assigner)",
    ),
    "trigger of windows by count": (
        lambda: release(CountTumblingWindowAssigner(3)),
        lambda: release(CountTumblingWindowAssigner(3), lambda s: s.trigger(CountTrigger(3))),
        "their trigger was that of windows by count, and is CountTrigger",
    ),
    "global": (
        lambda: global_(CountTrigger(3)),
        lambda: release(TumblingEventTimeWindows(10), lambda s: s.trigger(CountTrigger(3))),
        "they were the global window, and are windows of time",
    ),
    "trigger": (
        tumbling,
        lambda: tumbling(lambda s: s.trigger(CountTrigger(3))),
        "their trigger was EventTimeTrigger, and is CountTrigger",
    ),
    "trigger inside": (
        lambda: global_(PurgingTrigger(CountTrigger(3))),
        lambda: global_(PurgingTrigger(ContinuousEventTimeTrigger(3))),
        "their trigger was CountTrigger, and is ContinuousEventTimeTrigger",
    ),
    "evictor": (tumbling, lambda: tumbling(lambda s: s.evictor(CountEvictor(3))), "they had no evictor, and have one"),
    "no evictor": (lambda: tumbling(lambda s: s.evictor(CountEvictor(3))), tumbling, "had an evictor, and have none"),
    "declared": (
        tumbling,
        lambda: declared(TumblingEventTimeWindows(10)),
        "they were aggregated by functions, and are by columns",
    ),
    "sessions by columns": (
        lambda: declared(TumblingEventTimeWindows(10)),
        lambda: declared(EventTimeSessionWindows(10)),
        "they were windows of time, and are sessions",
    ),
    "no windows": (tumbling, plain, "it had windows of time, and has none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_windows_that_cannot_continue_are_refused_by_name(name: str) -> None:
    before, after, says = REFUSED[name]
    with before() as first:
        first.process_elements([("a", 1)], [1])
        with pytest.raises(WindowsChangedError) as refused:
            after().initialize_state(first.snapshot())
    assert says in refused.value.message
    assert "'operator'" in refused.value.message
    assert "uid" in refused.value.action


def test_an_authors_own_windows_may_take_the_place_of_ours_if_they_are_spelled_alike() -> None:
    running = goes_on(release(TumblingEventTimeWindows(10)), release(Own(10)), [(1, 1)])
    assert ends_with_nothing(running) == [("0-10", "1")]
    assert issubclass(Own, WindowAssigner)
