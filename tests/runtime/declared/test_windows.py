"""Declared aggregates of windows against the row form of the same windows: any cut, late records, warm and restored."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windowed_forms import ALL, EPOCH, INPUT, LATE, WithBounds, by_columns, by_rows, rows_of

from state_engine.api import Aggregate, Duration, OutputTag, WatermarkStrategy
from state_engine.api.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.testing import windowed_harness

ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows(10),
    "shifted": TumblingEventTimeWindows(7, -3),
    "sliding": SlidingEventTimeWindows(10, 4),
    "gaps": SlidingEventTimeWindows(3, 10, 2),
}


def test_rows_come_by_window_and_key_however_the_records_came():
    records = [((key, None, n, None), at) for n, (key, at) in enumerate(zip("cab" * 6, range(0, 36, 2), strict=True))]
    results = []
    for order in (records, records[::-1]):
        with by_columns(TumblingEventTimeWindows(12), {"n": Aggregate.count()}) as one:
            one.process_elements([record for record, _ in order], [at for _, at in order])
            one.end_input()
            results.append([(row[2], row[0]) for row in one.extract_output_values()])
    assert results[0] == results[1] == sorted(results[0])
    assert len(results[0]) == 9


@pytest.mark.parametrize("windows", ASSIGNERS)
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_deviations_are_those_of_the_numbers_in_each_window(windows, backend):
    aggregates = {"all": Aggregate.collect("v"), "deviation": Aggregate.stddev("v")}
    records = [
        ((key, None, n * n % 17, None), at) for n, (key, at) in enumerate(zip("cab" * 8, range(24), strict=True))
    ]
    with by_columns(ASSIGNERS[windows], aggregates, state_backend=backend) as one:
        for start in range(0, len(records), 5):
            some = records[start : start + 5]
            one.process_elements([record for record, _ in some], [at for _, at in some])
        one.end_input()
        rows = [tuple(row) for row in one.extract_output_values()]
    assert len(rows) > 5
    for *_, values, deviation in rows:
        assert deviation == (pytest.approx(stdev(values)) if len(values) > 1 else None)


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@pytest.mark.parametrize("windows", ASSIGNERS)
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_the_row_form(windows, backend, restored):
    assigner = ASSIGNERS[windows]

    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(st.lists(st.tuples(EPOCH, st.integers(0, 20)), max_size=5))
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
@pytest.mark.parametrize("windows", ASSIGNERS)
def test_equals_the_row_form_after_an_ordered_source(windows):
    """Row windows fire while the watermark follows the records of an epoch; declared ones after the last record."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    options = {"side_outputs": [LATE], "watermark_strategy": strategy}

    @settings(max_examples=max(5, settings.default.max_examples // 4))
    @given(st.lists(EPOCH, max_size=5))
    def check(epochs):
        results = []
        for make in (by_rows, by_columns):
            with make(ASSIGNERS[windows], **options) as one:
                for timed in epochs:
                    one.process_elements([record for record, _ in timed], [at for _, at in timed])
                one.end_input()
                results.append((sorted(rows_of(one)), list(map(repr, one.get_side_output(LATE)))))
        assert results[0] == results[1]

    check()


def test_windows_fire_after_the_last_record_of_the_epoch_that_makes_them_due():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    with by_columns(TumblingEventTimeWindows(10), {"n": Aggregate.count()}, watermark_strategy=strategy) as one:
        record = ("a", None, 1, None)
        one.process_elements([record] * 5, [40, 3, 24, 25, 36])  # in no order
        assert [(row[2].timestamp(), row[-1]) for row in one.extract_output_values()] == [(0, 1), (0.02, 2)]
        assert one.num_keyed_state_entries() == 2, "nothing is left of windows that opened and ended"
        one.process_elements([record] * 2, [30, 33])
        assert len(one.extract_output_values()) == 2, "records earlier than all others make nothing due"
        one.end_input()
        assert [row[-1] for row in one.extract_output_values()[2:]] == [3, 1]


@pytest.mark.hypothesis
@pytest.mark.parametrize("windows", ASSIGNERS)
def test_results_do_not_depend_on_where_epochs_are_cut(windows):
    @settings(max_examples=max(5, settings.default.max_examples // 4))
    @given(EPOCH, st.integers(0, 8), st.integers(0, 8))
    def check(timed, cut, further):
        results = []
        for parts in ([timed], [timed[:cut], timed[cut:]], [timed[:further], [], timed[further:]]):
            with by_columns(ASSIGNERS[windows], {"n": Aggregate.count(), "t": Aggregate.sum("v")}) as one:
                for part in parts:
                    one.process_elements([record for record, _ in part], [at for _, at in part])
                one.end_input()
                results.append(rows_of(one))
        assert results[0] == results[1] == results[2]

    check()


def test_windows_of_all_records():
    tag = OutputTag("late", "k string, v bigint")
    stream = windowed_harness(TumblingEventTimeWindows(10), (), "k string, v bigint", side_outputs=[tag])
    with stream.side_output_late_data(tag).aggregate({"n": Aggregate.count()}) as one:
        one.process_elements([("a", 1), ("b", 2), ("c", 3)], [1, 2, 11])
        one.process_watermark(9)
        one.process_elements([("d", 4)], [3])
        assert [row[2] for row in one.extract_output_values()] == [2]
        assert one.get_output().schema.names == ["window_start", "window_end", "n"]
        assert one.get_side_output(tag) == [("d", 4)]


def test_timestamps_and_decimals_and_a_window_of_nulls():
    aggregates = {"t": Aggregate.sum("v"), "s": Aggregate.max("s")}
    windows = TumblingEventTimeWindows(86_400_000)
    with windowed_harness(windows, "k", "k decimal(5,2), v decimal(10,2), s string").aggregate(aggregates) as one:
        one.process_elements([(Decimal("1.50"), Decimal("0.10"), None), (None, None, None)], [-1, 5])
        one.end_input()
        days = [datetime(1969, 12, 31, tzinfo=UTC) + timedelta(days=n) for n in range(3)]
        assert [tuple(row) for row in one.extract_output_values()] == [
            (Decimal("1.50"), days[0], days[1], Decimal("0.10"), None), (None, days[1], days[2], None, None),
        ]  # fmt: skip


def test_another_size_ends_the_windows_that_are_open_as_they_were():
    with by_columns(TumblingEventTimeWindows(10), {"n": Aggregate.count()}) as one:
        one.process_elements([("a", None, 1, None)], [3])
        snapshot = one.snapshot()
    other = by_columns(TumblingEventTimeWindows(100), {"n": Aggregate.count()})
    other.initialize_state(snapshot)
    with other:
        other.process_elements([("a", None, 1, None)], [4])
        other.end_input()
        assert [(row[3].microsecond // 1000, row[4]) for row in other.extract_output_values()] == [(10, 1), (100, 1)]


@pytest.mark.parametrize(("at", "message"), [(None, "no event time"), (2**62, "bounds outside the range")])
def test_records_without_a_window_stop_the_job(at, message):
    with (
        by_columns(TumblingEventTimeWindows(10), {"n": Aggregate.count()}) as one,
        pytest.raises(UserFunctionError, match=message),
    ):
        one.process_elements([("a", None, 1, None), ("b", None, 2, None)], None if at is None else [5, at])


@pytest.mark.parametrize("assigner", [
    DynamicEventTimeSessionWindows(5), TumblingProcessingTimeWindows(5), GlobalWindows(),
    type("Own", (TumblingEventTimeWindows,), {})(5),
])  # fmt: skip
def test_other_windows_are_refused(assigner):
    with pytest.raises(JobDefinitionError, match=r"aggregate\(\) by columns got .*AggregateFunction"):
        by_columns(assigner)


@pytest.mark.parametrize(("more", "message"), [
    (lambda stream: stream.allowed_lateness(5).aggregate(ALL), r"got allowed_lateness\(\) as well"),
    (lambda stream: stream.trigger(EventTimeTrigger()).aggregate(ALL), r"got trigger\(\) as well"),
    (lambda stream: stream.aggregate(ALL, WithBounds(), output_type="n bigint"), "a window function, output_type"),
    (lambda stream: stream.aggregate({}), "got no aggregates"),
    (lambda stream: stream.aggregate({"Window_End": Aggregate.count()}), "name of a column of the window's bounds"),
    (lambda stream: stream.aggregate({"K": Aggregate.count()}), "name of a key column"),
    (lambda stream: stream.aggregate({"n": Aggregate.sum("w")}), "sum of 'w'; the stream has k, day, v, d"),
])  # fmt: skip
def test_what_cannot_be_aggregated_is_refused(more, message):
    with pytest.raises(JobDefinitionError, match=message):
        more(windowed_harness(TumblingEventTimeWindows(5), ("k", "day"), INPUT))


def test_a_key_of_the_name_of_a_bound_is_refused():
    with pytest.raises(JobDefinitionError, match=r"the key column 'window_start'.*its_window_start"):
        windowed_harness(TumblingEventTimeWindows(5), "window_start", "window_start string").aggregate(
            {"n": Aggregate.count()}
        )
