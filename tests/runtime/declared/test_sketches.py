"""Estimates from sketches against plain Python: exact for few values, within their error for many."""

import math
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recounts import quantile

from state_engine.api import Aggregate, StateTtlConfig, Time
from state_engine.api.keys import Keys
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.runtime.declared.sketches import DistinctCount, Quantile
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing import windowed_harness

INPUT = "k string, v bigint, d double, s string"
SHARES = {"least": 0, "low": 0.25, "median": 0.5, "high": 0.75, "largest": 1.0}
ALL = {
    "values": Aggregate.approx_count_distinct("v"),
    "texts": Aggregate.approx_count_distinct("s"),
    "doubles": Aggregate.approx_count_distinct("d"),
    **{name: Aggregate.approx_quantile("d", q) for name, q in SHARES.items()},
}
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63)]),
    st.none() | st.sampled_from([1.5, -2.0, 0.0, -0.0, math.nan, math.inf, -math.inf]) | st.integers(0, 9).map(float),
    st.none() | st.sampled_from(["x", "y", "é", "", " "]),
)
EPOCHS = st.lists(st.lists(RECORD, max_size=12), min_size=1, max_size=4)


def harness(aggregates, columns=INPUT, **options):
    function = Aggregation(["k"], aggregates, parse_columns_ddl(columns), options.pop("ttl", None))
    return Harness(function, "k", columns, function.output, **options)


def expected(records):
    """Returns the results of records of one key, in plain Python."""
    v, d, s = ({value for value in column if value is not None} for column in list(zip(*records, strict=True))[1:])
    numbers = [record[2] for record in records if record[2] is not None and not math.isnan(record[2])]
    different = {"nan" if math.isnan(value) else value for value in d}
    return (len(v), len(s - {""}), len(different), *(quantile(numbers, q) for q in SHARES.values()))


@pytest.mark.hypothesis
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_few_values_are_exact(backend, restored):
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
            rows = {row[0]: tuple(row)[1:] for row in one.extract_output_values()}
            one.clear_output()
            assert rows == {record[0]: expected(seen[record[0]]) for record in records}
            if restored:
                snapshot = one.snapshot()
                one.close()
                one = harness(ALL, state_backend=backend)
                one.initialize_state(snapshot)
                one.open()
        one.close()

    check()


ASSIGNERS = {"tumbling": TumblingEventTimeWindows(10), "sliding": SlidingEventTimeWindows(10, 4)}
TIMED = st.lists(st.lists(st.tuples(RECORD, st.integers(0, 30)), max_size=12), min_size=1, max_size=3)


