"""Triggers: their answers, their timers, and that they leave nothing."""

from typing import Any

import pytest

from state_engine.api import Time
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindow,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeWindow,
    TriggerResult,
)
from state_engine.errors import JobDefinitionError

W = TimeWindow
CONTINUE, FIRE, PURGE, BOTH = (
    TriggerResult.CONTINUE,
    TriggerResult.FIRE,
    TriggerResult.PURGE,
    TriggerResult.FIRE_AND_PURGE,
)


def element(trigger: Any, ctx: Any, window: Any, timestamp: int | None = 0) -> TriggerResult:
    return trigger.on_element("e", timestamp, window, ctx.at(window))  # type: ignore[no-any-return]


def test_results() -> None:
    assert [(r.is_fire(), r.is_purge()) for r in (CONTINUE, FIRE, PURGE, BOTH)] == [
        (False, False), (True, False), (False, True), (True, True),
    ]  # fmt: skip


class TestEventTime:
    def test_it_waits_for_the_end(self, trigger_context: Any) -> None:
        trigger, ctx = EventTimeTrigger.create(), trigger_context
        assert element(trigger, ctx, W(0, 10)) is CONTINUE
        assert ctx.event_timers == {W(0, 10): {9}}
        assert trigger.on_event_time(9, W(0, 10), ctx) is FIRE
        assert trigger.on_event_time(109, W(0, 10), ctx) is CONTINUE  # the end of the allowed lateness
        assert trigger.on_processing_time(9, W(0, 10), ctx) is CONTINUE

    @pytest.mark.parametrize(("watermark", "result"), [(8, CONTINUE), (9, FIRE), (50, FIRE)])
    def test_late_elements_fire_at_once(self, trigger_context: Any, watermark: int, result: TriggerResult) -> None:
        trigger_context.watermark = watermark
        assert element(EventTimeTrigger(), trigger_context, W(0, 10)) is result
        assert bool(trigger_context.event_timers) is (result is CONTINUE)

    @pytest.mark.parametrize(("watermark", "timers"), [(13, {14}), (14, set())])
    def test_merging_moves_the_timer(self, trigger_context: Any, watermark: int, timers: set[int]) -> None:
        trigger, ctx = EventTimeTrigger(), trigger_context
        element(trigger, ctx, W(0, 10))
        element(trigger, ctx, W(5, 15))
        ctx.watermark = watermark
        trigger.clear(W(5, 15), ctx)
        trigger.on_merge(W(0, 15), ctx.at(W(0, 15)))
        trigger.clear(W(0, 10), ctx.at(W(0, 10)))
        assert ctx.event_timers.pop(W(0, 15), set()) == timers
        assert ctx.nothing_left()


class TestProcessingTime:
    def test_it_waits_for_the_end(self, trigger_context: Any) -> None:
        trigger, ctx = ProcessingTimeTrigger.create(), trigger_context
        assert element(trigger, ctx, W(0, 10), None) is CONTINUE
        assert ctx.processing_timers == {W(0, 10): {9}}
        assert trigger.on_processing_time(9, W(0, 10), ctx) is FIRE
        assert trigger.on_event_time(9, W(0, 10), ctx) is CONTINUE
        trigger.clear(W(0, 10), ctx)
        assert ctx.nothing_left()

    @pytest.mark.parametrize(("now", "timers"), [(13, {14}), (14, set())])
    def test_merging_sets_a_timer_unless_it_is_past(self, trigger_context: Any, now: int, timers: set[int]) -> None:
        trigger_context.now = now
        ProcessingTimeTrigger().on_merge(W(0, 15), trigger_context.at(W(0, 15)))
        assert trigger_context.processing_timers.get(W(0, 15), set()) == timers


