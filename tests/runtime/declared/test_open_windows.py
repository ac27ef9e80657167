"""State of open windows: how much of it is in memory at once, what is read, and which timers fire."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from state_engine.api import Aggregate, KeyedProcessFunction
from state_engine.api.keys import Keys
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from state_engine.backends.batch_keys import namespaced_keys
from state_engine.backends.columns.states import ListColumns
from state_engine.backends.keys import Namespaced
from state_engine.errors import JobDefinitionError, OutputTypeError, UserFunctionError
from state_engine.runtime.declared import windows as declared
from state_engine.runtime.declared.windowed import bounds_of
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing import windowed_harness

INPUT = "k string, v bigint"
N = {"n": Aggregate.count()}
LAST_MS = 253_402_300_799_999  # of the year 9999
FIRST_MS = -62_135_596_800_000  # of the year 1


def aggregated(assigner, aggregates=None, **options):
    return windowed_harness(assigner, "k", INPUT, **options).aggregate(aggregates or N)


def rows_of(harness):
    return [tuple(row) for row in harness.extract_output_values()]


def slices(assigner, times, over):
    function = declared.WindowAggregation(["k"], assigner, N, parse_columns_ddl(INPUT))
    keys = Keys([pa.array(["a"] * len(times))], lambda _: ["a"], pa.array(times))
    last, counts = function._open(function._event_times(keys), over)
    return list(function._pairs(last, counts))


def test_few_pairs_of_records_and_windows_are_in_memory_at_once():
    size, slide = 3_600_000, 1000
    parts = slices(SlidingEventTimeWindows(size, slide), list(range(0, 10_000, 10)), -(2**63))
    assert sum(len(records) for records, _ in parts) == 3_600_000
    assert max(len(records) for records, _ in parts) <= declared._PAIRS + size // slide
    assert len(parts) == 4


@pytest.mark.parametrize("over", [-(2**63), 2**63 - 1, 35, 41])
def test_windows_that_are_over_are_not_in_memory(over):
    pairs = [
        (int(record), int(start))
        for part in slices(SlidingEventTimeWindows(10, 3, 1), [40, 31, 45], over)
        for record, start in zip(*part, strict=True)
    ]
    wanted = [
        (record, start)
        for record, at in enumerate([40, 31, 45])
        for start in range(at + 1, at - 20, -1)
        if start % 3 == 1 and start <= at < start + 10 and start + 9 > over
    ]
    assert pairs == wanted


@pytest.mark.parametrize("pairs", [1, 2, 7])
def test_slices_do_not_change_results(monkeypatch, pairs):
    aggregates = {**N, "t": Aggregate.sum("v"), "all": Aggregate.collect("v"), "last": Aggregate.last("v")}
    results = []
    for _ in range(2):
        with aggregated(SlidingEventTimeWindows(10, 3), aggregates) as one:
            for times in ([1, 5, 9, 30], [12, 4, 31, 22]):
                one.process_elements([("ab"[at % 2], at) for at in times], times)
                one.process_watermark(times[0] + 5)
            one.end_input()
            results.append(rows_of(one))
        monkeypatch.setattr(declared, "_PAIRS", pairs)
    assert results[0] == results[1]


def test_lists_are_read_when_windows_end(monkeypatch):
    read = []
    get_many = ListColumns.get_many
    monkeypatch.setattr(ListColumns, "get_many", lambda *of: read.append(of) or get_many(*of))
    with aggregated(TumblingEventTimeWindows(10), {"all": Aggregate.collect("v")}) as one:
        for value in range(3):
            one.process_elements([("a", value)], [1])
        assert not read
        one.end_input()
        assert [row[-1] for row in rows_of(one)] == [[0, 1, 2]]


def test_a_count_that_is_new_in_an_open_window_is_none():
    with aggregated(TumblingEventTimeWindows(10), {"t": Aggregate.sum("v")}) as one:
        one.process_elements([("a", 5)], [1])
        snapshot = one.snapshot()
    other = aggregated(
        TumblingEventTimeWindows(10),
        {"t": Aggregate.sum("v"), **N, "values": Aggregate.count("v"), "all": Aggregate.collect("v")},
    )
    other.initialize_state(snapshot)
    with other:
        other.end_input()
        assert [row[3:] for row in rows_of(other)] == [(5, 0, 0, [])]


class Timers(KeyedProcessFunction):
    """Another function, which had the same uid before."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(7)
        if value[1]:
            ctx.timer_service().register_event_time_timer(5)


def snapshot_of_another(value):
    with Harness(Timers(), "k", INPUT, "k string") as one:
        one.process_elements([("a", value)], [1])
        return one.snapshot()


def test_timers_of_another_function_are_named():
    other = aggregated(TumblingEventTimeWindows(10))
    other.initialize_state(snapshot_of_another(1))
    with other, pytest.raises(UserFunctionError, match="another function had this uid") as caught:
        other.process_watermark(20)
    assert caught.value.action == "Give the operator another uid."


@pytest.mark.parametrize("entry", ["a", Namespaced("a", "global"), Namespaced("a", "5")])
def test_timers_of_what_is_no_window_of_time_are_named(entry):
    with pytest.raises(JobDefinitionError, match="belongs to no time window"):
        bounds_of(namespaced_keys([entry], lambda keys: [pa.array(keys)]))


def test_processing_time_timers_of_another_function_do_not_stay():
    other = aggregated(TumblingEventTimeWindows(10))
    other.initialize_state(snapshot_of_another(0))
    with other:
        other.set_processing_time(6)
        assert other.num_processing_time_timers() == 1
        other.set_processing_time(7)
        assert other.num_processing_time_timers() == 0
        other.process_elements([("a", 1)], [1])
        other.end_input()
        assert [row[-1] for row in rows_of(other)] == [1]


def test_rows_that_are_not_as_declared_are_named_as_those_of_a_batch_are():
    function = declared.WindowAggregation(["k"], TumblingEventTimeWindows(10), N, parse_columns_ddl(INPUT))
    function.fire = lambda keys, ctx: pa.table({"k": ["a"]})
    with Harness(function, "k", INPUT, function.output) as one:
        one.process_elements([("a", 1)], [1])
        with pytest.raises(OutputTypeError, match="the declared columns are k, window_start, window_end, n"):
            one.process_watermark(20)


@pytest.mark.parametrize(("at", "start"), [
    (LAST_MS - 1, datetime(9999, 12, 31, 23, 59, 59, 998_000, UTC)), (FIRST_MS, datetime(1, 1, 1, tzinfo=UTC)),
])  # fmt: skip
def test_the_first_and_the_last_window_that_python_can_read(at, start):
    with aggregated(TumblingEventTimeWindows(1)) as one:
        one.process_elements([("a", 1)], [at])
        one.end_input()
        assert rows_of(one) == [("a", start, start + timedelta(milliseconds=1), 1)]


@pytest.mark.parametrize("at", [LAST_MS, FIRST_MS - 1])
def test_windows_that_python_cannot_read_are_named(at):
    with (
        aggregated(TumblingEventTimeWindows(1)) as one,
        pytest.raises(UserFunctionError, match=f"event time is {at} ms: its windows have bounds outside the range"),
    ):
        one.process_elements([("a", 1), ("a", 1)], [5, at])
