"""`aggregate` against plain Python: all functions, nulls and NaN, warm and restored, on both backends."""

import math
import statistics
from collections import defaultdict
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import Aggregate, StateTtlConfig, Time
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

INPUT = "k string, v bigint, d double, s string"
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-9, 9),
    st.none() | st.sampled_from([1.5, -2.0, math.nan]),
    st.none() | st.sampled_from("xyz"),
)
EPOCHS = st.lists(st.lists(RECORD, max_size=8), min_size=1, max_size=4)
ALL = {
    "n": Aggregate.count(), "values": Aggregate.count("v"), "again": Aggregate.count("v"),
    "total": Aggregate.sum("v"), "total_d": Aggregate.sum("d"), "mean": Aggregate.avg("v"),
    "deviation": Aggregate.stddev("v"), "least": Aggregate.min("d"), "largest": Aggregate.max("d"),
    "low": Aggregate.min("s"), "high": Aggregate.max("s"), "first": Aggregate.first("s"), "last": Aggregate.last("d"),
    "all": Aggregate.collect("s"),
}  # fmt: skip


def harness(aggregates, columns=INPUT, **options):
    function = Aggregation(["k"], aggregates, parse_columns_ddl(columns), options.pop("ttl", None))
    return Harness(function, "k", columns, function.output, **options)


def expected(key, records):
    """Returns the row of a key with these records, in plain Python; NaN is larger than every number."""
    v, d, s = ([value for value in column if value is not None] for column in list(zip(*records, strict=True))[1:])
    return (
        key, len(records), len(v), len(v), sum(v) if v else None, math.fsum(d) if d else None,
        statistics.mean(v) if v else None, statistics.stdev(v) if len(v) > 1 else None,
        min(d, key=order, default=None), max(d, key=order, default=None), min(s, default=None), max(s, default=None),
        s[0] if s else None, d[-1] if d else None, s,
    )  # fmt: skip


def order(number):
    return math.inf if math.isnan(number) else number


def same(row, wanted):
    close = [pytest.approx(one, nan_ok=True, abs=1e-9) if isinstance(one, float) else one for one in wanted]
    return len(row) == len(wanted) and all(a == b for a, b in zip(row, close, strict=True))


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_equals_plain_python(backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(EPOCHS)
    def check(epochs):
        seen = defaultdict(list)
        one = harness(ALL, state_backend=backend)
        one.open()
        for records in epochs:
            one.process_elements(records)
            for record in records:
                seen[record[0]].append(record)
            rows = {row[0]: tuple(row) for row in one.extract_output_values()}
            one.clear_output()
            assert set(rows) == {record[0] for record in records}
            for key, row in rows.items():
                assert same(row, expected(key, seen[key])), (row, expected(key, seen[key]))
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = harness(ALL, state_backend=backend)
                one.initialize_state(snapshot)
                one.open()
        one.close()

    check()


def results(aggregate, columns, *epochs):
    """Returns the result of one key after each epoch."""
    with harness({"r": aggregate}, columns) as one:
        found = []
        for values in epochs:
            one.process_elements([("a", value) for value in values])
            found += [result for _, result in one.extract_output_values()]
            one.clear_output()
        return found


def test_sums_are_exact_up_to_their_type():
    near = 2**62
    assert results(Aggregate.sum("v"), "k string, v bigint", [near, near, -near], [near - 1]) == [near, 2 * near - 1]
    huge = Decimal("9" * 38)
    less = Decimal("9" * 37 + "8")
    assert results(Aggregate.sum("v"), "k string, v decimal(38,0)", [less], [Decimal(1)]) == [less, huge]
    cents = "k string, v decimal(10,2)"
    assert results(Aggregate.sum("v"), cents, [Decimal("0.10")] * 3) == [Decimal("0.30")]
    assert results(Aggregate.avg("v"), cents, [Decimal("0.10"), Decimal("0.30")]) == [pytest.approx(0.2)]


@pytest.mark.parametrize(("columns", "values"), [
    ("k string, v bigint", [2**62, 2**62]), ("k string, v decimal(38,0)", [Decimal("9" * 38), Decimal(1)]),
])  # fmt: skip
@pytest.mark.parametrize("together", [True, False])
def test_a_sum_that_outgrows_its_type_stops_the_job_and_changes_nothing(columns, values, together):
    with harness({"r": Aggregate.sum("v")}, columns) as one:
        if not together:
            one.process_elements([("a", values[0])])
        with pytest.raises(UserFunctionError, match="cast the column first"):
            one.process_elements([("a", value) for value in (values if together else values[1:])])


@pytest.mark.parametrize(("type_", "values", "least", "largest"), [
    ("date", ["2024-01-02", "2024-01-01"], 1, 0), ("boolean", [True, False], 1, 0), ("binary", [b"b", b"a"], 1, 0),
    ("timestamp", ["2024-01-02T00:00:00+00:00", "2024-01-01T00:00:00+00:00"], 1, 0), ("tinyint", [3, -3], 1, 0),
    ("float", [1.5, -1.5], 1, 0), ("decimal(5,1)", [Decimal("2.5"), Decimal("-2.5")], 1, 0),
])  # fmt: skip
def test_extremes_of_all_ordered_types(type_, values, least, largest):
    from datetime import date, datetime

    kinds = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}
    values = [kinds.get(type_, lambda value: value)(value) for value in values]
    columns = f"k string, v {type_}"
    assert results(Aggregate.min("v"), columns, values[:1], values[1:])[-1] == values[least]
    assert results(Aggregate.max("v"), columns, values[1:], values[:1])[-1] == values[largest]


