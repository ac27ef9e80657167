"""Ranges of key groups that are folded at once: all of them, of bounded size, and even."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from state_engine.checkpoint.plan import cut_ranges

LIMIT = 100


@given(st.lists(st.one_of(st.just(0), st.integers(0, 40), st.integers(0, 400)), min_size=1, max_size=60))
def test_ranges_hold_all_key_groups_and_no_more_rows_than_fit(rows: list[int]) -> None:
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], len(rows), LIMIT)
    assert (ranges[0][0], ranges[-1][1]) == (0, len(rows) - 1)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
    for first, last in ranges:
        assert first == last or sum(rows[first : last + 1]) <= 1.05 * LIMIT


def test_key_groups_that_are_not_quite_even_make_no_range_more() -> None:
    rows = [15_600 + 37 * (group % 3) for group in range(128)]
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], 128, 500_000)
    assert ranges == ((0, 31), (32, 63), (64, 95), (96, 127))


def test_ranges_share_the_rows_evenly() -> None:
    ranges = cut_ranges([(0, 127, 1_100_000)], 128, 500_000)
    assert [last - first + 1 for first, last in ranges] in ([43, 42, 43], [43, 43, 42], [42, 43, 43])


def test_no_rows_are_one_range() -> None:
    assert cut_ranges([], 128, 5) == ((0, 127),)
