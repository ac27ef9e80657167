"""Windows: bounds, starts with offsets and before 1970, merging, text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.api.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)

W = TimeWindow
start_of = TimeWindow.get_window_start_with_offset


def test_the_end_does_not_belong_to_the_window() -> None:
    assert W(0, 10).max_timestamp() == 9
    assert CountWindow(3).max_timestamp() == GlobalWindow().max_timestamp() == 2**63 - 1


@pytest.mark.parametrize(
    ("timestamp", "offset", "start"),
    [(0, 0, 0), (6, 0, 0), (7, 0, 7), (8, 0, 7), (0, 3, -4), (2, 3, -4), (3, 3, 3), (10, 3, 10), (0, -2, -2)],
)
def test_starts_with_offsets(timestamp: int, offset: int, start: int) -> None:
    assert start_of(timestamp, offset, 7) == start


@pytest.mark.parametrize(("timestamp", "start"), [(-1, -7), (-7, -7), (-8, -14), (-2, -7)])
def test_starts_before_1970(timestamp: int, start: int) -> None:
    assert start_of(timestamp, 0, 7) == start


@given(st.integers(-(2**62), 2**62), st.integers(1, 10**12), st.data())
def test_every_time_is_in_its_window(timestamp: int, size: int, data: Any) -> None:
    offset = data.draw(st.integers(1 - size, size - 1))
    start = start_of(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


@pytest.mark.parametrize(
    ("other", "meets"),
    [(W(10, 20), True), (W(9, 20), True), (W(11, 20), False), (W(-5, 0), True), (W(-5, -1), False), (W(3, 4), True)],
)
def test_windows_that_touch_meet(other: TimeWindow, meets: bool) -> None:
    assert W(0, 10).intersects(other) is other.intersects(W(0, 10)) is meets


def test_the_cover_of_two() -> None:
    assert W(0, 10).cover(W(5, 15)) == W(5, 15).cover(W(0, 10)) == W(0, 15)
    assert W(0, 10).cover(W(3, 4)) == W(0, 10)


def test_nothing_to_merge(merges: Any) -> None:
    W.merge_windows([], merges)
    W.merge_windows([W(0, 1)], merges)
    W.merge_windows([W(0, 1), W(2, 3), W(4, 5)], merges)
    W.merge_windows([W(0, 1), W(0, 1)], merges)
    assert merges.calls == []


def test_one_run_of_windows_in_any_order(merges: Any) -> None:
    W.merge_windows([W(4, 6), W(0, 2), W(1, 5)], merges)
    assert merges.calls == [([W(0, 2), W(1, 5), W(4, 6)], W(0, 6))]


def test_two_runs_and_a_single_one(merges: Any) -> None:
    W.merge_windows([W(20, 22), W(0, 2), W(50, 51), W(21, 25), W(2, 3)], merges)
    assert merges.calls == [([W(0, 2), W(2, 3)], W(0, 3)), ([W(20, 22), W(21, 25)], W(20, 25))]


def test_a_window_inside_another(merges: Any) -> None:
    W.merge_windows([W(0, 10), W(2, 3)], merges)
    assert merges.calls == [([W(0, 10), W(2, 3)], W(0, 10))]


@pytest.mark.parametrize(
    ("serializer", "window", "text"),
    [
        (TimeWindowSerializer(), W(-5, 10), "-5/10"),
        (TimeWindowSerializer(), W(1_700_000_000_000, 1_700_000_060_000), "1700000000000/1700000060000"),
        (CountWindowSerializer(), CountWindow(17), "17"),
        (GlobalWindowSerializer(), GlobalWindow(), "global"),
    ],
)
def test_windows_are_written_like_this_for_ever(serializer: Any, window: Any, text: str) -> None:
    assert serializer.serialize(window) == text
    assert serializer.deserialize(text) == window


def test_windows_compare_by_their_values() -> None:
    assert len({W(0, 1), W(0, 1), W(0, 2), CountWindow(0), CountWindow(0), GlobalWindow.get(), GlobalWindow()}) == 4
    assert W(0, 1) != CountWindow(0)
    assert sorted([W(1, 2), W(0, 5), W(0, 1)]) == [W(0, 1), W(0, 5), W(1, 2)]
    assert repr([W(0, 1), CountWindow(2), GlobalWindow()]) == (
        "[TimeWindow(start=0, end=1), CountWindow(id=2), GlobalWindow()]"
    )
