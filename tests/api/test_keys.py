"""Keys of a batch: numbered as they come; the results of their methods are compared with plain Python."""

import gc
import weakref
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.api.keys import Keys, order_of

PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(-2, 2)), max_size=30)
VALUES = st.lists(st.integers(-(2**40), 2**40) | st.none(), max_size=30)


def keys_of(pairs, times=None):
    """Keys of two columns, read as tuples."""
    columns = [pa.array([a for a, _ in pairs], pa.string()), pa.array([b for _, b in pairs], pa.int32())]
    return Keys(columns, lambda arrays: list(zip(*(a.to_pylist() for a in arrays), strict=True)), times)


@given(PAIRS)
def test_keys_are_numbered_as_they_come(pairs):
    keys = keys_of(pairs)
    distinct = list(dict.fromkeys(pairs))
    assert len(keys) == len(pairs)
    assert keys.entries == distinct
    assert keys.codes.tolist() == [distinct.index(pair) for pair in pairs]
    assert keys.first.tolist() == [pairs.index(pair) for pair in distinct]
    assert keys.last.tolist() == [len(pairs) - 1 - pairs[::-1].index(pair) for pair in distinct]
    assert keys.distinct.entries == distinct
    assert keys.distinct.distinct is keys.distinct
    assert keys.distinct.codes.tolist() == list(range(len(distinct)))


@given(
    st.lists(st.integers(-3, 3) | st.none(), max_size=30)
    | st.lists(st.integers(2**63 - 40, 2**63 - 1), max_size=30)
    | st.lists(st.integers(-(2**63), -(2**63) + 40), max_size=30)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30),
    st.integers(0, 3),
)
def test_integers_are_numbered_as_they_come_whether_close_together_or_not(integers, skipped):
    column = pa.array([7, None, 7, *integers], pa.int64()).slice(3)
    for narrow in (pa.int8(), pa.int16(), pa.int32()):
        if all(one is None or -100 <= one <= 100 for one in integers):
            column = column.cast(narrow)
        keys = Keys([column.slice(skipped)], lambda arrays: arrays[0].to_pylist())
        wanted = integers[skipped:]
        distinct = list(dict.fromkeys(wanted))
        assert keys.codes.tolist() == [distinct.index(one) for one in wanted]
        assert keys.first.tolist() == [wanted.index(one) for one in distinct]
        assert keys.entries == distinct
        assert keys.counts().tolist() == [wanted.count(one) for one in distinct]


def test_counts_are_the_callers_own():
    keys = keys_of([("a", 1), ("b", 1), ("a", 1)])
    keys.counts()[:] = 7
    assert keys.counts().tolist() == [2, 1]
    assert keys.running_counts().tolist() == [1, 1, 2]


@given(PAIRS, VALUES)
def test_counts_and_sums(pairs, values):
    count = min(len(pairs), len(values))
    pairs, values = pairs[:count], values[:count]
    keys, column = keys_of(pairs), pa.array(values, pa.int64())
    counts, sums, running = defaultdict(int), defaultdict(int), []
    for pair, value in zip(pairs, values, strict=True):
        counts[pair] += 1
        sums[pair] += value or 0
        running.append((counts[pair], sums[pair]))
    assert keys.counts().tolist() == list(counts.values())
    assert keys.sums(column).tolist() == list(sums.values())
    assert list(zip(keys.running_counts().tolist(), keys.running_sums(column).tolist(), strict=True)) == running
    assert keys.sums(column).dtype == np.int64


def test_one_keys_sum_of_doubles_does_not_round_anothers():
    keys = keys_of([("a", 1), ("b", 1), ("a", 1), ("b", 1)])
    values = pa.array([1e300, 0.1, 1.0, 0.2])
    assert keys.sums(values).tolist() == [1e300 + 1.0, 0.1 + 0.2]
    assert keys.running_sums(values).tolist() == [1e300, 0.1, 1e300 + 1.0, pytest.approx(0.3, abs=1e-15)]


@given(PAIRS)
def test_times_of_distinct_keys(pairs):
    given_times = [None if n % 3 == 0 else (n * 7) % 11 for n in range(len(pairs))]
    keys = keys_of(pairs, pa.array(given_times, pa.int64()))
    of_key = defaultdict(list)
    for pair, time in zip(pairs, given_times, strict=True):
        of_key[pair].append(time)
    assert keys.distinct.times.to_pylist() == [times[-1] for times in of_key.values()]
    known = [[time for time in times if time is not None] for times in of_key.values()]
    assert keys.latest_times.to_pylist() == [max(times, default=None) for times in known]


