"""Session windows through the operator.

Checklist of Flink's `WindowOperatorTest` for these, in our words: sessions with list, reduced and aggregated contents;
gaps that records decide; late records that close a gap, or come too late; triggers with state; timers that a trigger
did not delete; a purge does not end a session; a restore in the middle; no state is left at the end.
"""

from typing import Any

import pytest

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TimeWindow,
    TriggerResult,
)
from state_engine.errors import JobDefinitionError, UserFunctionError

ms = Time.milliseconds
SESSIONS = EventTimeSessionWindows.with_gap(ms(10))
END = (1 << 63) - 1


def test_records_close_to_each_other_are_one_window(shown: Any, empty: Any) -> None:
    with shown(SESSIONS) as run:
        run.process_elements([("a", 1), ("b", 2), ("a", 3), ("a", 4)], [0, 3, 8, 30])
        run.process_watermark(16)
        assert run.extract_output_values() == [("b", "3-13", "2")]
        run.process_watermark(17)
        assert run.extract_output_values()[1:] == [("a", "0-18", "1 3")]
        run.process_watermark(END)
        assert run.extract_output_values()[2:] == [("a", "30-40", "4")]
        assert empty(run)


@pytest.mark.parametrize(("second", "windows"), [(10, ["0-20"]), (11, ["0-10", "11-21"])])
def test_exactly_one_gap_apart_is_still_one(shown: Any, second: int, windows: list[str]) -> None:
    with shown(SESSIONS) as run:
        run.process_elements([("a", 1), ("a", 2)], [0, second])
        run.process_watermark(END)
    assert [w for _, w, _ in run.extract_output_values()] == windows


def test_a_record_that_closes_the_gap_between_two_sessions(shown: Any, empty: Any) -> None:
    with shown(SESSIONS) as run:
        for n, at in ((1, 0), (2, 20), (3, 22), (4, 40), (5, 10)):
            run.process_element(("a", n), at)
        assert run.snapshot().states()["merging-window-set"] == {"a": {"0/32": "0/10", "40/50": "40/50"}}
        run.process_watermark(END)
        assert run.extract_output_values() == [("a", "0-32", "1 2 3 5"), ("a", "40-50", "4")]
        assert empty(run)


@pytest.mark.parametrize("how", ["reduce", "aggregate"])
def test_folded_contents_are_merged(windowed: Any, how: str, total: Any, sum_of_n: Any, empty: Any) -> None:
    stream = windowed(SESSIONS)
    run = stream.reduce(sum_of_n) if how == "reduce" else stream.aggregate(
        total, accumulator_type=Types.LIST(Types.LONG()), output_type="what string, n bigint, sum bigint"
    )  # fmt: skip
    for n, at in ((1, 0), (2, 20), (4, 24), (8, 40), (16, 10), (32, 30)):
        run.process_element(("a", n), at)
    assert run.snapshot().table("window-contents").num_rows == 1
    run.process_watermark(END)
    assert run.extract_output_values() == [("a", 63) if how == "reduce" else ("total", 6, 63)]
    assert empty(run)


def test_gaps_of_the_records_own(shown: Any, empty: Any) -> None:
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return int(element.n)

    with shown(EventTimeSessionWindows.with_dynamic_gap(Gap())) as run:
        run.process_elements([("a", 100), ("a", 2), ("a", 3), ("b", 2)], [0, 50, 103, 0])
        run.process_watermark(END)
        assert run.extract_output_values() == [("b", "0-2", "2"), ("a", "0-100", "100 2"), ("a", "103-106", "3")]
        assert empty(run)


def test_a_record_of_exactly_the_session_keeps_its_contents(shown: Any) -> None:
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return int(element.n)

    with shown(EventTimeSessionWindows.with_dynamic_gap(Gap())) as run:
        for n, at in ((10, 5), (5, 0), (15, 0)):
            run.process_element(("a", n), at)
        run.process_watermark(END)
    assert run.extract_output_values() == [("a", "0-15", "10 5 15")]


def test_processing_time_sessions(shown: Any, empty: Any) -> None:
    with shown(ProcessingTimeSessionWindows.with_gap(ms(10))) as run:
        for now, n in ((3, 1), (9, 2), (30, 3)):
            run.set_processing_time(now)
            run.process_elements([("a", n), ("b", n)])
        assert run.extract_output_values() == [("a", "3-19", "1 2"), ("b", "3-19", "1 2")]
        run.set_processing_time(39)
        assert run.extract_output_values()[2:] == [("a", "30-40", "3"), ("b", "30-40", "3")]
        assert empty(run)


def test_records_that_are_no_longer_than_a_point(shown: Any, empty: Any) -> None:
    class Points(EventTimeSessionWindows):
        """Records with 0 have windows without length, which others may touch."""

        def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
            if element.n == 0:
                return [TimeWindow(timestamp, timestamp)]
            return super().assign_windows(element, timestamp, context)

    with shown(Points(10)) as run:
        for n, at in ((1, 0), (0, 10), (0, 30), (2, 20)):
            run.process_element(("a", n), at)
        run.process_watermark(END)
        assert run.extract_output_values() == [("a", "0-10", "1 0"), ("a", "20-30", "0 2")]
        assert empty(run)