class TestCount:
    def test_it_counts_each_window_from_the_start_again(self, trigger_context: Any) -> None:
        trigger, ctx = CountTrigger.of(3), trigger_context
        first, second = W(0, 10), W(10, 20)
        assert [element(trigger, ctx, w) for w in (first, second, first, first, second, first, second)] == [
            CONTINUE, CONTINUE, CONTINUE, FIRE, CONTINUE, CONTINUE, FIRE,
        ]  # fmt: skip
        assert ctx.states == {("count", first): 1}
        trigger.clear(first, ctx.at(first))
        trigger.clear(second, ctx.at(second))
        assert ctx.nothing_left()

    def test_merging_adds_the_counts(self, trigger_context: Any) -> None:
        trigger, ctx = CountTrigger(3), trigger_context
        element(trigger, ctx, W(0, 10))
        element(trigger, ctx, W(20, 30))
        ctx.merged = [W(0, 10), W(20, 30)]
        trigger.on_merge(W(0, 30), ctx.at(W(0, 30)))
        assert ctx.states == {("count", W(0, 30)): 2}
        assert element(trigger, ctx, W(0, 30)) is FIRE

    def test_time_does_not_matter(self, trigger_context: Any) -> None:
        trigger = CountTrigger(1)
        assert trigger.on_event_time(9, W(0, 10), trigger_context) is CONTINUE
        assert trigger.on_processing_time(9, W(0, 10), trigger_context) is CONTINUE

    @pytest.mark.parametrize("size", [0, -1, "3", 1.5, None])
    def test_what_cannot_be_counted_to_is_refused(self, size: Any) -> None:
        with pytest.raises(JobDefinitionError):
            CountTrigger.of(size)


class TestContinuousEventTime:
    def test_it_fires_at_multiples_and_at_the_end(self, trigger_context: Any) -> None:
        trigger, ctx, window = ContinuousEventTimeTrigger.of(Time.milliseconds(4)), trigger_context, W(0, 10)
        assert element(trigger, ctx, window, 1) is CONTINUE
        assert element(trigger, ctx, window, 9) is CONTINUE
        assert ctx.event_timers == {window: {4, 9}}
        assert trigger.on_event_time(3, window, ctx) is CONTINUE  # a timer of other code
        assert trigger.on_event_time(4, window, ctx) is FIRE
        assert trigger.on_event_time(8, window, ctx) is FIRE
        assert ctx.states == {("fire-time", window): 9}
        assert trigger.on_event_time(9, window, ctx) is FIRE
        assert trigger.on_processing_time(9, window, ctx) is CONTINUE
        for time in (4, 8):
            ctx.delete_event_time_timer(time)
        trigger.clear(window, ctx)
        assert ctx.nothing_left()

    def test_multiples_before_1970(self, trigger_context: Any) -> None:
        element(ContinuousEventTimeTrigger(4), trigger_context, W(-20, 0), -7)
        assert trigger_context.event_timers == {W(-20, 0): {-4, -1}}

    def test_it_needs_event_time(self, trigger_context: Any) -> None:
        with pytest.raises(ValueError, match="assign_timestamps_and_watermarks"):
            element(ContinuousEventTimeTrigger(4), trigger_context, GlobalWindow(), None)

    def test_late_elements_fire_at_once(self, trigger_context: Any) -> None:
        trigger_context.watermark = 9
        assert element(ContinuousEventTimeTrigger(4), trigger_context, W(0, 10)) is FIRE
        assert trigger_context.nothing_left()

    def test_merging_keeps_the_earliest_time(self, trigger_context: Any) -> None:
        trigger, ctx = ContinuousEventTimeTrigger(4), trigger_context
        element(trigger, ctx, W(0, 10), 0)
        element(trigger, ctx, W(9, 19), 9)
        ctx.merged = [W(0, 10), W(9, 19)]
        trigger.on_merge(W(0, 19), ctx.at(W(0, 19)))
        assert ctx.states == {("fire-time", W(0, 19)): 4}
        assert ctx.event_timers[W(0, 19)] == {4}