def test_lists_have_a_first_and_a_last():
    columns = "k string, v array<bigint>"
    assert results(Aggregate.first("v"), columns, [None, [1]], [[2]]) == [[1], [1]]
    assert results(Aggregate.last("v"), columns, [[1], None], [[2], [3]]) == [[1], [3]]


def test_lists_of_lists_and_of_nothing():
    columns = "k string, v array<bigint>"
    assert results(Aggregate.collect("v"), columns, [None], [[1], None, []], [None], [[2]]) == [
        [], [[1], []], [[1], []], [[1], [], [2]],
    ]  # fmt: skip


def test_values_of_a_list_expire_one_by_one():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
    with harness({"all": Aggregate.collect("v"), "n": Aggregate.count()}, ttl=ttl) as one:
        for now in (0, 10, 20):
            one.set_processing_time(now)
            one.process_elements([("a", now, None, None)])
        assert [tuple(row) for row in one.extract_output_values()] == [
            ("a", [0], 1),
            ("a", [0, 10], 2),
            ("a", [10, 20], 3),
        ]


def test_numbers_of_a_key_expire():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
    with harness({"n": Aggregate.count(), "mean": Aggregate.avg("v")}, ttl=ttl) as one:
        for now in (0, 10, 40):
            one.set_processing_time(now)
            one.process_elements([("a", now, None, None)])
        assert [tuple(row) for row in one.extract_output_values()] == [("a", 1, 0.0), ("a", 2, 5.0), ("a", 1, 40.0)]


def test_results_may_be_renamed_and_another_function_begins_anew():
    with harness({"x": Aggregate.sum("v")}) as one:
        one.process_elements([("a", 5, None, None)])
        snapshot = one.snapshot()
    other = harness({"y": Aggregate.sum("v"), "x": Aggregate.max("v")})
    other.initialize_state(snapshot)
    with other:
        other.process_elements([("a", 1, None, None)])
        assert [tuple(row) for row in other.extract_output_values()] == [("a", 6, 1)]


@pytest.mark.parametrize(("aggregates", "message"), [
    ({}, "got no aggregates"),
    ({"n": "count"}, "'n': 'count'"),
    ({"K": Aggregate.count()}, "name of a key column"),
    ({"t": Aggregate.sum("w")}, "sum of 'w'; the stream has k, v, d, s"),
    ({"t": Aggregate.sum("s")}, "sum of 's', which is string"),
    ({"t": Aggregate.avg("k")}, "avg of 'k', which is string"),
    ({"n": Aggregate.count(), "N": Aggregate.count("v")}, None),
])  # fmt: skip
def test_what_cannot_be_aggregated_is_refused(aggregates, message):
    with pytest.raises(Exception, match=message) as caught:
        harness(aggregates)
    assert caught.type is JobDefinitionError or message is None


@pytest.mark.parametrize(
    "columns", ["k string, `v w` bigint, v_w bigint", f"k string, {'v' * 130} bigint, {'v' * 131} bigint"]
)
def test_two_aggregates_never_share_a_state(columns):
    first, second = parse_columns_ddl(columns).names[1:]
    with pytest.raises(JobDefinitionError, match="have one state, 'sum_v"):
        harness({"x": Aggregate.sum(first), "y": Aggregate.sum(second)}, columns)
    assert harness({"x": Aggregate.sum(first), "y": Aggregate.max(second), "z": Aggregate.sum(first)}, columns)


@pytest.mark.parametrize("length", [122, 124, 140])
def test_the_parts_of_an_aggregate_have_a_state_each_however_long_the_column_is_called(length):
    name = "x" * length
    aggregates = {"mean": Aggregate.avg(name), "deviation": Aggregate.stddev(name)}
    with harness(aggregates, f"k string, {name} bigint") as one:
        one.process_elements([("a", 10), ("a", 20)])
        one.process_elements([("a", 30)])
        assert [tuple(row)[1:] for row in one.extract_output_values()] == [(15, pytest.approx(50**0.5)), (20, 10)]
        assert len(one.snapshot().states()) == 5


def test_an_aggregate_needs_a_column():
    with pytest.raises(JobDefinitionError, match=r"sum\(\) got None"):
        Aggregate.sum(None)


def test_a_time_to_live_in_event_time_is_refused():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).use_event_time().build()
    with pytest.raises(JobDefinitionError, match="event time"):
        harness(ALL, ttl=ttl)


def test_a_time_to_live_that_returns_what_has_expired_is_refused():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).return_expired_if_not_cleaned_up().build()
    with pytest.raises(JobDefinitionError, match=r"aggregate\(\) got .* what has expired.*Remove return_expired"):
        harness(ALL, ttl=ttl)


def test_a_count_that_is_new_is_never_null():
    with harness({"total": Aggregate.sum("v")}) as one:
        one.process_elements([("a", 5, None, None)])
        snapshot = one.snapshot()
    other = harness({"total": Aggregate.sum("v"), "values": Aggregate.count("v"), "all": Aggregate.collect("v")})
    other.initialize_state(snapshot)
    with other:
        other.process_elements([("a", None, None, None)])
        assert [tuple(row) for row in other.extract_output_values()] == [("a", 5, 0, [])]