class TestLateness:
    def test_a_late_record_that_touches_a_session_is_in_it(self, shown: Any, late: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.side_output_late_data(late)) as run:
            run.process_element(("a", 1), 20)
            run.process_watermark(25)
            run.process_element(("a", 2), 12)  # alone it would end at 21
            run.process_element(("a", 3), 1)
            run.process_watermark(END)
            assert run.extract_output_values() == [("a", "12-30", "1 2")]
            assert run.get_side_output(late) == [("a", 3)]
            assert empty(run)

    def test_a_session_is_kept_for_the_lateness_and_may_grow(self, shown: Any, late: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.allowed_lateness(20).side_output_late_data(late)) as run:
            run.process_element(("a", 1), 0)
            run.process_watermark(10)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.process_element(("a", 2), 5)  # it is open again, so it waits for its end
            assert len(run.extract_output_values()) == 1
            run.process_watermark(15)
            assert run.extract_output_values()[1:] == [("a", "0-15", "1 2")]
            run.process_element(("a", 3), 2)  # its end has passed: at once
            assert run.extract_output_values()[2:] == [("a", "0-15", "1 2 3")]
            run.process_watermark(34)
            assert empty(run)
            run.process_element(("a", 4), 2)
            assert run.get_side_output(late) == [("a", 4)]
            assert len(run.extract_output_values()) == 3
            assert empty(run)

    def test_a_late_record_may_join_two_sessions_that_have_fired(self, shown: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.allowed_lateness(100)) as run:
            run.process_elements([("a", 1), ("a", 2)], [0, 20])
            run.process_watermark(50)
            run.process_element(("a", 3), 10)
            assert run.extract_output_values() == [("a", "0-10", "1"), ("a", "20-30", "2"), ("a", "0-30", "1 2 3")]
            run.process_watermark(END)
            assert len(run.extract_output_values()) == 3
            assert empty(run)


class TestTriggers:
    def test_counts_are_added_when_sessions_merge(self, shown: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.trigger(CountTrigger.of(4))) as run:
            for n, at in ((1, 0), (2, 20), (3, 21)):
                run.process_element(("a", n), at)
            run.process_element(("a", 4), 10)
            assert run.extract_output_values() == [("a", "0-31", "1 2 3 4")]
            run.process_watermark(END)
            assert len(run.extract_output_values()) == 1
            assert empty(run)

    def test_a_purge_empties_a_session_and_does_not_end_it(self, shown: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.trigger(PurgingTrigger.of(CountTrigger.of(2)))) as run:
            for n, at in ((1, 0), (2, 5), (3, 8)):
                run.process_element(("a", n), at)
            assert run.extract_output_values() == [("a", "0-15", "1 2")]
            assert run.snapshot().states()["merging-window-set"] == {"a": {"0/18": "0/10"}}
            run.process_element(("a", 4), 9)
            assert run.extract_output_values()[1:] == [("a", "0-19", "3 4")]
            run.process_watermark(END)
            assert len(run.extract_output_values()) == 2
            assert empty(run)

    def test_a_continuous_trigger_goes_on_with_the_earliest_time(self, shown: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.trigger(ContinuousEventTimeTrigger.of(ms(8)))) as run:
            for n, at in ((1, 1), (2, 20), (3, 11)):
                run.process_element(("a", n), at)
            run.process_watermark(8)
            assert run.extract_output_values() == [("a", "1-30", "1 2 3")]
            run.process_watermark(END)
            assert len(run.extract_output_values()) == 1 + 3  # at 16, 24 and the end
            assert empty(run)

    def test_timers_that_a_trigger_did_not_delete_do_nothing(self, shown: Any, empty: Any) -> None:
        class Forgetful(EventTimeTrigger):
            def clear(self, window: Any, ctx: Any) -> None:
                pass

        with shown(SESSIONS, lambda s: s.trigger(Forgetful()).allowed_lateness(3)) as run:
            run.process_elements([("a", 1), ("a", 2)], [0, 5])
            assert run.num_event_time_timers() == 3
            run.process_watermark(12)
            assert run.extract_output_values() == []
            run.process_watermark(END)
            assert run.extract_output_values() == [("a", "0-15", "1 2")]
            assert empty(run)

    def test_processing_time_triggers_on_event_time_sessions_end(self, shown: Any, empty: Any) -> None:
        with shown(SESSIONS, lambda s: s.trigger(ContinuousProcessingTimeTrigger.of(ms(5)))) as run:
            run.set_processing_time(1_000)
            run.process_element(("a", 1), 0)
            run.set_processing_time(1_001)
            assert run.extract_output_values() == [("a", "0-10", "1")]
            run.process_watermark(9)
            assert empty(run)

    def test_a_trigger_that_cannot_merge_is_refused(self, shown: Any) -> None:
        with pytest.raises(JobDefinitionError, match="NeverTrigger cannot be used with EventTimeSessionWindows"):
            shown(SESSIONS, lambda s: s.trigger(NeverTrigger()))

    def test_only_states_that_can_be_merged_are(self, shown: Any) -> None:
        class Wrong(EventTimeTrigger):
            def on_merge(self, window: Any, ctx: Any) -> None:
                ctx.merge_partitioned_state(ValueStateDescriptor("v", Types.LONG()))

        with shown(SESSIONS, lambda s: s.trigger(Wrong())) as run:
            run.process_element(("a", 1), 0)
            with pytest.raises((UserFunctionError, JobDefinitionError), match="asked to merge a"):
                run.process_element(("a", 1), 5)

    @pytest.mark.parametrize("kind", ["list", "reducing", "aggregating"])
    def test_states_of_a_trigger_are_merged(self, shown: Any, kind: str, total: Any, empty: Any) -> None:
        descriptor = {
            "list": ListStateDescriptor("seen", Types.LONG()),
            "reducing": ReducingStateDescriptor("seen", max, Types.LONG()),
            "aggregating": AggregatingStateDescriptor("seen", total, Types.LIST(Types.LONG())),
        }[kind]
        rows: list[Any] = []

        class Remembers(EventTimeTrigger):
            def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
                state = ctx.get_partitioned_state(descriptor)
                state.add(element if kind == "aggregating" else element.n)
                seen = state.get()
                rows.append(list(seen) if kind == "list" else seen)
                return super().on_element(element, timestamp, window, ctx)

            def on_merge(self, window: Any, ctx: Any) -> None:
                super().on_merge(window, ctx)
                ctx.merge_partitioned_state(descriptor)

            def clear(self, window: Any, ctx: Any) -> None:
                super().clear(window, ctx)
                ctx.get_partitioned_state(descriptor).clear()

        with shown(SESSIONS, lambda s: s.trigger(Remembers())) as run:
            for n, at in ((1, 0), (2, 20), (5, 10)):
                run.process_element(("a", n), at)
            run.process_watermark(END)
            assert empty(run)
        assert rows[-1] == {"list": [1, 2, 5], "reducing": 5, "aggregating": ("total", 3, 8)}[kind]


