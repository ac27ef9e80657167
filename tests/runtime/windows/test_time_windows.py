"""Tumbling and sliding windows through the operator.

Checklist of Flink's `WindowOperatorTest` for these, in our words: tumbling and sliding windows with reduce, apply and
process, by event time and processing time; a restore in the middle; no state is left at the end.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import OutputTag, ProcessWindowFunction, Time, TimeDomain, WindowFunction
from state_engine.api.windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from state_engine.errors import UserFunctionError

ms = Time.milliseconds
TUMBLING, SLIDING = TumblingEventTimeWindows.of(ms(10)), SlidingEventTimeWindows.of(ms(10), ms(5))
END = (1 << 63) - 1


def test_tumbling_windows_fire_when_the_watermark_passes_their_end(shown: Any, empty: Any) -> None:
    with shown(TUMBLING) as run:
        run.process_elements([("a", 1), ("b", 2), ("a", 3), ("a", 4)], [0, 3, 9, 10])
        run.process_watermark(8)
        assert run.extract_output_values() == []
        run.process_watermark(9)
        assert run.extract_output_values() == [("a", "0-10", "1 3"), ("b", "0-10", "2")]
        run.clear_output()
        run.process_watermark(30)
        assert run.extract_output_values() == [("a", "10-20", "4")]
        assert empty(run)


def test_windows_before_1970_and_with_an_offset(shown: Any) -> None:
    with shown(TumblingEventTimeWindows.of(ms(10), ms(3))) as run:
        run.process_elements([("a", 1), ("a", 2), ("a", 3)], [-8, -7, 2])
        run.process_watermark(END)
    assert run.extract_output_values() == [("a", "-17--7", "1"), ("a", "-7-3", "2 3")]


def test_a_window_that_would_end_after_the_end_of_time_stops_the_job_by_name(shown: Any) -> None:
    """No such window ever ends. In Flink 64 bits overflow there, and its records are lost without an error."""
    with shown(TumblingEventTimeWindows.of(ms(1_000))) as run:
        with pytest.raises(UserFunctionError, match=r"'a'.*9223372036854776"):
            run.process_element(("a", 1), END - 1)
        run.process_element(("a", 2), END - 1_000)
        run.process_watermark(END)
        assert [(key, numbers) for key, _, numbers in run.extract_output_values()] == [("a", "2")]


def test_windows_of_very_many_times(shown: Any, empty: Any) -> None:
    times = [number * 7_919 % 25_000 for number in range(5_000)]
    with shown(SLIDING) as run:
        run.process_elements([("a", time) for time in times], times)
        run.process_watermark(END)
        given = run.extract_output_values()
        assert empty(run)
    expected: dict[str, list[str]] = {}
    for time in sorted(times):  # records of an epoch come in that order
        for start in (time - time % 5, time - time % 5 - 5):
            expected.setdefault(f"{start}-{start + 10}", []).append(str(time))
    assert len(expected) > 2 * 1_000, "more than are kept"
    assert {window: numbers for _, window, numbers in given} == {w: " ".join(n) for w, n in expected.items()}


class ByNumber(TumblingEventTimeWindows):
    """Assigns odd numbers windows that are ten times as long."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        windows = super().assign_windows(element, timestamp, context)
        return windows if element.n % 2 == 0 else [TimeWindow(0, 100)]


def test_an_assigner_of_time_may_be_made_to_look_at_the_record(shown: Any) -> None:
    with shown(ByNumber(10)) as run:
        run.process_elements([("a", 2), ("a", 1), ("a", 4), ("a", 3)], [1, 2, 3, 4])
        run.process_watermark(END)
        assert run.extract_output_values() == [("a", "0-10", "2 4"), ("a", "0-100", "1 3")]


def test_sliding_windows_overlap(shown: Any, empty: Any) -> None:
    with shown(SLIDING) as run:
        run.process_elements([("a", 1), ("a", 2), ("a", 3)], [1, 6, 12])
        run.process_watermark(END)
        assert run.extract_output_values() == [
            ("a", "-5-5", "1"), ("a", "0-10", "1 2"), ("a", "5-15", "2 3"), ("a", "10-20", "3"),
        ]  # fmt: skip
        assert empty(run)


def test_a_record_that_is_in_no_window(shown: Any, empty: Any) -> None:
    with shown(SlidingEventTimeWindows.of(ms(2), ms(10))) as run:
        run.process_element(("a", 1), 5)
        assert empty(run)


def test_processing_time_windows_fire_by_the_epochs_time(shown: Any, empty: Any) -> None:
    with shown(TumblingProcessingTimeWindows.of(ms(10))) as run:
        run.set_processing_time(3)
        run.process_elements([("a", 1), ("b", 2)])
        run.set_processing_time(8)
        run.process_element(("a", 3))
        assert run.extract_output_values() == []
        run.set_processing_time(25)
        assert run.extract_output_values() == [("a", "0-10", "1 3"), ("b", "0-10", "2")]
        assert empty(run)


