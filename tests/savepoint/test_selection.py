"""Which key groups a selection for a restore means."""

import itertools

import pytest

from state_engine.key_groups import KeyGroupRange
from state_engine.savepoint.selection import joined, selection_of


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ([(0, 9), (2, 3)], [(0, 9)]),
        ([(2, 3), (0, 9)], [(0, 9)]),
        ([3, 1, 2], [(1, 3)]),
        ([(0, 2), (4, 5)], [(0, 2), (4, 5)]),
        ([(0, 4), (4, 8)], [(0, 8)]),
        ([7, 7], [(7, 7)]),
    ],
)
def test_ranges_may_overlap_and_come_in_any_order(
    asked: list[int | tuple[int, int]], meant: list[tuple[int, int]]
) -> None:
    assert [tuple(range_) for range_ in selection_of(asked, None, None).ranges] == meant


def test_joined_ranges_hold_the_same_key_groups_once() -> None:
    every = [KeyGroupRange(first, last) for first in range(5) for last in range(first, 5)]
    for some in itertools.permutations(every, 3):
        ranges = joined(some)
        groups = [group for first, last in ranges for group in range(first, last + 1)]
        assert groups == sorted({group for first, last in some for group in range(first, last + 1)})
        assert all(before.last + 1 < behind.first for before, behind in itertools.pairwise(ranges))
