"""Assigners: the windows of a record."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.api import Time
from state_engine.api.windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CountWindow,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from state_engine.errors import JobDefinitionError

W = TimeWindow
ms = Time.milliseconds


class GapOfTheRecord(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element)


def assigned(assigner: Any, context: Any, timestamp: int | None = None, element: Any = None) -> list[Any]:
    return list(assigner.assign_windows(element, timestamp, context))


@pytest.mark.parametrize(("timestamp", "window"), [(0, W(0, 5)), (4, W(0, 5)), (5, W(5, 10)), (-1, W(-5, 0))])
def test_tumbling_event_time(assigner_context: Any, timestamp: int, window: TimeWindow) -> None:
    assert assigned(TumblingEventTimeWindows.of(ms(5)), assigner_context, timestamp) == [window]


@pytest.mark.parametrize(("offset", "window"), [(2, W(-3, 2)), (-2, W(-2, 3)), (0, W(0, 5))])
def test_tumbling_with_an_offset(assigner_context: Any, offset: int, window: TimeWindow) -> None:
    assert assigned(TumblingEventTimeWindows.of(ms(5), ms(offset)), assigner_context, 1) == [window]
    assigner_context.now = 1
    assert assigned(TumblingProcessingTimeWindows.of(ms(5), ms(offset)), assigner_context) == [window]


def test_days_of_a_place_ahead_of_utc(assigner_context: Any) -> None:
    days = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    midnight = 16 * 3_600_000  # 16:00 UTC is midnight there
    assert [w.start for w in assigned(days, assigner_context, midnight)] == [midnight]
    assert [w.end for w in assigned(days, assigner_context, midnight - 1)] == [midnight]


def test_sliding_event_time(assigner_context: Any) -> None:
    sliding = SlidingEventTimeWindows.of(ms(10), ms(4))
    assert assigned(sliding, assigner_context, 9) == [W(8, 18), W(4, 14), W(0, 10)]
    assert assigned(sliding, assigner_context, 10) == [W(8, 18), W(4, 14)]
    assert assigned(sliding, assigner_context, -1) == [W(-4, 6), W(-8, 2)]


def test_sliding_with_an_offset(assigner_context: Any) -> None:
    assigner_context.now = 4
    wanted = [W(3, 13), W(-2, 8)]
    assert assigned(SlidingEventTimeWindows.of(ms(10), ms(5), ms(3)), assigner_context, 4) == wanted
    assert assigned(SlidingProcessingTimeWindows.of(ms(10), ms(5), ms(-2)), assigner_context) == wanted


def test_a_slide_larger_than_the_window_leaves_records_out(assigner_context: Any) -> None:
    sampling = SlidingEventTimeWindows.of(ms(2), ms(10))
    assert assigned(sampling, assigner_context, 11) == [W(10, 12)]
    assert assigned(sampling, assigner_context, 12) == []


@given(st.integers(-1000, 1000), st.integers(1, 60), st.integers(1, 40), st.data())
def test_sliding_windows_are_all_that_hold_the_time(time: int, size: int, slide: int, data: Any) -> None:
    offset = data.draw(st.integers(1 - slide, slide - 1))
    assignments = SlidingEventTimeWindows(size, slide, offset).assign_windows(None, time, None)  # type: ignore[arg-type]
    starts = range(time - size - slide, time + slide)
    wanted = [W(s, s + size) for s in starts if (s - offset) % slide == 0 and s <= time < s + size]
    assert sorted(assignments) == wanted


def test_processing_time_takes_the_epochs_time_not_the_records(assigner_context: Any) -> None:
    assigner_context.now = 1_003
    assert assigned(TumblingProcessingTimeWindows.of(ms(10)), assigner_context, 5) == [W(1_000, 1_010)]
    assert assigned(ProcessingTimeSessionWindows.with_gap(ms(10)), assigner_context, 5) == [W(1_003, 1_013)]


def test_sessions_begin_at_the_record(assigner_context: Any) -> None:
    assert assigned(EventTimeSessionWindows.with_gap(ms(30)), assigner_context, 7) == [W(7, 37)]


def test_sessions_with_a_gap_of_the_record(assigner_context: Any, merges: Any) -> None:
    assigner_context.now = 50
    event = EventTimeSessionWindows.with_dynamic_gap(GapOfTheRecord())
    processing = ProcessingTimeSessionWindows.with_dynamic_gap(GapOfTheRecord())
    assert isinstance(event, DynamicEventTimeSessionWindows)
    assert isinstance(processing, DynamicProcessingTimeSessionWindows)
    assert assigned(event, assigner_context, 7, 3) == [W(7, 10)]
    assert assigned(processing, assigner_context, 7, 3) == [W(50, 53)]
    event.merge_windows([W(7, 10), W(10, 11)], merges)
    assert merges.calls == [([W(7, 10), W(10, 11)], W(7, 11))]
    with pytest.raises(ValueError, match="above 0 ms, but is 0"):
        assigned(event, assigner_context, 7, 0)


def test_global_windows(assigner_context: Any) -> None:
    assert assigned(GlobalWindows.create(), assigner_context) == [GlobalWindow()]


def test_count_windows_one_after_the_other(assigner_context: Any) -> None:
    counting = CountTumblingWindowAssigner.of(3)
    assignments = [assigned(counting, assigner_context) for _ in range(7)]
    assert assignments == [[CountWindow(n)] for n in (0, 0, 0, 1, 1, 1, 2)]


@pytest.mark.parametrize(("size", "slide"), [(3, 1), (4, 2), (5, 2), (2, 2), (2, 3), (1, 1)])
def test_count_windows_that_slide(assigner_context: Any, size: int, slide: int) -> None:
    counting = CountSlidingWindowAssigner.of(size, slide)
    assignments = [assigned(counting, assigner_context) for _ in range(12)]
    for number, windows in enumerate(assignments):
        assert [w.id for w in windows] == [n for n in range(12, -1, -1) if n * slide <= number < n * slide + size]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(ms(0)),
        lambda: TumblingEventTimeWindows.of(ms(5), ms(5)),
        lambda: TumblingEventTimeWindows.of(ms(5), ms(-5)),
        lambda: TumblingProcessingTimeWindows.of(ms(-1)),
        lambda: SlidingEventTimeWindows.of(ms(10), ms(0)),
        lambda: SlidingEventTimeWindows.of(ms(10), ms(5), ms(5)),
        lambda: SlidingProcessingTimeWindows.of(ms(-10), ms(5)),
        lambda: EventTimeSessionWindows.with_gap(ms(0)),
        lambda: ProcessingTimeSessionWindows.with_gap(ms(-1)),
        lambda: DynamicEventTimeSessionWindows.with_dynamic_gap(lambda e: 1),  # type: ignore[arg-type]
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(2, 0),
        lambda: CountTumblingWindowAssigner.of("3"),  # type: ignore[arg-type]
        lambda: TumblingEventTimeWindows.of(5),  # type: ignore[arg-type]
        lambda: SlidingEventTimeWindows.of(ms(5), 5),  # type: ignore[arg-type]
        lambda: EventTimeSessionWindows.with_gap(5),  # type: ignore[arg-type]
    ],
)
def test_windows_that_cannot_be_are_refused(make: Any) -> None:
    with pytest.raises(JobDefinitionError):
        make()


@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows(5), SlidingEventTimeWindows(5, 1), EventTimeSessionWindows(5)],
    ids=repr,
)
def test_a_record_without_event_time_is_no_record_of_1970(assigner: Any, assigner_context: Any) -> None:
    with pytest.raises(ValueError, match="assign_timestamps_and_watermarks"):
        assigned(assigner, assigner_context)


@pytest.mark.parametrize(
    ("assigner", "event_time", "trigger"),
    [
        (TumblingEventTimeWindows(5), True, EventTimeTrigger),
        (SlidingEventTimeWindows(5, 1), True, EventTimeTrigger),
        (EventTimeSessionWindows(5), True, EventTimeTrigger),
        (DynamicEventTimeSessionWindows(GapOfTheRecord()), True, EventTimeTrigger),
        (TumblingProcessingTimeWindows(5), False, ProcessingTimeTrigger),
        (SlidingProcessingTimeWindows(5, 1), False, ProcessingTimeTrigger),
        (ProcessingTimeSessionWindows(5), False, ProcessingTimeTrigger),
        (DynamicProcessingTimeSessionWindows(GapOfTheRecord()), False, ProcessingTimeTrigger),
        (GlobalWindows(), False, NeverTrigger),
        (CountTumblingWindowAssigner(2), False, PurgingTrigger),
        (CountSlidingWindowAssigner(2, 1), False, PurgingTrigger),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),  # no addresses: all processes need equal ids
)
def test_clock_trigger_and_text_of_every_assigner(
    assigner: Any, event_time: bool, trigger: type, assigner_context: Any
) -> None:
    assert assigner.is_event_time() is event_time
    assert type(assigner.get_default_trigger(None)) is trigger
    serializer = assigner.get_window_serializer()
    for window in assigned(copy.deepcopy(assigner), assigner_context, 3, 9):
        assert serializer.deserialize(serializer.serialize(window)) == window
