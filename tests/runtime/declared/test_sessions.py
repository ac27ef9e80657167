"""Declared aggregates of sessions against their row form: any cut, late records, warm and restored."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from windowed_forms import EPOCH, LATE, by_columns, by_rows, found, rows_of

from state_engine.api import Aggregate, Duration, KeyedProcessFunction, OutputTag, WatermarkStrategy
from state_engine.api.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TimeWindow
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.runtime.declared import spans as declared
from state_engine.runtime.declared.sessions import SessionAggregation
from state_engine.runtime.declared.spans import Spans, joined
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing import windowed_harness

GAPS = [1, 5, 12]
SMALL = "k string, v bigint"
N = {"n": Aggregate.count()}
LAST_MS = 253_402_300_799_999  # of the year 9999
FIRST_MS = -62_135_596_800_000  # of the year 1


def sessions(gap=10, aggregates=None, key="k", **options):
    return windowed_harness(EventTimeSessionWindows(gap), key, SMALL, **options).aggregate(aggregates or N)


def stored(harness):
    """The sessions of each key: start, end and namespace."""
    return {key: [tuple(one) for one in listed] for key, listed in harness.snapshot().states()["sessions"].items()}


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_the_row_form(gap, backend, restored):
    assigner = EventTimeSessionWindows(gap)

    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(st.lists(st.tuples(EPOCH, st.integers(0, 20)), max_size=6))
    def check(epochs):
        options = {"side_outputs": [LATE]}
        rows, columns = by_rows(assigner, **options), by_columns(assigner, state_backend=backend, **options)
        watermark = -20
        for one in (rows, columns):
            one.process_watermark(watermark)
        for timed, further in epochs:
            watermark += further
            for one in (rows, columns):
                one.process_elements([record for record, _ in timed], [at for _, at in timed])
                one.process_watermark(watermark)
            assert sorted(rows_of(columns)) == sorted(rows_of(rows))
            assert list(map(repr, columns.get_side_output(LATE))) == list(map(repr, rows.get_side_output(LATE)))
            for one in (rows, columns):
                one.clear_output()
            assert columns.num_event_time_timers() == rows.num_event_time_timers()
            if restored:
                snapshot = columns.snapshot()
                columns.close()
                columns = by_columns(assigner, state_backend=backend, **options)
                columns.initialize_state(snapshot)
        for one in (rows, columns):
            one.end_input()
        assert sorted(rows_of(columns)) == sorted(rows_of(rows))
        assert columns.num_event_time_timers() == 0
        assert columns.num_keyed_state_entries() == 0
        for one in (rows, columns):
            one.close()

    check()


@pytest.mark.hypothesis
@pytest.mark.parametrize("gap", GAPS)
def test_equals_the_row_form_after_an_ordered_source(gap):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    options = {"side_outputs": [LATE], "watermark_strategy": strategy}

    @settings(max_examples=max(10, settings.default.max_examples // 4))
    @given(st.lists(EPOCH, max_size=6))
    def check(epochs):
        results = []
        for make in (by_rows, by_columns):
            with make(EventTimeSessionWindows(gap), **options) as one:
                for timed in epochs:
                    one.process_elements([record for record, _ in timed], [at for _, at in timed])
                one.end_input()
                results.append((sorted(rows_of(one)), list(map(repr, one.get_side_output(LATE)))))
        assert results[0] == results[1]

    check()


def random_epochs(seed, epochs=12, records=40):
    rng = random.Random(seed)
    for epoch in range(epochs):
        times = [epoch * 60 + rng.randrange(-90, 60) for _ in range(records)]
        yield [(rng.choice("abcd"), rng.choice([None, *range(20)])) for _ in times], times, epoch * 60 + 10


@pytest.mark.slow
@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("seed", range(4))
def test_any_cut_of_an_epoch_into_calls_gives_the_same(monkeypatch, seed):
    aggregates = {
        **N, "t": Aggregate.sum("v"), "all": Aggregate.collect("v"), "first": Aggregate.first("v"),
        "last": Aggregate.last("v"), "m": Aggregate.avg("v"),
    }  # fmt: skip
    late = OutputTag("late", SMALL)
    results = []
    whole = SessionAggregation.process_batch
    for cut in (1, 3, 1000):

        def in_parts(self, keys, batch, ctx, cut=cut):
            for at in range(0, len(keys), cut):
                part = batch.slice(at, cut)
                yield whole(self, keys.take(np.arange(at, at + len(part))), part, ctx)

        monkeypatch.setattr(SessionAggregation, "process_batch", in_parts)
        stream = windowed_harness(EventTimeSessionWindows(7), "k", SMALL, side_outputs=[late])
        with stream.side_output_late_data(late).aggregate(aggregates) as one:
            for records, times, watermark in random_epochs(seed):
                one.process_elements(records, times)
                one.process_watermark(watermark)
            one.end_input()
            results.append((sorted(map(repr, found(one))), one.get_side_output(late)))
    assert results[0] == results[1] == results[2]
    assert len(results[0][0]) > 50
    assert results[0][1]


def test_results_do_not_depend_on_where_epochs_are_cut():
    aggregates = {**N, "t": Aggregate.sum("v"), "least": Aggregate.min("v"), "m": Aggregate.avg("v")}
    timed = [(record, at) for records, times, _ in random_epochs(7) for record, at in zip(records, times, strict=True)]
    rng = random.Random(1)
    wanted = None
    for pieces in (1, 5, 60):
        cuts = sorted(rng.sample(range(len(timed)), pieces))
        with sessions(6, aggregates) as one:
            for start, end in zip([0, *cuts], [*cuts, len(timed)], strict=True):
                one.process_elements([record for record, _ in timed[start:end]], [at for _, at in timed[start:end]])
            one.end_input()
            wanted = wanted or sorted(found(one))
            assert sorted(found(one)) == wanted


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_many_sessions_become_one(backend):
    aggregates = {"all": Aggregate.collect("v"), "s": Aggregate.stddev("v"), "largest": Aggregate.max("v")}
    with sessions(10, aggregates, state_backend=backend) as one:
        one.process_elements([("a", at) for at in (0, 30, 60)], [0, 30, 60])
        assert one.num_event_time_timers() == 3
        assert stored(one)["a"] == [(0, 10, "0/10"), (30, 40, "30/40"), (60, 70, "60/70")]
        one.process_elements([("a", at) for at in (10, 20, 40, 50)], [10, 20, 40, 50])
        assert stored(one)["a"] == [(0, 70, "0/10")]
        assert one.num_event_time_timers() == 1
        one.process_watermark(68)
        assert found(one) == []
        one.process_watermark(69)
        [(_, start, end, values, deviation, largest)] = found(one)
        assert (start, end, values, largest) == (0, 70, [0, 10, 30, 20, 40, 60, 50], 60)
        assert deviation == pytest.approx(np.std([0, 10, 20, 30, 40, 50, 60], ddof=1))
        assert one.num_keyed_state_entries() == 0


def test_sessions_one_gap_apart_are_one_and_further_apart_two():
    with sessions(10) as one:
        one.process_elements([("a", 1)] * 4, [0, 10, 21, 21])
        one.end_input()
        assert found(one) == [("a", 0, 20, 2), ("a", 21, 31, 2)]


def test_several_sessions_of_a_key_end_together_while_another_stays():
    with sessions(10) as one:
        one.process_elements([("a", 1)] * 4 + [("b", 1)], [0, 20, 40, 100, 20])
        one.process_watermark(60)
        assert found(one) == [("a", 0, 10, 1), ("a", 20, 30, 1), ("b", 20, 30, 1), ("a", 40, 50, 1)]
        assert stored(one) == {"a": [(100, 110, "100/110")]}
        one.process_elements([("a", 1)], [95])
        one.end_input()
        assert found(one)[4:] == [("a", 95, 110, 2)]


def test_late_records_that_touch_an_open_session_are_in_it():
    """A late record that a later late one would connect to the session is still late: records come one by one."""
    late = OutputTag("late", SMALL)
    stream = windowed_harness(EventTimeSessionWindows(10), "k", SMALL, side_outputs=[late])
    with stream.side_output_late_data(late).aggregate({"all": Aggregate.collect("v")}) as one:
        one.process_elements([("a", 50)], [50])
        one.process_watermark(55)
        one.process_elements([("a", at) for at in (10, 35, 44, 45)] + [("b", 30)], [10, 35, 44, 45, 30])
        one.process_elements([("a", 36)], [36])
        one.end_input()
        assert one.get_side_output(late) == [("a", 10), ("b", 30), ("a", 35)]
        assert [(row[1], row[2], sorted(row[3])) for row in found(one)] == [(36, 60, [36, 44, 45, 50])]


@pytest.mark.parametrize(("first", "other"), [(10, 100), (100, 10)])
def test_another_gap_leaves_open_sessions_as_they_were_until_a_record_extends_them(first, other):
    with sessions(first) as one:
        one.process_elements([("a", 1), ("b", 1)], [0, 0])
        snapshot = one.snapshot()
    later = sessions(other)
    later.initialize_state(snapshot)
    with later:
        later.process_elements([("b", 1)], [5])
        later.end_input()
        assert sorted(found(later)) == [("a", 0, first, 1), ("b", 0, max(first, 5 + other), 2)]


def test_a_sum_that_sessions_outgrow_together_stops_the_job():
    with sessions(10, {"total": Aggregate.sum("v")}) as one:
        one.process_elements([("a", 2**62), ("a", 2**62)], [0, 20])
        with pytest.raises(UserFunctionError, match="'total', the sum of 'v': a sum outgrew bigint"):
            one.process_elements([("a", 0)], [10])


def test_an_aggregate_that_is_new_counts_what_comes_then_also_in_sessions_that_become_one():
    with sessions(10, {"t": Aggregate.sum("v")}) as one:
        one.process_elements([("a", 5), ("a", 6)], [0, 20])
        snapshot = one.snapshot()
    later = sessions(10, {"t": Aggregate.sum("v"), "all": Aggregate.collect("v"), "first": Aggregate.first("v"), **N})
    later.initialize_state(snapshot)
    with later:
        later.process_elements([("a", 7)], [10])
        later.end_input()
        assert found(later) == [("a", 0, 30, 18, [7], 7, 1)]


def test_sessions_of_all_records():
    tag = OutputTag("late", SMALL)
    stream = windowed_harness(EventTimeSessionWindows(10), (), SMALL, side_outputs=[tag])
    with stream.side_output_late_data(tag).aggregate(N) as one:
        one.process_elements([("a", 1), ("b", 2), ("c", 3)], [1, 2, 31])
        one.process_watermark(12)
        assert one.get_output().schema.names == ["window_start", "window_end", "n"]
        one.process_elements([("d", 4)], [2])
        one.end_input()
        assert [row[2] for row in one.extract_output_values()] == [2, 1]
        assert one.get_side_output(tag) == [("d", 4)]


@pytest.mark.parametrize("at", [LAST_MS, FIRST_MS - 1, 2**62])
def test_sessions_that_python_cannot_read_are_named(at):
    with (
        sessions(1) as one,
        pytest.raises(UserFunctionError, match=f"event time is {at} ms: its windows have bounds outside the range"),
    ):
        one.process_elements([("a", 1), ("a", 1)], [5, at])


@pytest.mark.parametrize("at", [LAST_MS - 1, FIRST_MS])
def test_the_first_and_the_last_session_that_python_can_read(at):
    with sessions(1) as one:
        one.process_elements([("a", 1)], [at])
        one.end_input()
        assert found(one) == [("a", at, at + 1, 1)]


class Timers(KeyedProcessFunction):
    """Another function, which had the same uid before."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)


