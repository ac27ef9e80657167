"""Deviations and estimates in windows and sessions, compared with their records, for few values and for many."""

import math
from itertools import accumulate
from statistics import stdev

import numpy as np
import pytest
from datasketches import hll_sketch, tgt_hll_type
from hypothesis import given, settings
from hypothesis import strategies as st
from recounts import quantile, sessions, tumbling
from restoring import renewed
from windowed_forms import found

from state_engine.api import Aggregate
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from state_engine.testing import windowed_harness

COLUMNS = "k string, v bigint, d double, s string"
SHARES = [0, 0.25, 0.5, 0.75, 1]
AGGREGATES = {
    "n": Aggregate.count(), "deviation": Aggregate.stddev("d"), "of_integers": Aggregate.stddev("v"),
    "different": Aggregate.approx_count_distinct("v"), "texts": Aggregate.approx_count_distinct("s"),
    **{f"p{q}": Aggregate.approx_quantile("d", q) for q in SHARES},
}  # fmt: skip
WINDOWS = {"tumbling": (TumblingEventTimeWindows, tumbling), "sessions": (EventTimeSessionWindows, sessions)}
"""For windows of a size and sessions of a gap: the function that makes them, and the one that computes them again."""

of_each = pytest.mark.parametrize("windows", WINDOWS)
over_each = pytest.mark.parametrize("backend", ["heap", "rocksdb"])
in_each_life = pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])


def results(windows, length, epochs, backend, restored):
    """Returns the results of each key and window, start and end in ms; no state may be left after the last one.

    The watermark advances only so far that no later record is late, or touches a session that has ended.
    """

    def made():
        return windowed_harness(assigner(length), "k", COLUMNS, state_backend=backend).aggregate(AGGREGATES)

    assigner, _ = WINDOWS[windows]
    one, rows = made(), []
    one.open()
    earliest = list(accumulate((min((at for _, at in timed), default=math.inf) for timed in reversed(epochs)), min))
    for timed, later in zip(epochs, [*earliest[-2::-1], math.inf], strict=True):
        one.process_elements([record for record, _ in timed], [at for _, at in timed])
        if restored:
            one = renewed(one, made)
        if later < math.inf:
            one.process_watermark(later - 2)
        rows += found(one)
        one.clear_output()
    one.end_input()
    rows += found(one)
    assert one.num_keyed_state_entries() == one.num_event_time_timers() == 0
    one.close()
    assert len({row[:3] for row in rows}) == len(rows), "each is given once"
    return {row[:3]: row[3:] for row in rows}


def arrived(epochs):
    """Returns all records, as they come: those of an epoch in order of time."""
    return [one for timed in epochs for one in sorted(timed, key=lambda one: one[1])]


def deviation(values):
    return pytest.approx(stdev(values), rel=1e-9, abs=1e-9) if len(values) > 1 else None


def expected(records):
    """Returns the results of `AGGREGATES` if sketches are exact."""
    v, d, s = ([value for value in column if value is not None] for column in list(zip(*records, strict=True))[1:])
    quantiles = (quantile(d, q) for q in SHARES)
    return len(records), deviation(d), deviation(v), len(set(v)), len(set(s)), *quantiles


RECORD = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-3, 3) | st.sampled_from([10**9, -(10**9)]),
    st.none() | st.sampled_from([1.5, -2.0, 0.25]) | st.integers(0, 9).map(float),
    st.none() | st.sampled_from("xyz"),
)


@pytest.mark.hypothesis
@pytest.mark.all_pairs
@of_each
@over_each
@in_each_life
def test_few_values_come_to_what_a_recount_comes_to(windows, backend, restored):
    @settings(max_examples=max(8, settings.default.max_examples // (5 if backend == "heap" else 20)))
    @given(st.lists(st.lists(st.tuples(RECORD, st.integers(0, 40)), max_size=10), min_size=1, max_size=4))
    def check(epochs):
        _, recounted = WINDOWS[windows]
        wanted = {window: expected(records) for window, records in recounted(arrived(epochs), 5).items()}
        assert results(windows, 5, epochs, backend, restored) == wanted

    check()


def many(rng, *bounds, count=2500):
    """Returns an epoch of two keys: records at random times within bounds; many values occur several times."""
    within = [(start, end) for start, end in bounds for _ in range(count)]
    return [
        (("ab"[number % 2], int(rng.integers(0, 3000)), float(rng.normal() * 100), f"s{rng.integers(0, 2000)}"),
         int(rng.integers(start, end))) for number, (start, end) in enumerate(within)
    ]  # fmt: skip


@pytest.mark.all_pairs
@of_each
@over_each
@in_each_life
def test_many_values_are_estimated_within_the_error(windows, backend, restored):
    """Each of the two sessions of a key begins as two sessions, which records of a later epoch merge."""
    rng = np.random.default_rng(5)
    epochs = [
        many(rng, (0, 200), (600, 800)), many(rng, (2000, 2200)), many(rng, (2500, 2900)),
        many(rng, (0, 900), (2000, 2900)),
    ]  # fmt: skip
    _, recounted = WINDOWS[windows]
    length = {"tumbling": 1000, "sessions": 100}[windows]
    wanted, given = recounted(arrived(epochs), length), results(windows, length, epochs, backend, restored)
    assert given.keys() == wanted.keys()
    assert len(given) == 4
    off = 0
    for window, records in wanted.items():
        _, v, d, s = zip(*records, strict=True)
        n, of_d, of_v, different, texts, least, *quantiles, largest = given[window]
        assert (n, of_d, of_v, least, largest) == (len(records), deviation(d), deviation(v), min(d), max(d))
        for estimate, values in ((different, v), (texts, s)):
            assert estimate == pytest.approx(len(set(values)), rel=0.06), "1.3 % is the standard error"
            off += estimate != len(set(values))
        for q, estimate in zip(SHARES[1:-1], quantiles, strict=True):
            assert estimate in d
            assert (np.array(d) <= estimate).mean() == pytest.approx(q, abs=0.03), "1.33 points in 99 of 100 cases"
    assert off, "some are estimated"


def by_one_sketch(values):
    """Returns the estimate of one sketch of the library that gets all values one by one."""
    sketch = hll_sketch(12, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return math.floor(sketch.get_estimate() + 0.5)


@pytest.mark.all_pairs
@of_each
@over_each
@in_each_life
def test_distinct_counts_are_those_of_one_sketch_that_gets_all_values(windows, backend, restored):
    """Also for sessions that only grow; sessions that merge unite their sketches, which gives another estimate."""
    rng = np.random.default_rng(6)
    epochs = [many(rng, (start, start + 300), count=1500) for start in (0, 200, 450, 2000, 2100)]
    _, recounted = WINDOWS[windows]
    length = {"tumbling": 1000, "sessions": 200}[windows]
    wanted = {}
    for window, records in recounted(arrived(epochs), length).items():
        _, v, _, s = zip(*records, strict=True)
        wanted[window] = by_one_sketch(v), by_one_sketch(s)
        assert wanted[window] != (len(set(v)), len(set(s))), "they are estimates"
    given = results(windows, length, epochs, backend, restored)
    assert {window: row[3:5] for window, row in given.items()} == wanted
