"""Each aggregate as a changelog: a row is retracted with the values that it was emitted with, also estimates, lists."""

import math
from statistics import stdev

import numpy as np
import pytest
from changelogs import aggregating, applied, checked, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recounts import quantile
from restoring import renewed

from state_engine.api import Aggregate

COLUMNS = "k string, v bigint, d double, s string"
ALL = {
    "all": Aggregate.collect("s"), "deviation": Aggregate.stddev("v"), "texts": Aggregate.approx_count_distinct("s"),
    "median": Aggregate.approx_quantile("v", 0.5), "least": Aggregate.approx_quantile("v", 0),
    "first": Aggregate.first("s"), "largest": Aggregate.max("d"), "mean": Aggregate.avg("v"),
    "total": Aggregate.sum("v"), "total_d": Aggregate.sum("d"),
}  # fmt: skip
RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-9, 9),
    st.none() | st.sampled_from([1.5, -2.0, math.nan]),
    st.none() | st.sampled_from("xyz"),
)
over_each = pytest.mark.parametrize("backend", ["heap", "rocksdb"])
in_each_life = pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])


def harness(aggregates=ALL, columns=COLUMNS, **options):
    return aggregating("k", aggregates, columns, retract=False, **options)


def expected(records):
    """Returns the results of a key with these records; NaN is larger than every number."""
    v, d, s = ([value for value in column if value is not None] for column in list(zip(*records, strict=True))[1:])
    return (
        s, stdev(v) if len(v) > 1 else None, len(set(s)), quantile(v, 0.5), min(v, default=None), s[0] if s else None,
        max(d, key=lambda one: math.inf if math.isnan(one) else one, default=None), sum(v) / len(v) if v else None,
        sum(v) if v else None, sum(d) if d else None,
    )  # fmt: skip


def rounded(results):
    """Returns results in a form to compare: without the last digits, and without the types of numbers."""
    return repr([round(float(one), 9) + 0.0 if isinstance(one, int | float) else one for one in results])


@pytest.mark.hypothesis
@over_each
@in_each_life
def test_each_row_is_what_all_records_come_to(backend, restored):
    @settings(max_examples=max(8, settings.default.max_examples // (4 if backend == "heap" else 16)))
    @given(st.lists(st.lists(RECORD, max_size=6), min_size=1, max_size=4))
    def check(epochs):
        came = [[one for epoch in epochs[: n + 1] for one in epoch] for n in range(len(epochs))]
        new = lambda: harness(state_backend=backend)  # noqa: E731
        checked(zip(epochs, came, strict=True), new, restored, expected, rounded)

    check()


def test_what_stays_as_it_was_is_not_given():
    with harness({name: ALL[name] for name in ("all", "texts", "least", "first", "largest")}) as one:
        records = [("a", 1, math.nan, "x"), ("a", 2, 1.5, "y"), ("b", None, None, None)]
        assert [row[-1] for row in rows_of(one, *records)] == ["+I", "+I"]
        assert rows_of(one, ("a", 2, math.nan, None), ("a", 1, 9.0, None), ("b", None, None, None)) == []
    with harness({name: ALL[name] for name in ("texts", "least", "first", "largest")}) as one:
        rows_of(one, *records)
        assert rows_of(one, *records[::-1]) == []


def test_a_value_that_comes_late_replaces_null():
    nothing = ("b", [], None, 0, None, None, None, None, None, None, None)
    with harness() as one:
        assert rows_of(one, ("b", None, None, None)) == [(*nothing, "+I")]
        assert rows_of(one, ("b", 4, -2.0, "x")) == [
            (*nothing, "-U"), ("b", ["x"], None, 1, 4.0, 4.0, "x", -2.0, 4.0, 4, -2.0, "+U"),
        ]  # fmt: skip
        assert rows_of(one, ("b", 6, None, None))[1][2] == pytest.approx(2**0.5)


@over_each
@in_each_life
def test_estimates_of_many_values_are_retracted_as_they_were_emitted(backend, restored):
    """A quantile of many numbers is random, but drawn once: an epoch retracts the value that an earlier one emitted."""
    aggregates = {"different": Aggregate.approx_count_distinct("v"), "median": Aggregate.approx_quantile("v", 0.5)}
    new = lambda: harness(aggregates, "k string, v bigint", state_backend=backend)  # noqa: E731
    rng, one, rows, seen = np.random.default_rng(3), new(), {}, {"a": [], "b": []}
    for _ in range(5):
        records = [("ab"[key], value) for key, value in rng.integers(0, [2, 3000], (1000, 2)).tolist()]
        applied(rows_of(one, *records), rows)
        for key, value in records:
            seen[key].append(value)
        for key, values in seen.items():
            different, median = rows[key]
            assert different == pytest.approx(len(set(values)), rel=0.06), "1.3 % is the standard error"
            assert median in values
            below, up_to = (np.array(values) < median).mean(), (np.array(values) <= median).mean()
            assert below - 0.03 < 0.5 < up_to + 0.03, "1.33 points in 99 of 100 cases"
        if restored:
            one = renewed(one, new)
    assert rows["a"][0] != len(set(seen["a"])) or rows["b"][0] != len(set(seen["b"])), "they are estimates"
    one.close()