def test_timers_of_another_function_are_named():
    with Harness(Timers(), "k", SMALL, "k string") as one:
        one.process_elements([("a", 1)], [1])
        snapshot = one.snapshot()
    other = sessions()
    other.initialize_state(snapshot)
    with other, pytest.raises(UserFunctionError, match="another function had this uid"):
        other.process_watermark(20)


def test_a_timer_whose_session_is_not_there_is_ignored():
    """This is the case after an earlier release, which did not record the windows; other timers are refused."""
    with windowed_harness(SlidingEventTimeWindows(10, 10), "k", SMALL).aggregate(N) as one:
        one.process_elements([("a", 1)], [1])
        snapshot = one.snapshot()
    operators = {uid: replace(operator, windows=None) for uid, operator in snapshot.manifest.operators.items()}
    snapshot.manifest = replace(snapshot.manifest, operators=operators)
    other = sessions()
    other.initialize_state(snapshot)
    with other:
        other.process_elements([("a", 1)], [100])
        other.process_watermark(50)
        assert found(other) == []
        other.end_input()
        assert found(other) == [("a", 100, 110, 1)]


def test_own_classes_are_refused():
    own = type("Own", (EventTimeSessionWindows,), {})(5)
    with pytest.raises(JobDefinitionError, match=r"aggregate\(\) by columns got .*EventTimeSessionWindows"):
        windowed_harness(own, "k", SMALL).aggregate(N)
    with pytest.raises(JobDefinitionError, match="the key column 'Window_End'"):
        windowed_harness(EventTimeSessionWindows(5), "Window_End", "Window_End string").aggregate(N)