@pytest.mark.hypothesis
@pytest.mark.parametrize("windows", ASSIGNERS)
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_few_values_of_windows_are_exact(windows, backend):
    size, slide, _ = ASSIGNERS[windows].lengths
    start_of_all = datetime(1970, 1, 1, tzinfo=UTC)

    def made():
        return windowed_harness(ASSIGNERS[windows], "k", INPUT, state_backend=backend).aggregate(ALL)

    @settings(max_examples=max(5, settings.default.max_examples // (8 if backend == "heap" else 32)))
    @given(TIMED)
    def check(epochs):
        seen = defaultdict(list)
        one = made()
        for timed in epochs:
            one.process_elements([record for record, _ in timed], [at for _, at in timed])
            for record, at in timed:
                for start in range(at - at % slide, at - size, -slide):
                    seen[record[0], start_of_all + timedelta(milliseconds=start)].append(record)
            snapshot = one.snapshot()
            one.close()
            one = made()
            one.initialize_state(snapshot)
        one.end_input()
        rows = {(row[0], row[1]): tuple(row)[3:] for row in one.extract_output_values()}
        assert rows == {window: expected(records) for window, records in seen.items()}
        assert one.num_keyed_state_entries() == 0
        one.close()

    check()


def epochs_of(rng, count, keys=3):
    """Returns many values, most of them several times, in epochs of different lengths."""
    values = rng.integers(0, count // 2, count)
    numbers = rng.normal(size=count) * 100
    rows = [
        (f"k{key}", value, number, f"s{value}")
        for key, value, number in zip(rng.integers(0, keys, count), values.tolist(), numbers.tolist(), strict=True)
    ]
    cuts = sorted(rng.integers(0, count, 4).tolist())
    return [rows[start:end] for start, end in zip([0, *cuts], [*cuts, count], strict=True)]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_many_values_are_estimated_within_the_error(backend):
    epochs = epochs_of(np.random.default_rng(1), 30_000)
    seen, estimates = defaultdict(list), {}
    one = harness(ALL, state_backend=backend)
    for records in epochs:
        one.process_elements(records)
        estimates |= {row[0]: tuple(row)[1:] for row in one.extract_output_values()}
        snapshot = one.snapshot()
        one.close()
        one = harness(ALL, state_backend=backend)
        one.initialize_state(snapshot)
        for record in records:
            seen[record[0]].append(record)
    one.close()
    for key, records in seen.items():
        different, numbers = len({record[1] for record in records}), np.array([record[2] for record in records])
        values, texts, doubles, least, *quantiles, largest = estimates[key]
        assert (values, texts) == (pytest.approx(different, rel=0.06),) * 2, "1.6 % is the standard error"
        assert doubles == pytest.approx(len(numbers), rel=0.06)
        assert (least, largest) == (numbers.min(), numbers.max())
        for q, estimate in zip((0.25, 0.5, 0.75), quantiles, strict=True):
            assert estimate in numbers
            assert (numbers <= estimate).mean() == pytest.approx(q, abs=0.03), "1.33 points in 99 of 100 cases"


@pytest.mark.slow
@pytest.mark.all_pairs(seed=4)
@pytest.mark.parametrize("seed", range(2, 10))
def test_distinct_counts_do_not_depend_on_where_epochs_are_cut(seed):
    records = [record for epoch in epochs_of(np.random.default_rng(seed), 6000, keys=2) for record in epoch]
    aggregates = {"values": Aggregate.approx_count_distinct("v"), "texts": Aggregate.approx_count_distinct("s")}
    estimates = set()
    for length in (6000, 2500, 17):
        with harness(aggregates) as one:
            rows = {}
            for start in range(0, len(records), length):
                one.process_elements(records[start : start + length])
                rows |= {row[0]: tuple(row) for row in one.extract_output_values()}
                one.clear_output()
            estimates.add(tuple(sorted(rows.values())))
    assert len(estimates) == 1


NOW = datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(("type_", "values"), [
    ("tinyint", [1, -1, 1, 127]), ("int", [1, -1, 1, 2**31 - 1]), ("bigint", [1, -1, 1, 2**63 - 1]),
    ("float", [0.5, -0.5, 0.5, math.inf]), ("double", [0.0, 0.1, -0.0, math.nan]), ("boolean", [True, False] * 2),
    ("string", ["a", "A", "a", "a "]), ("date", [date(2024, 1, 1), date(1969, 1, 1), date(2024, 1, 1)]),
    ("timestamp", [NOW.replace(tzinfo=UTC), NOW.replace(tzinfo=UTC, microsecond=1)] * 2),
    ("timestamp_ntz", [NOW, NOW.replace(microsecond=1), NOW]), ("decimal(38,18)", [Decimal("1e-18"), Decimal(0)] * 2),
    ("decimal(5,1)", [Decimal("0.1"), Decimal("1.0"), Decimal("0.1")]),
])  # fmt: skip
@pytest.mark.parametrize("apart", [False, True])
def test_distinct_values_of_all_types(type_, values, apart):
    with harness({"r": Aggregate.approx_count_distinct("v")}, f"k string, v {type_}") as one:
        for part in [[value] for value in values] if apart else [[None, *values]]:
            one.process_elements([("a", value) for value in part])
        wanted = len({repr(value) if value != value else value for value in values})
        assert one.extract_output_values()[-1][1] == wanted


def sketch_of(accumulator, values):
    return accumulator.folded(keys_of([0] * len(values)), [pa.nulls(1, pa.binary())], values)[0][0].as_py()


def keys_of(codes):
    return Keys([pa.array(codes, pa.int64())], lambda columns: columns[0].to_pylist())


def test_a_number_is_one_value_in_every_type_of_its_kind():
    ints = [pa.array([1, 2, -3], type_) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    assert len({sketch_of(DistinctCount(), values) for values in ints}) == 1
    floats = [pa.array([0.5, -2.0], type_) for type_ in (pa.float32(), pa.float64())]
    assert len({sketch_of(DistinctCount(), values) for values in floats}) == 1
    decimals = [pa.array([Decimal("1e-10"), Decimal(7)], pa.decimal128(digits, 10)) for digits in (12, 38)]
    texts = pa.array(["0.0000000001", "7.0000000000"])
    assert len({sketch_of(DistinctCount(), values) for values in (*decimals, texts)}) == 1


@pytest.mark.parametrize("type_", ["int", "float", "double", "decimal(10,2)", "tinyint"])
def test_quantiles_of_all_numbers(type_):
    values = [Decimal(n) for n in range(100)] if "decimal" in type_ else list(range(100))
    with harness({"r": Aggregate.approx_quantile("v", 0.25)}, f"k string, v {type_}") as one:
        one.process_elements([("a", type(values[0])(value)) for value in values])
        assert one.get_output().schema.field("r").type == pa.float64()
        assert [row[1] for row in one.extract_output_values()] == [24]


def test_of_no_value_there_are_none_and_no_quantile():
    aggregates = {"n": Aggregate.approx_count_distinct("d"), "q": Aggregate.approx_quantile("d", 0.5)}
    with harness(aggregates) as one:
        one.process_elements([("a", 1, None, "x")])
        one.process_elements([("a", 1, None, "x"), ("b", 1, math.nan, "x")])
        assert [tuple(row) for row in one.extract_output_values()] == [("a", 0, None), ("a", 0, None), ("b", 1, None)]


def test_quantiles_of_a_column_share_a_state_and_a_later_release_may_ask_for_others():
    with harness({"p50": Aggregate.approx_quantile("d", 0.5), "p0": Aggregate.approx_quantile("d", 0)}) as one:
        one.process_elements([("a", 1, float(n), "x") for n in range(100)])
        assert [tuple(row) for row in one.extract_output_values()] == [("a", 49.0, 0.0)]
        snapshot = one.snapshot()
        assert list(snapshot.states()) == ["approx_quantile_d"]
    other = harness({"p99": Aggregate.approx_quantile("d", 0.99)})
    other.initialize_state(snapshot)
    with other:
        other.process_elements([("a", 1, None, "x")])
        assert [tuple(row) for row in other.extract_output_values()] == [("a", 98.0)]


def test_sketches_expire():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
    aggregates = {"n": Aggregate.approx_count_distinct("v"), "least": Aggregate.approx_quantile("v", 0)}
    with harness(aggregates, ttl=ttl) as one:
        for now in (0, 10, 40):
            one.set_processing_time(now)
            one.process_elements([("a", now, None, None)])
        assert [tuple(row) for row in one.extract_output_values()] == [("a", 1, 0), ("a", 2, 0), ("a", 1, 40)]


@pytest.mark.parametrize("count", [100, 6000])
def test_sketches_of_groups_are_combined(count):
    """Groups 0 and 3 have one key, group 1 has its own key; group 2 and the other group of its key have no values."""
    keys, parts = keys_of([0, 1, 2, 0, 2]), [(0, count // 2), (0, count), None, (count // 4, count), None]
    for accumulator in (DistinctCount(), Quantile(0.5)):
        sketches = [None if part is None else sketch_of(accumulator, pa.array(range(*part))) for part in parts]
        [combined] = accumulator.combined(keys, [pa.array(sketches, pa.binary())])
        assert combined.to_pylist()[1:] == [sketches[1], None], "a single sketch is not changed"
        both, one, none = accumulator.given([combined]).to_pylist()
        if isinstance(accumulator, DistinctCount):
            assert (both, one) == (pytest.approx(count, rel=0 if count == 100 else 0.08),) * 2
            assert none == 0
        else:
            assert both == pytest.approx(quantile([*range(count // 2), *range(count // 4, count)], 0.5), abs=count / 20)
            assert none is None
        assert accumulator.combined(keys_of([]), [pa.array([], pa.binary())])[0].to_pylist() == []


@pytest.mark.parametrize("q", [None, -0.1, 1.5, math.nan, "0.5", True])
def test_a_share_is_a_number_from_0_to_1(q):
    with pytest.raises(JobDefinitionError, match=r"approx_quantile\('v'\) got q=.*0\.5 for the median"):
        Aggregate.approx_quantile("v", q)


def test_other_aggregates_have_no_share():
    with pytest.raises(JobDefinitionError, match=r"sum\('v'\) got q=0\.5"):
        Aggregate("sum", "v", 0.5)


@pytest.mark.parametrize(("aggregate", "type_", "message"), [
    (Aggregate.approx_count_distinct("v"), "binary", r"approx_count_distinct of 'v', which is binary.*hex\(b\)"),
    (Aggregate.approx_count_distinct("v"), "array<int>", "approx_count_distinct of 'v', which is array<int>"),
    (Aggregate.approx_quantile("v", 0.5), "string", "approx_quantile of 'v', which is string.*column of numbers"),
    (Aggregate.approx_quantile("w", 0.5), "int", "approx_quantile of 'w'; the stream has k, v"),
])  # fmt: skip
def test_what_has_no_sketch_is_refused(aggregate, type_, message):
    with pytest.raises(JobDefinitionError, match=message):
        harness({"r": aggregate}, f"k string, v {type_}")


def test_operators_say_which_quantile():
    function = Aggregation(["k"], ALL, parse_columns_ddl(INPUT))
    assert "approx_count_distinct(v) as values" in function.argument
    assert "approx_quantile(d, 0.25) as low" in function.argument
    assert function.local is None


def test_sketches_of_sessions_that_become_one():
    columns = "k string, v bigint"
    aggregates = {"n": Aggregate.approx_count_distinct("v"), "median": Aggregate.approx_quantile("v", 0.5)}
    sessions = windowed_harness(EventTimeSessionWindows.with_gap(Time.milliseconds(10)), "k", columns)
    with sessions.aggregate(aggregates) as one:
        one.process_elements([("a", v) for v in (1, 2, 2)], [0, 1, 2])
        one.process_elements([("a", v) for v in (3, 2, 4)], [20, 21, 22])
        one.process_element(("a", 5), 12)
        one.end_input()
        [row] = one.extract_output_values()
    assert tuple(row)[3:] == (5, 2.0)