class TestContinuousProcessingTime:
    def test_it_fires_at_multiples_and_at_the_end_once(self, trigger_context: Any) -> None:
        trigger, ctx, window = ContinuousProcessingTimeTrigger.of(Time.milliseconds(4)), trigger_context, W(0, 10)
        ctx.now = 2
        assert element(trigger, ctx, window, None) is CONTINUE
        assert ctx.processing_timers == {window: {4}}
        assert [trigger.on_processing_time(t, window, ctx) for t in (4, 8, 9)] == [FIRE, FIRE, FIRE]
        # A timer that is set again for its own time while it fires would fire for ever.
        assert ctx.processing_timers == {window: {4, 8, 9}}
        assert ctx.states == {}
        assert trigger.on_processing_time(9, window, ctx) is CONTINUE
        assert trigger.on_event_time(9, window, ctx) is CONTINUE

    def test_nothing_is_left(self, trigger_context: Any) -> None:
        trigger, ctx, window = ContinuousProcessingTimeTrigger(4), trigger_context, W(0, 10)
        element(trigger, ctx, window, None)
        trigger.clear(window, ctx)
        assert ctx.nothing_left()

    def test_merging_keeps_the_earliest_time(self, trigger_context: Any) -> None:
        trigger, ctx = ContinuousProcessingTimeTrigger(4), trigger_context
        for now, window in ((0, W(0, 10)), (9, W(9, 19))):
            ctx.now = now
            element(trigger, ctx, window, None)
        ctx.merged = [W(0, 10), W(9, 19)]
        trigger.on_merge(W(0, 19), ctx.at(W(0, 19)))
        assert ctx.processing_timers[W(0, 19)] == {4}


@pytest.mark.parametrize("kind", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_an_interval_has_a_length(kind: Any) -> None:
    with pytest.raises(JobDefinitionError):
        kind.of(Time.milliseconds(0))


class TestPurging:
    def test_what_fires_purges_and_the_rest_passes(self, trigger_context: Any) -> None:
        trigger, ctx = PurgingTrigger.of(EventTimeTrigger()), trigger_context
        assert element(trigger, ctx, W(0, 10)) is CONTINUE
        assert trigger.on_event_time(9, W(0, 10), ctx) is BOTH
        assert trigger.on_event_time(8, W(0, 10), ctx) is CONTINUE
        assert PurgingTrigger(ProcessingTimeTrigger()).on_processing_time(9, W(0, 10), ctx) is BOTH
        trigger.clear(W(0, 10), ctx)
        assert ctx.nothing_left()

    def test_it_needs_another_one(self) -> None:
        with pytest.raises(JobDefinitionError, match="PurgingTrigger got"):
            PurgingTrigger.of(EventTimeTrigger)  # type: ignore[arg-type]

    def test_it_merges_as_the_other_does(self, trigger_context: Any) -> None:
        assert PurgingTrigger(EventTimeTrigger()).can_merge()
        assert not PurgingTrigger(NeverTrigger()).can_merge()
        PurgingTrigger(EventTimeTrigger()).on_merge(W(0, 10), trigger_context.at(W(0, 10)))
        assert trigger_context.event_timers == {W(0, 10): {9}}


def test_never(trigger_context: Any) -> None:
    trigger, ctx, window = NeverTrigger(), trigger_context, GlobalWindow()
    assert element(trigger, ctx, window) is CONTINUE
    assert trigger.on_event_time(9, window, ctx) is trigger.on_processing_time(9, window, ctx) is CONTINUE
    assert ctx.nothing_left()


@pytest.mark.parametrize(
    "trigger",
    [EventTimeTrigger(), ProcessingTimeTrigger(), CountTrigger(2), ContinuousEventTimeTrigger(2),
     ContinuousProcessingTimeTrigger(2)],
)  # fmt: skip
def test_triggers_for_sessions(trigger: Any) -> None:
    assert trigger.can_merge()
