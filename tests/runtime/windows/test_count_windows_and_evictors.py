"""Count windows, and evictors, through the operator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import ProcessWindowFunction, ReduceFunction, Row, Time, Types, ValueStateDescriptor
from state_engine.api.windows import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from state_engine.testing import windowed_harness

ms = Time.milliseconds
TUMBLING = TumblingEventTimeWindows.of(ms(10))
END = (1 << 63) - 1
RECORDS = [(key, n) for n in range(1, 8) for key in "ab"]


def seen(run: Any, key: str = "a") -> list[str]:
    return [s for k, _, s in run.extract_output_values() if k == key]


class TestCountWindows:
    def test_every_so_many_records_of_a_key(self, shown: Any) -> None:
        with shown(CountTumblingWindowAssigner.of(3)) as run:
            run.process_elements(RECORDS)
            assert seen(run, "a") == seen(run, "b") == ["1 2 3", "4 5 6"]
            contents = run.snapshot().states()["window-contents"]
            assert [[e.n for e in elements] for elements in contents.values()] == [[7], [7]]

    def test_sliding_windows_fire_when_they_are_full(self, shown: Any) -> None:
        with shown(CountSlidingWindowAssigner.of(3, 2)) as run:
            for record in RECORDS:
                run.process_element(record)
            assert seen(run) == ["1 2 3", "3 4 5", "5 6 7"]

    def test_a_full_window_leaves_nothing_but_the_number_of_the_next_one(self, shown: Any) -> None:
        with shown(CountSlidingWindowAssigner.of(2, 2)) as run:
            run.process_elements([("a", 1), ("a", 2)])
            states = run.snapshot().states()
        left = {"window": 1, "records": 2, "open": []}
        assert {name: found for name, found in states.items() if found} == {"slide-count-assigner": {"a": Row(**left)}}

    def test_a_full_window_is_over_for_its_function_too(self, windowed: Any) -> None:
        class Counts(ProcessWindowFunction[Any, Any, Any, Any]):
            calls = ValueStateDescriptor("calls", Types.LONG())

            def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
                context.window_state().get_state(self.calls).update(1)
                yield key, len(list(elements))

            def clear(self, context: Any) -> None:
                assert context.window_state().get_state(self.calls).value() == 1
                context.window_state().get_state(self.calls).clear()

        with windowed(CountTumblingWindowAssigner.of(2)).process(Counts(), "k string, n bigint") as run:
            run.process_elements([("a", 1), ("a", 2)])
            assert run.extract_output_values() == [("a", 2)]
            assert run.snapshot().states()["calls"] == {}

    def test_with_a_trigger_of_the_authors_a_window_is_kept(self, shown: Any) -> None:
        with shown(CountTumblingWindowAssigner.of(4), lambda s: s.trigger(CountTrigger.of(2))) as run:
            run.process_elements([("a", n) for n in range(1, 7)])
        assert seen(run) == ["1 2", "1 2 3 4", "5 6"]

    def test_the_count_goes_on_after_a_restore(self, shown: Any) -> None:
        with shown(CountTumblingWindowAssigner.of(3), parallelism=2) as run:
            run.process_elements(RECORDS[:4])
        with shown(CountTumblingWindowAssigner.of(3), parallelism=3) as other:
            other.initialize_state(run.snapshot())
            other.process_elements(RECORDS[4:])
        assert seen(other, "a") == seen(other, "b") == ["1 2 3", "4 5 6"]


class TestEvictors:
    def test_the_last_ones_of_a_global_window(self, shown: Any) -> None:
        """Flink's `countWindow(size, slide)` in Java: from the first slide on, the last `size` records."""

        def more(stream: Any) -> Any:
            return stream.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3))

        with shown(GlobalWindows.create(), more) as run:
            for record in RECORDS:
                run.process_element(record)
            assert seen(run) == ["1 2", "2 3 4", "4 5 6"]
            assert [len(e) for e in run.snapshot().states()["window-contents"].values()] == [4, 4]

    def test_after_the_function_it_has_still_seen_them(self, shown: Any) -> None:
        def more(stream: Any) -> Any:
            return stream.trigger(CountTrigger.of(3)).evictor(CountEvictor.of(1, True))

        with shown(GlobalWindows.create(), more) as run:
            run.process_elements(RECORDS)
        assert seen(run) == ["1 2 3", "3 4 5 6"]

    def test_by_event_time(self, shown: Any, empty: Any) -> None:
        with shown(TUMBLING, lambda s: s.evictor(TimeEvictor.of(ms(4)))) as run:
            run.process_elements([("a", 1), ("a", 2), ("a", 3)], [1, 5, 8])
            run.process_watermark(9)
            assert seen(run) == ["2 3"]
            assert empty(run)

    def test_by_difference_after_a_restore(self, shown: Any, empty: Any) -> None:
        def more(stream: Any) -> Any:
            return stream.evictor(DeltaEvictor.of(10, lambda value, last: abs(value.n - last.n)))

        with shown(TUMBLING, more) as run:
            run.process_elements([("a", 1), ("a", 22), ("a", 18)], [1, 2, 3])
        with shown(TUMBLING, more, parallelism=3) as other:
            other.initialize_state(run.snapshot())
            other.process_element(("a", 20), 4)
            other.process_watermark(9)
            assert seen(other) == ["22 18 20"]
            assert empty(other)

    def test_elements_of_sessions_that_merge_keep_their_times(self, shown: Any, empty: Any) -> None:
        sessions = EventTimeSessionWindows.with_gap(ms(10))
        with shown(sessions, lambda s: s.evictor(TimeEvictor.of(ms(15)))) as run:
            for n, at in ((1, 0), (2, 20), (3, 10)):
                run.process_element(("a", n), at)
            run.process_watermark(END)
            assert seen(run) == ["2 3"]
            assert empty(run)

    def test_what_is_left_is_reduced_or_aggregated(self, windowed: Any, sum_of_n: Any, total: Any) -> None:
        records, times = [("a", 1), ("a", 2), ("a", 4)], [1, 2, 3]
        with windowed(TUMBLING).evictor(CountEvictor.of(2)).reduce(sum_of_n) as run:
            run.process_elements(records, times)
            run.process_watermark(9)
            assert run.extract_output_values() == [("a", 6)]
        output = "what string, n bigint, sum bigint"
        with windowed(TUMBLING).evictor(CountEvictor.of(2)).aggregate(total, output_type=output) as run:
            run.process_elements(records, times)
            run.process_watermark(9)
            assert run.extract_output_values() == [("total", 2, 6)]

    def test_nothing_is_left(self, windowed: Any, shown: Any, sum_of_n: Any, total: Any) -> None:
        def evicting(stream: Any) -> Any:
            return stream.evictor(CountEvictor.of(0))

        runs = [
            shown(TUMBLING, evicting),
            evicting(windowed(TUMBLING)).reduce(sum_of_n),
            evicting(windowed(TUMBLING)).aggregate(total, output_type="what string, n bigint, sum bigint"),
        ]
        rows = []
        for run in runs:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
            rows.append(run.extract_output_values())
        assert rows == [[("a", "0-10", "")], [], [("total", 0, 0)]]

    def test_functions_are_opened_where_they_are_called(self, windowed: Any) -> None:
        class Opened(ReduceFunction):
            factor = 0

            def open(self, runtime_context: Any) -> None:
                self.factor = 10 + runtime_context.get_index_of_this_subtask()

            def reduce(self, value1: Any, value2: Any) -> Any:
                return value1.k, value1.n + value2.n * self.factor

        for stream in (windowed(TUMBLING), windowed(TUMBLING).evictor(CountEvictor.of(5))):
            with stream.reduce(Opened()) as run:
                run.process_elements([("a", 1), ("a", 2)], [1, 2])
                run.process_watermark(9)
                assert run.extract_output_values() == [("a", 21)]

    def test_an_evictor_of_the_authors(self, shown: Any) -> None:
        calls: list[Any] = []

        class Odd(Evictor):
            def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
                calls.append((size, window.start, ctx.get_current_watermark(), ctx.get_current_processing_time()))
                elements[:] = [e for e in elements if e.value.n % 2]

            def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> None:
                calls.append(size)
                del elements[0]

        with shown(TUMBLING, lambda s: s.evictor(Odd()).allowed_lateness(5)) as run:
            run.set_processing_time(77)
            run.process_elements([("a", n) for n in range(1, 6)], [1, 2, 3, 4, 5])
            run.process_watermark(9)
            run.process_element(("a", 7), 6)
        assert seen(run) == ["1 3 5", "3 5 7"]
        assert calls == [(5, 0, 9, 77), 3, (3, 0, 9, 77), 3]


@dataclass
class Click:
    k: str
    n: int


@pytest.mark.parametrize("evictor", [None, CountEvictor(9)])
def test_dataclasses_stay_dataclasses(evictor: Any) -> None:
    class Kinds(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            return [(" ".join(type(e).__name__ for e in elements),)]

    stream = windowed_harness(TUMBLING, "k", Click)
    if evictor is not None:
        stream = stream.evictor(evictor)
    with stream.process(Kinds(), "kinds string") as run:
        run.process_element(Click("a", 1), 1)
        run.close()
        run.process_element(("a", 2), 2)
        run.process_watermark(9)
    assert run.extract_output_values() == [("Click Click",)]
