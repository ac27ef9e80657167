"""Open count windows continue when a release has another size or slide."""

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import Types, ValueStateDescriptor
from state_engine.api.windows import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    GlobalWindows,
    WindowAssigner,
)
from state_engine.api.windows.counting import CountWindowAssigner, count_windows

Shown = Callable[..., Any]


def seen(run: Any) -> list[tuple[str, str]]:
    return [(window, numbers) for _, window, numbers in run.extract_output_values()]


def window(number: int) -> str:
    return repr(CountWindow(number))


def released(shown: Shown, before: Any, records: int, after: Any, more: int, *told: Any) -> list[tuple[str, str]]:
    """Returns the output of two consecutive releases; records are numbered."""
    with shown(before, *told[:1]) as first:
        first.process_elements([("a", n) for n in range(records)])
        rows, snapshot = seen(first), first.snapshot()
    with shown(after, *told[1:]) as second:
        second.initialize_state(snapshot)
        second.process_elements([("a", n) for n in range(records, records + more)])
        return rows + seen(second)


def test_a_window_that_has_more_records_than_are_wanted_now_is_full_with_the_next_one(shown: Shown) -> None:
    rows = released(shown, CountTumblingWindowAssigner(5), 3, CountTumblingWindowAssigner(2), 3)
    assert rows == [(window(0), "0 1 2 3"), (window(1), "4 5")]


def test_windows_are_numbered_in_sequence_also_with_a_larger_size(shown: Shown) -> None:
    rows = released(shown, CountTumblingWindowAssigner(2), 7, CountTumblingWindowAssigner(5), 9)
    assert rows == [
        (window(0), "0 1"),
        (window(1), "2 3"),
        (window(2), "4 5"),
        (window(3), "6 7 8 9 10"),
        (window(4), "11 12 13 14 15"),
    ]


def test_sliding_windows_go_on_with_another_size(shown: Shown) -> None:
    """After 5 records the windows of 2 and 4 are open; the first of them is full with the next record."""
    rows = released(shown, CountSlidingWindowAssigner(4, 2), 5, CountSlidingWindowAssigner(3, 2), 4)
    assert rows == [(window(0), "0 1 2 3"), (window(1), "2 3 4 5"), (window(2), "4 5 6"), (window(3), "6 7 8")]


def test_sliding_windows_go_on_with_another_slide(shown: Shown) -> None:
    rows = released(shown, CountSlidingWindowAssigner(4, 2), 5, CountSlidingWindowAssigner(4, 3), 6)
    assert rows == [(window(0), "0 1 2 3"), (window(1), "2 3 4 5"), (window(2), "4 5 6 7"), (window(3), "7 8 9 10")]


@settings(max_examples=max(20, settings.default.max_examples // 4))
@given(
    definitions=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 12)), min_size=1, max_size=4),
    sliding=st.booleans(),
)
def test_no_record_is_lost_whatever_follows(definitions: list[tuple[int, int, int]], sliding: bool) -> None:
    """With a fake state: each window gets records one after the other, until it has the number that is wanted then."""
    state = _State()
    held: dict[int, list[int]] = {}
    last, number = -1, 0
    for size, slide, records in definitions:
        assigner = count_windows(size, slide if sliding else 0)
        for _ in range(records):
            windows = [one.id for one in assigner.assign_windows(None, 0, state)]  # type: ignore[arg-type]
            fresh = [one for one in windows if one not in held]
            assert fresh in ([], [last + 1])
            last = max([last, *fresh])
            for one in windows:
                held.setdefault(one, []).append(number)
            if not sliding or slide <= size:
                assert windows, "a record is in a window, unless windows are further apart than they are long"
            open_ones = {one for one, numbers in held.items() if numbers[-1] < number}
            held = {one: numbers for one, numbers in held.items() if len(numbers) < size}
            assert not open_ones, "a window that is not full gets every record"
            number += 1


class _State:
    """A context for assigners, a runtime context and a state in one."""

    def __init__(self) -> None:
        self._value: Any = None

    def get_runtime_context(self) -> "_State":
        return self

    def get_state(self, descriptor: Any) -> "_State":
        return self

    def value(self) -> Any:
        return self._value

    def update(self, value: Any) -> None:
        self._value = value


def test_a_count_trigger_fires_by_todays_number_over_what_was_counted(shown: Shown) -> None:
    def every(number: int) -> Any:
        return lambda stream: stream.trigger(CountTrigger.of(number))

    assert released(shown, GlobalWindows(), 3, GlobalWindows(), 3, every(5), every(2)) == [
        ("GlobalWindow()", "0 1 2 3"),
        ("GlobalWindow()", "0 1 2 3 4 5"),
    ]


def test_an_evictor_keeps_todays_number_of_what_is_there(shown: Shown) -> None:
    def last(number: int) -> Any:
        return lambda stream: stream.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(number))

    assert released(shown, GlobalWindows(), 3, GlobalWindows(), 1, last(9), last(3)) == [
        ("GlobalWindow()", "0 1"),
        ("GlobalWindow()", "1 2 3"),
    ]


# What earlier releases kept -------------------------------------------------------------------------------------------


class _Former:
    """Numbers windows as earlier releases did: a key has the number of its next record."""

    def assign_windows(
        self: Any, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        count = context.get_runtime_context().get_state(self.windows)
        number: int = count.value() or 0
        count.update(number + 1)
        first = max(0, -(-(number - self._size + 1) // self._slide))
        return [CountWindow(n) for n in range(number // self._slide, first - 1, -1)]


class FormerTumbling(_Former, CountTumblingWindowAssigner):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.windows = ValueStateDescriptor("tumble-count-assigner", Types.LONG())


class FormerSliding(_Former, CountSlidingWindowAssigner):
    def __init__(self, size: int, slide: int) -> None:
        super().__init__(size, slide)
        self.windows = ValueStateDescriptor("slide-count-assigner", Types.LONG())


@pytest.mark.parametrize("records", range(1, 9))
@pytest.mark.parametrize(
    ("former", "now"),
    [
        (FormerTumbling(3), CountTumblingWindowAssigner(3)),
        (FormerSliding(4, 2), CountSlidingWindowAssigner(4, 2)),
        (FormerSliding(5, 2), CountSlidingWindowAssigner(5, 2)),
        (FormerSliding(2, 3), CountSlidingWindowAssigner(2, 3)),
    ],
    ids=repr,
)
def test_what_earlier_releases_kept_is_gone_on_with(
    shown: Shown, former: CountWindowAssigner, now: CountWindowAssigner, records: int
) -> None:
    rows = released(shown, former, records, now, 12 - records)
    assert sorted(rows) == sorted(released(shown, now, 12, now, 0))
