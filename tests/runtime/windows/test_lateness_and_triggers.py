"""Allowed lateness, late records, and triggers through the operator."""

from collections.abc import Callable
from typing import Any

import pytest

from state_engine.api import Time, TimeDomain, Types, ValueStateDescriptor
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

ms = Time.milliseconds
TUMBLING = TumblingEventTimeWindows.of(ms(10))
END = (1 << 63) - 1


class TestLateness:
    def test_late_records_are_dropped(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING) as run:
            run.process_watermark(9)
            run.process_elements([("a", 1), ("a", 2)], [9, 10])
            run.process_watermark(END)
            assert run.extract_output_values() == [("a", "10-20", "2")]
            assert empty(run)

    def test_late_records_go_to_the_side_output(self, shown: Any, late: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.side_output_late_data(late)) as run:
            run.process_watermark(9)
            run.process_elements([("a", 1), ("a", 2), ("b", 3)], [9, 10, 0])
            assert run.get_side_output(late) == [("b", 3), ("a", 1)]
            run.process_watermark(END)
            assert empty(run)

    def test_a_record_below_the_watermark_with_an_open_window_is_not_late(self, shown: Any, late: Any) -> None:
        with shown(TUMBLING, lambda s: s.side_output_late_data(late)) as run:
            run.process_watermark(8)
            run.process_element(("a", 1), 0)
            run.process_watermark(END)
        assert run.extract_output_values() == [("a", "0-10", "1")]
        assert run.get_side_output(late) == []

    def test_a_record_that_is_late_for_some_of_its_windows_is_in_the_others(self, shown: Any, late: Any) -> None:
        sliding = SlidingEventTimeWindows.of(ms(10), ms(5))
        with shown(sliding, lambda s: s.side_output_late_data(late)) as run:
            run.process_watermark(9)
            run.process_elements([("a", 1), ("a", 2)], [7, 3])
            run.process_watermark(END)
        assert run.extract_output_values() == [("a", "5-15", "1")]
        assert run.get_side_output(late) == [("a", 2)]

    @pytest.mark.parametrize(("watermark", "is_late"), [(4, False), (5, True)])
    def test_a_record_that_is_in_no_window_may_be_late(
        self, shown: Any, late: Any, watermark: int, is_late: bool
    ) -> None:
        sampling = SlidingEventTimeWindows.of(ms(2), ms(10))
        with shown(sampling, lambda s: s.side_output_late_data(late)) as run:
            run.process_watermark(watermark)
            run.process_element(("a", 1), 5)
            assert run.get_side_output(late) == ([("a", 1)] if is_late else [])

    def test_a_window_fires_again_for_each_record_within_the_lateness(self, shown: Any, late: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.allowed_lateness(5).side_output_late_data(late)) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
            run.process_element(("a", 2), 2)
            run.process_element(("b", 3), 2)
            assert run.extract_output_values() == [("a", "0-10", "1"), ("a", "0-10", "1 2"), ("b", "0-10", "3")]
            run.process_watermark(13)
            run.process_element(("a", 4), 3)
            run.clear_output()
            run.process_watermark(14)
            assert run.extract_output_values() == []
            assert empty(run)
            run.process_element(("a", 5), 3)
            assert run.get_side_output(late) == [("a", 5)]

    def test_purging_with_lateness_gives_what_came_since(self, shown: Any, empty: Any) -> None:
        def more(stream: Any) -> Any:
            return stream.trigger(PurgingTrigger.of(EventTimeTrigger())).allowed_lateness(Time.milliseconds(5))

        with shown(TUMBLING, more) as run:
            run.process_elements([("a", 1), ("a", 2)], [1, 2])
            run.process_watermark(9)
            run.process_element(("a", 3), 3)
            assert run.extract_output_values() == [("a", "0-10", "1 2"), ("a", "0-10", "3")]
            run.process_watermark(14)
            assert empty(run)

    @pytest.mark.parametrize("lateness", [END, END - 9])
    def test_a_lateness_without_end_keeps_the_window(self, shown: Any, lateness: int) -> None:
        with shown(TUMBLING, lambda s: s.allowed_lateness(lateness)) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(END - 1)
            assert run.num_event_time_timers() == 0
            run.process_element(("a", 2), 1)
            assert run.extract_output_values() == [("a", "0-10", "1"), ("a", "0-10", "1 2")]

    def test_a_lateness_beyond_the_end_of_time_keeps_the_last_windows(self, shown: Any) -> None:
        with shown(TumblingEventTimeWindows.of(ms(1_000)), lambda s: s.allowed_lateness(2_000)) as run:
            last = END - END % 1_000 - 1_000  # its window ends in time, and must be kept after it
            run.process_elements([("a", 1), ("b", 2)], [last, last - 10_000])
            run.process_watermark(last + 999)
            run.process_elements([("a", 3), ("b", 4)], [last, last - 10_000])
            seen = [(key, numbers) for key, _, numbers in run.extract_output_values()]
            assert seen == [("b", "2"), ("a", "1"), ("a", "1 3")]
            assert run.num_event_time_timers() == 0

    def test_lateness_does_not_matter_to_processing_time(self, shown: Any, empty: Any) -> None:
        with shown(TumblingProcessingTimeWindows.of(ms(10)), lambda s: s.allowed_lateness(100)) as run:
            run.process_watermark(1_000)
            run.process_element(("a", 1), 0)
            run.set_processing_time(9)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            assert empty(run)