@pytest.mark.parametrize("keys", [3, 200])
@pytest.mark.parametrize("shift", [0, FIRST_MS // 2])
def test_spans_are_joined_as_windows_are(keys, shift):
    """Compared with `TimeWindow.merge_windows`, also with ends so far apart that two keys do not fit into 64 bits."""
    rng = np.random.default_rng(keys)
    gap, count = 9, 500
    codes, starts = rng.integers(0, keys, count), rng.integers(0, 60 * count // keys, count) + shift
    if keys == 200:
        codes, starts = np.append(codes, [10**6, 10**6]), np.append(starts, [LAST_MS - 20, LAST_MS - 15])
    order = np.lexsort((starts, codes))
    records = Spans(codes[order], starts[order], starts[order] + gap)
    none = Spans(*np.zeros((3, 0), np.int64))
    made = joined(none, records, gap)
    wanted = []
    for code in np.unique(codes).tolist():
        windows = sorted({TimeWindow(at, at + gap) for at in starts[codes == code].tolist()})
        merged = [windows[0]]
        for window in windows[1:]:
            merged[-1:] = [merged[-1].cover(window)] if merged[-1].intersects(window) else [merged[-1], window]
        wanted += [(code, window.start, window.end) for window in merged]
    assert list(zip(made.codes.tolist(), made.starts.tolist(), made.ends.tolist(), strict=True)) == wanted


def test_ends_that_have_no_room_side_by_side_stay_with_their_keys():
    codes, ends = np.array([0, 0, 60_000]), np.array([LAST_MS, 5, FIRST_MS + 1])
    assert (int(ends.max() - ends.min()) + 1) * 60_001 >= 1 << 63
    latest = declared._latest(Spans(codes, ends - 1, ends))
    assert latest.tolist() == [LAST_MS, LAST_MS, FIRST_MS + 1]
