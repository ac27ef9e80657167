"""Ranges of key groups that are folded together cover all key groups, have a bounded size, and are even."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.checkpoint.plan import ROWS_PER_FILE, cut_ranges, rows_at_once

LIMIT = 100


@given(st.lists(st.one_of(st.just(0), st.integers(0, 40), st.integers(0, 400)), min_size=1, max_size=60))
def test_ranges_hold_all_key_groups_and_no_more_rows_than_fit(rows: list[int]) -> None:
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], len(rows), LIMIT)
    assert (ranges[0][0], ranges[-1][1]) == (0, len(rows) - 1)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
    for first, last in ranges:
        inside = [own for own in rows[first : last + 1] if own]
        assert len(inside) <= 1 or sum(inside) <= 1.05 * LIMIT
        assert inside or len(ranges) == 1, "none is without rows"


def test_key_groups_that_are_not_quite_even_make_no_range_more() -> None:
    rows = [15_600 + 37 * (group % 3) for group in range(128)]
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], 128, 500_000)
    assert ranges == ((0, 31), (32, 63), (64, 95), (96, 127))


def test_ranges_share_the_rows_evenly() -> None:
    ranges = cut_ranges([(0, 127, 1_100_000)], 128, 500_000)
    assert [last - first + 1 for first, last in ranges] in ([43, 42, 43], [43, 43, 42], [42, 43, 43])


@given(st.integers(1, 10**9), st.integers(1, 32768), st.integers(1, 10**6))
def test_even_key_groups_make_no_range_more_than_need_be(rows: int, groups: int, limit: int) -> None:
    ranges, each = cut_ranges([(0, groups - 1, rows)], groups, limit), rows / groups
    assert all(last == first or (last - first + 1) * each <= 1.05 * limit * (1 + 1e-9) for first, last in ranges)
    assert len(ranges) <= max(1, math.ceil(rows / max(limit - each, each) * (1 + 1e-9)))
    fitting = max(1, math.floor(1.05 * limit / each * (1 - 1e-9)))
    assert len(ranges) <= math.ceil(groups / fitting)
    largest = math.ceil(groups / len(ranges))
    assert all(last - first < largest + 1 for first, last in ranges), "they are even to one key group"


def test_ranges_are_even_where_the_fewest_do_not_fit_by_a_key_group() -> None:
    ranges = cut_ranges([(0, 2376, 1823)], 2377, 65)
    assert {last - first + 1 for first, last in ranges} == {84, 85}
    assert len(ranges) == 28


@pytest.mark.parametrize("large", [0, 5, 127])
def test_after_a_large_key_group_ranges_are_as_large_as_ever(large: int) -> None:
    rows = [10_000_000 if group == large else 1_000 for group in range(128)]
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], 128, 500_000)
    assert (large, large) in ranges
    assert len(ranges) <= 3


def test_several_large_key_groups_add_no_more_than_their_own_ranges() -> None:
    rows = [3_000_000 if group % 32 == 7 else 10_000 for group in range(128)]
    ranges = cut_ranges([(group, group, count) for group, count in enumerate(rows)], 128, 500_000)
    assert len(ranges) <= 9


def test_shares_of_rows_that_are_no_whole_numbers_make_no_range_after_the_last() -> None:
    for groups in range(2, 300):
        ranges = cut_ranges([(0, groups - 2, 1_000)], groups, 100_000)
        assert ranges == ((0, groups - 1),)


def test_no_rows_are_one_range() -> None:
    assert cut_ranges([], 128, 5) == ((0, 127),)


def test_of_small_rows_more_are_folded_at_once() -> None:
    assert rows_at_once(1_000_000, 16_000_000) == 4 * ROWS_PER_FILE
    assert rows_at_once(1_000_000, 16_000_001) == ROWS_PER_FILE
    assert rows_at_once(0, 0) >= ROWS_PER_FILE