def test_sliding_by_processing_time(shown: Any, empty: Any) -> None:
    with shown(SlidingProcessingTimeWindows.of(ms(10), ms(5))) as run:
        run.set_processing_time(7)
        run.process_element(("a", 1), 1_000_000)
        run.set_processing_time(9)
        assert run.extract_output_values() == [("a", "0-10", "1")]
        run.set_processing_time(100)
        assert run.extract_output_values() == [("a", "0-10", "1"), ("a", "5-15", "1")]
        assert empty(run)


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING], ids=repr)
@pytest.mark.parametrize("how", ["reduce", "aggregate", "apply", "process"])
def test_state_of_every_way_is_restored_and_cleared(windowed: Any, how: str, assigner: Any, total: Any) -> None:
    def start(parallelism: int) -> Any:
        return ends(windowed(assigner, parallelism=parallelism), how, total)

    keys = [f"k{n}" for n in range(12)]
    rows = {}
    for parallelism in ([1, 1, 1], [1, 3, 2]):
        run, emitted = start(parallelism[0]), []
        for step, subtasks in enumerate(parallelism):
            if step:
                snapshot, run = run.snapshot(), start(subtasks)
                run.initialize_state(snapshot)
            run.process_elements([(k, n) for n, k in enumerate(keys)], [step * 6 + n % 3 for n in range(12)])
            run.process_watermark(step * 6)
            emitted += run.extract_output_values()
            run.clear_output()
        run.process_watermark(END)
        emitted += run.extract_output_values()
        assert not any(map(len, run.snapshot().states().values()))
        assert run.num_event_time_timers() == 0
        rows[tuple(parallelism)] = sorted(map(repr, emitted))
    assert rows[1, 1, 1] == rows[1, 3, 2]
    assert len(rows[1, 1, 1]) == 12 * (2 if assigner is TUMBLING else 4)


class Applied(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window.start, sum(i.n for i in inputs))]


class Processed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window().start, sum(e.n for e in elements)


def ends(stream: Any, how: str, total: Any) -> Any:
    output = "k string, start bigint, n bigint"
    if how == "reduce":
        return stream.reduce(lambda a, b: (a.k, a.n + b.n), Applied(), output)
    if how == "aggregate":
        return stream.aggregate(total, output_type="what string, n bigint, sum bigint")
    return stream.apply(Applied(), output) if how == "apply" else stream.process(Processed(), output)


class TestReduceAndAggregate:
    def test_reduce_alone_gives_the_record_that_is_left(self, windowed: Any, sum_of_n: Any) -> None:
        with windowed(TUMBLING).reduce(sum_of_n) as run:
            run.process_elements([("a", 1), ("b", 5), ("a", 2)], [1, 2, 3])
            snapshot = run.snapshot()
            assert snapshot.states()["window-contents"].keys() == snapshot.timers(TimeDomain.EVENT_TIME).keys()
            run.process_watermark(9)
        assert run.extract_output_values() == [("a", 3), ("b", 5)]

    def test_one_record_is_not_reduced(self, windowed: Any) -> None:
        with windowed(TUMBLING).reduce(lambda a, b: 1 / 0) as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
        assert run.extract_output_values() == [("a", 1)]

    @pytest.mark.parametrize("function", [Applied(), Processed()])
    def test_a_window_function_gets_the_one_record(self, windowed: Any, sum_of_n: Any, function: Any) -> None:
        with windowed(TUMBLING).reduce(sum_of_n, function, "k string, start bigint, n bigint") as run:
            run.process_elements([("a", 1), ("a", 2), ("a", 4)], [1, 2, 11])
            run.process_watermark(19)
        assert run.extract_output_values() == [("a", 0, 3), ("a", 10, 4)]

    def test_aggregate_gives_the_result(self, windowed: Any, total: Any) -> None:
        with windowed(TUMBLING).aggregate(total, output_type="what string, n bigint, sum bigint") as run:
            run.process_elements([("a", 1), ("b", 5), ("a", 2)], [1, 2, 3])
            run.process_watermark(9)
        assert run.extract_output_values() == [("total", 2, 3), ("total", 1, 5)]

    def test_a_window_function_gets_the_result(self, windowed: Any, total: Any) -> None:
        class Named(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
                ((_, count, total),) = inputs
                yield key, window.end, count, total

        output = "k string, until bigint, n bigint, sum bigint"
        with windowed(TUMBLING).aggregate(total, Named(), output_type=output) as run:
            run.process_elements([("a", 1), ("a", 2)], [1, 2])
            run.process_watermark(9)
        assert run.extract_output_values() == [("a", 10, 2, 3)]

    def test_contents_are_kept_folded(self, windowed: Any, total: Any, sum_of_n: Any) -> None:
        streams = [
            windowed(TUMBLING).aggregate(total, output_type="what string, n bigint, sum bigint"),
            windowed(TUMBLING).reduce(sum_of_n),
        ]
        for run in streams:
            run.process_elements([("a", n) for n in range(50)], [n % 10 for n in range(50)])
            assert run.snapshot().table("window-contents").num_rows == 1


class TestOutput:
    def test_side_outputs_of_window_functions(self, windowed: Any, late: OutputTag) -> None:
        class Split(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
                for value in inputs:
                    yield (late, value) if value.n > 5 else value

        with windowed(TUMBLING).apply(Split(), "k string, n bigint") as run:
            run.process_elements([("a", 1), ("a", 9)], [1, 2])
            run.process_watermark(9)
        assert run.extract_output_values() == [("a", 1)]
        assert run.get_side_output(late) == [("a", 9)]

    def test_a_function_may_give_nothing(self, windowed: Any) -> None:
        class Silent(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> None:
                return None

        with windowed(TUMBLING).apply(Silent(), "k string") as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
        assert run.extract_output_values() == []

    def test_the_window_is_what_is_left_in_sql(self, shown: Any) -> None:
        with shown(TUMBLING) as run:
            run.process_elements([("a", 1), ("a", 2)], [-3, 1_700_000_000_001])
            rows = run.snapshot().table("window-contents").to_pylist()
        assert [(r["k"], r["namespace"], r["value"]) for r in sorted(rows, key=lambda r: len(r["namespace"]))] == [
            ("a", "-10/0", {"k": "a", "n": 1}),
            ("a", "1700000000000/1700000000010", {"k": "a", "n": 2}),
        ]