def test_without_records():
    keys = keys_of([])
    assert (len(keys), keys.entries, keys.counts().tolist(), keys.running_counts().tolist()) == (0, [], [], [])
    assert keys.sums(pa.array([], pa.int64())).tolist() == []
    assert keys.running_sums(pa.array([], pa.int64())).tolist() == []


def test_rows_are_each_taken_for_another_key():
    keys = Keys([pa.array([{"a": 1}, {"a": 1}])], lambda arrays: arrays[0].to_pylist())
    assert keys.codes.tolist() == [0, 1]


def plain_sums(codes, values):
    """Returns for each record the sum of its key up to it, computed one by one."""
    sums, so_far = {}, []
    for code, value in zip(codes, values, strict=True):
        sums[code] = sums[code] + value if code in sums else value
        so_far.append(sums[code])
    return so_far


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(allow_nan=True)), max_size=40), st.sampled_from([1, 100]))
def test_running_sums_of_doubles_are_added_from_left_to_right(records, times):
    records = records * times  # many records of a key are added by another method than few
    codes, values = [code for code, _ in records], np.array([value for _, value in records], float)
    keys = Keys([pa.array(codes, pa.int64())], lambda arrays: arrays[0].to_pylist())
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(keys.running_sums(values), plain_sums(codes, values))


def test_sums_of_integers_are_exact_or_refused():
    keys, large = keys_of([("a", 1), ("a", 1), ("b", 1)]), 2**62
    assert keys.sums([large, large - 1, -large]).tolist() == [2 * large - 1, -large]
    assert keys.running_sums([large, -large, large]).tolist() == [large, 0, large]
    for ask in (keys.sums, keys.running_sums):
        with pytest.raises(OverflowError, match="64 bits"):
            ask([large, large, 0])


@pytest.mark.parametrize(("values", "error"), [
    ([1, 2], ValueError), ([1, 2, 3, 4], ValueError), (["1", "2", "3"], TypeError), ([True, False, True], TypeError),
])  # fmt: skip
def test_what_cannot_be_summed(values, error):
    keys = keys_of([("a", 1), ("a", 1), ("b", 1)])
    for ask in (keys.sums, keys.running_sums):
        with pytest.raises(error):
            ask(values)


def test_dictionaries_and_zeros():
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0]), pa.array(["a", "a"]))
    assert Keys([column], list).codes.tolist() == [0, 1, 0, 0]
    assert Keys([pa.array([0.0, -0.0, None, 1.0])], list).codes.tolist() == [0, 0, 1, 2]


def test_every_nan_is_one_key() -> None:
    nans = pa.array(np.array([0x7FF8 << 48, (0xFFF8 << 48) + 1], np.uint64).view(np.float64))
    assert Keys([pa.concat_arrays([nans, pa.array([1.0, None])])], list).codes.tolist() == [0, 0, 1, 2]


def test_keys_are_freed_at_once():
    """A batch holds up to 64 MiB, and several may follow each other before the garbage collector comes."""
    gc.disable()
    try:
        for pairs in ([("a", 1), ("b", 1)], [("a", 1), ("a", 1)]):
            keys = keys_of(pairs)
            assert len(keys.distinct.entries) == len(set(pairs))
            gone = weakref.ref(keys)
            del keys
            assert gone() is None
    finally:
        gc.enable()


def test_keys_of_some_records():
    keys = keys_of([("a", 1), ("b", 1), ("a", 1)], pa.array([5, 6, 7]))
    taken = keys.take(np.array([2, 1]))
    assert (taken.entries, taken.times.to_pylist()) == ([("a", 1), ("b", 1)], [7, 6])


SPANS = [(0, 0), (0, 7), (-5, 5), (0, 65_535), (0, 65_536), (0, 3_000_000), (1 << 40, (1 << 40) + 600_000)]
SPANS += [(-(1 << 63), (1 << 63) - 1), (-(1 << 40), 1 << 40)]


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 100, 5_000])
def test_an_order_is_that_of_a_stable_sort(span, count):
    rng = np.random.default_rng(count)
    one, other = (rng.integers(*span, count, dtype=np.int64, endpoint=True) for _ in range(2))
    few = one % 3
    assert order_of(one).tolist() == np.argsort(one, kind="stable").tolist()
    assert order_of(np.sort(one)).tolist() == list(range(count))
    assert order_of(one, other).tolist() == np.lexsort((one, other)).tolist()
    assert order_of(one, other, few).tolist() == np.lexsort((one, other, few)).tolist()
    assert order_of(few.astype(np.int8), one).tolist() == np.lexsort((few, one)).tolist()