@pytest.mark.parametrize("clock", ["event", "processing"])
def test_windows_cannot_be_merged_into_one_that_is_over(shown: Any, clock: str) -> None:
    base: Any = EventTimeSessionWindows if clock == "event" else ProcessingTimeSessionWindows

    class IntoThePast(base):  # type: ignore[misc]
        def merge_windows(self, windows: Any, callback: Any) -> None:
            if len(set(windows)) > 1:
                callback.merge(windows, TimeWindow(0, 5))

    with shown(IntoThePast(10)) as run:
        run.process_watermark(6)
        run.set_processing_time(6)
        run.process_element(("a", 1), 7)
        run.set_processing_time(7)
        with pytest.raises(UserFunctionError, match=r"merged into TimeWindow\(start=0, end=5\), which is over at"):
            run.process_element(("a", 2), 8)


def test_what_a_trigger_aggregates_may_expire(shown: Any, total: Any) -> None:
    descriptor = AggregatingStateDescriptor("seen", total, Types.LIST(Types.LONG()))
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    rows: list[Any] = []

    class Remembers(EventTimeTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            ctx.get_partitioned_state(descriptor).add(element)
            rows.append(ctx.get_partitioned_state(descriptor).get())
            return super().on_element(element, timestamp, window, ctx)

        def on_merge(self, window: Any, ctx: Any) -> None:
            super().on_merge(window, ctx)
            ctx.merge_partitioned_state(descriptor)

    with shown(SESSIONS, lambda s: s.trigger(Remembers())) as run:
        for now, n in ((0, 1), (5, 2), (100, 4)):
            run.set_processing_time(now)
            run.process_element(("a", n), n)
    assert rows == [("total", 1, 1), ("total", 2, 3), ("total", 1, 4)]


def test_windows_that_merge_have_no_state_of_their_own(windowed: Any) -> None:
    class Asks(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            context.window_state().get_state(ValueStateDescriptor("v", Types.LONG()))
            return []

    with windowed(SESSIONS).process(Asks(), "k string") as run:
        run.process_element(("a", 1), 0)
        with pytest.raises((UserFunctionError, JobDefinitionError), match="may be merged with others"):
            run.process_watermark(END)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_sessions_go_on_after_a_restore(shown: Any, before: int, after: int, empty: Any) -> None:
    keys = [f"k{n}" for n in range(10)]
    with shown(SESSIONS, parallelism=before) as run:
        for at in (0, 20, 5):
            run.process_elements([(k, at) for k in keys], [at] * 10)
        snapshot = run.snapshot()
    with shown(SESSIONS, parallelism=after) as run:
        run.initialize_state(snapshot)
        run.process_elements([(k, 12) for k in keys], [12] * 10)
        run.process_watermark(END)
        assert sorted(run.extract_output_values()) == [(k, "0-30", "0 5 20 12") for k in sorted(keys)]
        assert empty(run)
