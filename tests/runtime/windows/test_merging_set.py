"""Which window's state has the contents of which window.

Checklist of Flink's `MergingWindowSetTest`, in our words: records of one window; small windows joining a large one;
one window that closes the gap between two; a window inside another; several merges by one record; windows that are
retired and come again; restore.
"""

from typing import Any

import pytest

from state_engine.api.windows import EventTimeSessionWindows, MergingWindowAssigner, TimeWindow, TimeWindowSerializer
from state_engine.runtime.windows.merging import MergingWindowSet

W = TimeWindow


class Value:
    """A value state of one key."""

    def __init__(self, stored: Any = None) -> None:
        self.stored = stored
        self.writes = 0

    def value(self) -> Any:
        return self.stored and dict(self.stored)

    def update(self, value: Any) -> None:
        self.stored = value
        self.writes += 1


class Merges:
    """Remembers merges."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *call: Any) -> None:
        self.calls.append(call)


def windows_of(state: Any = None, assigner: Any = None) -> MergingWindowSet:
    assigner = assigner or EventTimeSessionWindows(3)
    return MergingWindowSet(assigner, TimeWindowSerializer(), state or Value())


@pytest.fixture
def merges() -> Merges:
    return Merges()


def test_windows_that_do_not_meet_hold_their_own(merges: Merges) -> None:
    windows = windows_of()
    for window in (W(0, 3), W(10, 13), W(5, 8)):
        assert windows.add_window(window, merges) == window
        assert windows.state_window(window) == window
    assert merges.calls == []


def test_a_record_inside_a_window_merges_nothing(merges: Merges) -> None:
    windows = windows_of()
    windows.add_window(W(0, 10), merges)
    assert windows.add_window(W(2, 5), merges) == W(0, 10)
    assert windows.add_window(W(0, 10), merges) == W(0, 10)
    assert merges.calls == []


def test_the_first_window_keeps_the_contents_as_it_grows(merges: Merges) -> None:
    windows = windows_of()
    windows.add_window(W(0, 3), merges)
    assert windows.add_window(W(2, 5), merges) == W(0, 5)
    assert windows.add_window(W(5, 8), merges) == W(0, 8)
    assert windows.add_window(W(-2, 1), merges) == W(-2, 8)
    assert windows.state_window(W(-2, 8)) == W(0, 3)
    assert windows.state_window(W(0, 5)) is None
    # Only the merged window is reported; nothing has to be moved.
    assert merges.calls == [
        (W(0, 5), [W(0, 3)], W(0, 3), []),
        (W(0, 8), [W(0, 5)], W(0, 3), []),
        (W(-2, 8), [W(0, 8)], W(0, 3), []),
    ]


def test_a_record_that_closes_the_gap_between_two(merges: Merges) -> None:
    windows = windows_of()
    windows.add_window(W(6, 9), merges)
    windows.add_window(W(0, 3), merges)
    assert windows.add_window(W(3, 6), merges) == W(0, 9)
    assert merges.calls == [(W(0, 9), [W(0, 3), W(6, 9)], W(0, 3), [W(6, 9)])]
    assert windows.state_window(W(0, 9)) == W(0, 3)


def test_several_windows_with_contents_elsewhere(merges: Merges) -> None:
    windows = windows_of()
    for window in (W(0, 3), W(2, 5), W(10, 13), W(12, 15), W(20, 23)):
        windows.add_window(window, merges)
    merges.calls.clear()
    assert windows.add_window(W(5, 20), merges) == W(0, 23)
    assert merges.calls == [(W(0, 23), [W(0, 5), W(10, 15), W(20, 23)], W(0, 3), [W(10, 13), W(20, 23)])]


def test_a_window_that_comes_again_keeps_its_contents(merges: Merges) -> None:
    """If records define their gaps, a record's window may equal an existing window."""
    windows = windows_of()
    windows.add_window(W(0, 3), merges)
    windows.add_window(W(2, 5), merges)
    assert windows.add_window(W(0, 5), merges) == W(0, 5)
    assert windows.state_window(W(0, 5)) == W(0, 3)


def test_a_window_that_is_over_and_one_of_the_same_time(merges: Merges) -> None:
    windows = windows_of()
    windows.add_window(W(0, 3), merges)
    windows.add_window(W(2, 5), merges)
    windows.retire_window(W(0, 5))
    assert windows.state_window(W(0, 5)) is None
    assert windows.add_window(W(0, 5), merges) == W(0, 5)
    assert windows.state_window(W(0, 5)) == W(0, 5)
    with pytest.raises(KeyError):
        windows.retire_window(W(7, 8))


def test_it_is_restored_as_it_was(merges: Merges) -> None:
    state: Any = Value()
    windows = windows_of(state)
    for window in (W(0, 3), W(2, 5), W(10, 13)):
        windows.add_window(window, merges)
    windows.persist()
    assert state.stored == {"0/5": "0/3", "10/13": "10/13"}
    again = windows_of(state)
    assert again.state_window(W(0, 5)) == W(0, 3)
    assert again.add_window(W(5, 10), merges) == W(0, 13)
    assert merges.calls[-1] == (W(0, 13), [W(0, 5), W(10, 13)], W(0, 3), [W(10, 13)])


def test_only_changes_are_written_and_nothing_is_left(merges: Merges) -> None:
    state: Any = Value({"0/3": "0/3", "10/13": "10/13"})
    windows = windows_of(state)
    windows.add_window(W(0, 3), merges)
    windows.persist()
    assert state.writes == 0
    windows.add_window(W(11, 14), merges)
    windows.persist()
    windows.persist()
    assert state.writes == 1
    assert state.stored == {"0/3": "0/3", "10/14": "10/13"}
    windows.retire_window(W(0, 3))
    windows.retire_window(W(10, 14))
    windows.persist()
    assert state.stored is None


class Tens(MergingWindowAssigner[Any, Any]):
    """Merges all windows that begin in the same ten into the whole ten, even a single one."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        tens: dict[int, list[Any]] = {}
        for window in windows:
            tens.setdefault(window.start // 10 * 10, []).append(window)
        for ten, windows_of_ten in tens.items():
            callback.merge(windows_of_ten, W(ten, ten + 10))

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        raise AssertionError

    def get_default_trigger(self, env: Any) -> Any:
        raise AssertionError

    def get_window_serializer(self) -> Any:
        raise AssertionError

    def is_event_time(self) -> bool:
        return True


def test_an_assigner_that_merges_in_its_own_way(merges: Merges) -> None:
    windows = windows_of(assigner=Tens())
    assert windows.add_window(W(3, 4), merges) == W(0, 10)
    assert windows.add_window(W(5, 6), merges) == W(0, 10)
    assert windows.add_window(W(15, 16), merges) == W(10, 20)
    assert windows.state_window(W(0, 10)) == W(0, 10)
    assert merges.calls == []