class TestTriggers:
    def test_count_in_time_windows(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.trigger(CountTrigger.of(2))) as run:
            run.process_elements([("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)], [1, 2, 3, 4, 5])
            assert run.extract_output_values() == [("a", "0-10", "1 2"), ("a", "0-10", "1 2 3 4")]
            run.process_watermark(9)
            assert len(run.extract_output_values()) == 2
            assert empty(run)

    def test_continuous_event_time(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.trigger(ContinuousEventTimeTrigger.of(ms(4)))) as run:
            run.process_elements([("a", 1), ("a", 2)], [1, 6])
            run.process_watermark(4)
            assert run.extract_output_values() == [("a", "0-10", "1 2")]
            run.process_watermark(END)
            assert len(run.extract_output_values()) == 3
            assert empty(run)

    def test_continuous_processing_time(self, shown: Any, empty: Any) -> None:
        assigner = TumblingProcessingTimeWindows.of(ms(10))
        with shown(assigner, lambda s: s.trigger(ContinuousProcessingTimeTrigger.of(ms(4)))) as run:
            run.set_processing_time(1)
            run.process_element(("a", 1))
            run.set_processing_time(5)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.process_element(("a", 2))
            run.set_processing_time(20)
            assert [seen for _, _, seen in run.extract_output_values()] == ["1", "1 2", "1 2"]
            assert empty(run)

    def test_a_window_ends_by_its_own_clock_whatever_makes_it_fire(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.trigger(ProcessingTimeTrigger())) as run:
            run.process_element(("a", 1), 1)
            run.set_processing_time(9)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.process_watermark(9)
            assert empty(run)
        with shown(TumblingProcessingTimeWindows.of(ms(10)), lambda s: s.trigger(EventTimeTrigger())) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.set_processing_time(9)
            assert empty(run)

    def test_a_timer_of_the_other_clock_does_not_end_a_window(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.trigger(ContinuousProcessingTimeTrigger.of(ms(4)))) as run:
            run.set_processing_time(8)
            run.process_element(("a", 1), 1)
            run.set_processing_time(9)  # the window's last millisecond, by the wrong clock
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.process_element(("a", 2), 2)
            run.set_processing_time(10)
            assert run.extract_output_values()[1:] == [("a", "0-10", "1 2")]
            run.process_watermark(9)
            assert empty(run)

    def test_never(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.trigger(NeverTrigger())) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
            assert run.extract_output_values() == []
            assert empty(run)


class Obeys(Trigger[Any, Any]):
    """Does what the record's number says; has timers on both clocks that do what their time says."""

    RESULTS = (TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)

    def __init__(self) -> None:
        self.known = ValueStateDescriptor("known", Types.STRING())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        state = ctx.get_partitioned_state(self.known)
        state.update((state.value() or "") + str(element.n))
        if element.n >= 10:
            (ctx.register_event_time_timer if element.n < 20 else ctx.register_processing_time_timer)(element.n)
            return TriggerResult.CONTINUE
        return self.RESULTS[element.n]

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        assert ctx.get_current_watermark() >= time
        return self.RESULTS[time % 10] if 10 <= time < 20 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        assert ctx.get_current_processing_time() >= time
        return self.RESULTS[time % 10]

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise AssertionError

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.known).clear()
        for time in range(10, 30):
            ctx.delete_event_time_timer(time)
            ctx.delete_processing_time_timer(time)


class TestATriggerOfTheAuthors:
    @pytest.fixture
    def run(self, shown: Callable[..., Any]) -> Any:
        return shown(TumblingEventTimeWindows.of(ms(100)), lambda s: s.trigger(Obeys()))

    def test_each_result_of_a_record(self, run: Any, empty: Any) -> None:
        for n, seen in ((0, []), (1, ["0 1"]), (0, []), (3, ["0 1 0 3"]), (1, ["1"]), (2, []), (1, ["1"])):
            run.process_element(("a", n), 1)
            assert [s for _, _, s in run.extract_output_values()] == seen
            run.clear_output()
        # What a trigger remembers outlives a purge, as in Flink.
        assert list(run.snapshot().states()["known"].values()) == ["0103121"]
        run.process_watermark(99)
        assert empty(run)

    @pytest.mark.parametrize(("timer", "advance"), [(10, "process_watermark"), (20, "set_processing_time")])
    @pytest.mark.parametrize(("result", "seen", "left"), [(0, 0, 1), (1, 1, 1), (2, 0, 0), (3, 1, 0)])
    def test_each_result_of_a_timer(
        self, run: Any, timer: int, advance: str, result: int, seen: int, left: int, empty: Any
    ) -> None:
        run.process_element(("a", timer + result), 1)
        getattr(run, advance)(timer + result)
        assert len(run.extract_output_values()) == seen
        assert run.snapshot().table("window-contents").num_rows == left
        run.process_watermark(END)
        assert empty(run)

    def test_timers_of_what_was_purged_call_no_function(self, run: Any) -> None:
        run.process_elements([("a", 11), ("a", 2)], [1, 2])
        run.process_watermark(11)
        assert run.extract_output_values() == []

    def test_the_end_of_the_window_deletes_what_the_trigger_has(self, run: Any, empty: Any) -> None:
        run.process_elements([("a", 11), ("a", 21), ("b", 12)], [1, 2, 3])
        assert sum(len(run.snapshot().timers(domain)) for domain in TimeDomain) == 3
        run.process_watermark(99)
        assert empty(run)

    def test_keys_and_windows_have_their_own_state(self, run: Any) -> None:
        run.process_elements([("a", 1), ("b", 1), ("a", 1), ("a", 0)], [1, 2, 3, 100])
        assert sorted(run.snapshot().states()["known"].values()) == ["0", "1", "11"]

    def test_a_restored_trigger_goes_on(self, shown: Any, run: Any) -> None:
        run.process_elements([("a", 11), ("a", 23)], [1, 2])
        other = shown(TumblingEventTimeWindows.of(ms(100)), lambda s: s.trigger(Obeys()), parallelism=2)
        other.initialize_state(run.snapshot())
        other.process_watermark(11)
        other.set_processing_time(23)
        assert other.extract_output_values() == [("a", "0-100", "11 23")] * 2


class TestGlobalWindows:
    def test_nothing_fires_without_a_trigger(self, shown: Any) -> None:
        with shown(GlobalWindows.create()) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(END)
            run.set_processing_time(1 << 60)
            assert run.extract_output_values() == []
            assert list(run.snapshot().states()["window-contents"].values()) != []
            assert run.num_event_time_timers() == run.num_processing_time_timers() == 0

    def test_count_and_purging_count(self, shown: Any, empty: Any) -> None:
        records = [("a", n) for n in range(5)]
        with shown(GlobalWindows.create(), lambda s: s.trigger(CountTrigger.of(2))) as run:
            run.process_elements(records)
            assert [s for _, _, s in run.extract_output_values()] == ["0 1", "0 1 2 3"]
        with shown(GlobalWindows.create(), lambda s: s.trigger(PurgingTrigger.of(CountTrigger.of(5)))) as run:
            run.process_elements(records)
            assert run.extract_output_values() == [("a", "GlobalWindow()", "0 1 2 3 4")]
            assert empty(run)
