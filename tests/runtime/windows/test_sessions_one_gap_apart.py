"""Sessions exactly one gap apart are one, wherever epochs and subtasks separate records of one millisecond."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import Aggregate, AggregateFunction, Duration, OutputTag, WatermarkStrategy, WindowFunction
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from state_engine.epoch.ports import OperatorPlan, StreamEdge
from state_engine.epoch.watermarks import advance
from state_engine.log.records import Ack, HighestTime
from state_engine.testing import windowed_harness

GAP = 3
END = (1 << 63) - 1
INPUT = "k string, n bigint"
OUTPUT = "k string, first bigint, until bigint, number bigint"
LATE = OutputTag("late", INPUT)
Records = list[tuple[str, int]]
"""Key and event time."""


class Bounds(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, window.end, len(list(inputs))


class Counted(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (number,) = inputs
        yield key, window.start, window.end, number


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


FORMS: dict[str, Callable[[Any], Any]] = {
    "kept": lambda stream: stream.apply(Bounds(), OUTPUT),
    "aggregated": lambda stream: stream.aggregate(Count(), Counted(), output_type=OUTPUT),
    "declared": lambda stream: stream.aggregate({"number": Aggregate.count()}),
}


def shown(row: Any) -> Any:
    key, first, until, number = row
    return key, *(_ms(one) if isinstance(one, datetime) else one for one in (first, until)), number


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def sessions_of(records: Records) -> Counter[Any]:
    """Returns the sessions of records by definition: a record at most one gap after the last one is in its session."""
    sessions: Counter[Any] = Counter()
    for key in {key for key, _ in records}:
        first = last = number = None
        for at in sorted(time for of, time in records if of == key):
            if last is not None and at - last <= GAP:
                last, number = at, number + 1
                continue
            if last is not None:
                sessions[key, first, last + GAP, number] += 1
            first, last, number = at, at, 1
        sessions[key, first, last + GAP, number] += 1
    return sessions


def parts_of(records: Records, cuts: set[int]) -> list[Records]:
    """Cuts records into epochs."""
    ends = [*sorted(cut for cut in cuts if 0 < cut < len(records)), len(records)]
    return [records[first:last] for first, last in zip([0, *ends], ends, strict=False)]


def run(form: str, parts: list[Records], bound: int, *, follows: bool, parallelism: int) -> Counter[Any]:
    """Returns the output of sessions; a watermark that does not follow records moves between epochs, as in a driver."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    more = {"watermark_strategy": strategy} if follows else {}
    stream = windowed_harness(
        EventTimeSessionWindows(GAP), "k", INPUT, side_outputs=[LATE], parallelism=parallelism, **more
    ).side_output_late_data(LATE)
    moved = Watermarks(StreamEdge(out_of_orderness=bound))
    with FORMS[form](stream) as running:
        for part in parts:
            running.process_elements([(key, 0) for key, _ in part], [at for _, at in part])
            if not follows:
                running.process_watermark(moved.behind([at for _, at in part]))
        running.process_watermark(END)
        assert not running.get_side_output(LATE)
        return Counter(map(shown, running.extract_output_values()))


class Watermarks:
    """The watermarks that the driver gives an operator `a`, and `b` downstream of it."""

    def __init__(self, edge: StreamEdge) -> None:
        edges = {"a": edge, "b": StreamEdge(upstream="a")}
        self._plans = [OperatorPlan(uid=uid, parallelism=1, max_parallelism=8, edges=(e,)) for uid, e in edges.items()]
        self.now: dict[str, int] = {}
        self._times: dict[str, tuple[HighestTime, ...]] = {}

    def behind(self, times: list[int]) -> int:
        """Returns the watermark of `a` after an epoch."""
        seen = (HighestTime(edge=0, time=max(times)),) if times else ()
        ack = Ack(uid="a", subtask=0, attempt="", records_in=0, records_out=0, event_times=seen)
        self.now, self._times = advance(self._plans, self.now, self._times, {"a": [ack]}, 0, 0)
        return self.now["a"]


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([0, 0, 1, GAP - 1, GAP, GAP + 1])), min_size=1, max_size=12
)


