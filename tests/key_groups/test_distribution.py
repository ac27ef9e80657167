"""Flink's formulas: which subtask owns which key groups."""

import pytest

from state_engine.errors import JobDefinitionError
from state_engine.key_groups import (
    KeyGroupRange,
    check_parallelism,
    default_max_parallelism,
    range_of,
    subtask_of,
)


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        (1, 128), (2, 128), (85, 128), (86, 256), (128, 256), (170, 256), (171, 256), (172, 512),
        (1000, 2048), (21845, 32768), (21846, 32768), (32768, 32768),
    ],
)  # fmt: skip
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("max_parallelism", [1, 13, 128])
def test_ranges_cover_each_key_group_once(max_parallelism: int) -> None:
    for parallelism in range(1, max_parallelism + 1):
        ranges = [range_of(subtask, parallelism, max_parallelism) for subtask in range(parallelism)]
        assert [g for r in ranges for g in range(r.first, r.last + 1)] == list(range(max_parallelism))
        assert all(r.size > 0 for r in ranges)


@pytest.mark.parametrize("max_parallelism", [1, 13, 128])
def test_the_subtask_of_a_key_group_has_it_in_its_range(max_parallelism: int) -> None:
    for parallelism in range(1, max_parallelism + 1):
        for key_group in range(max_parallelism):
            owner = subtask_of(key_group, parallelism, max_parallelism)
            assert key_group in range_of(owner, parallelism, max_parallelism)


def test_ranges_are_as_even_as_they_can_be() -> None:
    sizes = {range_of(subtask, 10, 128).size for subtask in range(10)}
    assert sizes == {12, 13}


def test_a_range_includes_both_ends() -> None:
    assert [g in KeyGroupRange(2, 4) for g in range(1, 6)] == [False, True, True, True, False]
    assert KeyGroupRange(2, 4).size == 3
    assert KeyGroupRange(3, 2).size == 0


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(0, 128), (-1, 128), (129, 128), (1, 0), (1, 32769)])
def test_bounds_are_refused(parallelism: int, max_parallelism: int) -> None:
    with pytest.raises(JobDefinitionError, match="out of bounds"):
        check_parallelism(parallelism, max_parallelism)


def test_the_bounds_themselves_are_allowed() -> None:
    check_parallelism(1, 1)
    check_parallelism(32768, 32768)