def records_of(steps: list[tuple[str, int]]) -> Records:
    at, records = 100, []
    for key, later in steps:
        at += later
        records.append((key, at))
    return records


@pytest.mark.hypothesis
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("follows", [True, False], ids=["follows", "planned"])
def test_sessions_are_those_of_the_book_wherever_a_tie_is_cut(form: str, follows: bool) -> None:
    @settings(max_examples=max(15, settings.default.max_examples // 5))
    @given(
        steps=steps,
        cuts=st.sets(st.integers(0, 11)),
        bound=st.sampled_from([0, 2]),
        parallelism=st.integers(1, 2),
    )
    def check(steps: list[tuple[str, int]], cuts: set[int], bound: int, parallelism: int) -> None:
        records = records_of(steps)
        parts = parts_of(records, cuts)
        assert run(form, parts, bound, follows=follows, parallelism=parallelism) == sessions_of(records)

    check()


@pytest.mark.parametrize("form", FORMS)
def test_a_record_of_the_same_millisecond_in_the_next_epoch_joins(form: str) -> None:
    """Another key's record at 9 does not close a session that ends there."""
    parts = [[("a", 6), ("b", 9)], [("a", 9)]]
    wanted = Counter({("a", 6, 12, 2): 1, ("b", 9, 12, 1): 1})
    assert run(form, parts, 0, follows=True, parallelism=2) == wanted


@pytest.mark.parametrize("form", FORMS)
def test_a_record_one_gap_later_joins_within_an_epoch(form: str) -> None:
    assert run(form, [[("a", 6), ("a", 9)]], 0, follows=True, parallelism=1) == Counter({("a", 6, 12, 2): 1})


def windows_of_windows(parts: list[Records]) -> Counter[Any]:
    """Returns sessions over the rows of one-millisecond windows; each row has the event time of its record."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    one = windowed_harness(TumblingEventTimeWindows(1), "k", INPUT, watermark_strategy=strategy)
    other = windowed_harness(EventTimeSessionWindows(GAP), "k", INPUT, side_outputs=[LATE])
    moved = Watermarks(StreamEdge(out_of_orderness=0))
    with one.apply(Bounds(), OUTPUT) as first, FORMS["kept"](other.side_output_late_data(LATE)) as second:

        def epoch(given: Callable[[], None]) -> None:
            """Passes rows of the first operator to the second in the same epoch; its watermark is an epoch older."""
            if (watermark := moved.now.get("b")) is not None:
                second.process_watermark(watermark)
            given()
            rows = first.extract_output_values()
            first.clear_output()
            second.process_elements([(row[0], 0) for row in rows], [row[1] for row in rows])

        for part in parts:
            epoch(lambda part=part: first.process_elements([(key, 0) for key, _ in part], [at for _, at in part]))
            moved.behind([at for _, at in part])
        epoch(lambda: first.process_watermark(END))
        second.process_watermark(END)
        assert not second.get_side_output(LATE)
        return Counter(tuple(row)[:3] for row in second.extract_output_values())


@settings(max_examples=max(15, settings.default.max_examples // 5))
@given(steps=steps, cuts=st.sets(st.integers(0, 11)))
def test_windows_of_windows_do_not_depend_on_cuts(steps: list[tuple[str, int]], cuts: set[int]) -> None:
    records = records_of(steps)
    assert windows_of_windows(parts_of(records, cuts)) == Counter(key[:3] for key in sessions_of(records))


def test_a_row_one_above_the_upstream_watermark_joins() -> None:
    """The window of 9 fires when 11 comes; the upstream watermark of the second epoch is 8 then."""
    parts = [[("a", 6), ("a", 9), ("b", 10)], [("b", 10)], [("b", 11)]]
    assert windows_of_windows(parts) == Counter([("a", 6, 12), ("b", 10, 14)])
