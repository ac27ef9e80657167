"""Evictors: what stays in a window, before and after its function."""

from typing import Any

import pytest

from state_engine.api import Time
from state_engine.api.windows import CountEvictor, DeltaEvictor, TimeEvictor, TimestampedValue, TimeWindow
from state_engine.errors import JobDefinitionError


def stays(evictor: Any, ctx: Any, elements: list[tuple[Any, int | None]], after: bool = False) -> list[Any]:
    listed = [TimestampedValue(*e) for e in elements]
    call = evictor.evict_after if after else evictor.evict_before
    call(listed, len(listed), TimeWindow(0, 10), ctx)
    return [e.value for e in listed]


ABC: list[tuple[Any, int | None]] = [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(("kept", "left"), [(0, ""), (1, "c"), (2, "bc"), (3, "abc"), (9, "abc")])
def test_the_last_elements_stay(evictor_context: Any, kept: int, left: str) -> None:
    assert "".join(stays(CountEvictor.of(kept), evictor_context, ABC)) == left


@pytest.mark.parametrize(
    "make",
    [
        lambda after: CountEvictor.of(1, after),
        lambda after: TimeEvictor.of(Time.milliseconds(1), after),
        lambda after: DeltaEvictor.of(1, lambda value, last: value != last, after),
    ],
)
def test_one_side_only(evictor_context: Any, make: Any) -> None:
    assert stays(make(False), evictor_context, ABC) == ["c"]
    assert stays(make(False), evictor_context, ABC, after=True) == ["a", "b", "c"]
    assert stays(make(True), evictor_context, ABC) == ["a", "b", "c"]
    assert stays(make(True), evictor_context, ABC, after=True) == ["c"]


def test_time_counts_from_the_latest_at_any_position(evictor_context: Any) -> None:
    elements: list[tuple[Any, int | None]] = [("a", 10), ("b", 4), ("c", 5), ("d", 9)]
    assert stays(TimeEvictor.of(Time.milliseconds(5)), evictor_context, elements) == ["a", "d"]


def test_without_event_time_nothing_is_old(evictor_context: Any) -> None:
    assert stays(TimeEvictor(1), evictor_context, [("a", None), ("b", None)]) == ["a", "b"]


def test_what_differs_too_much_from_the_last_goes(evictor_context: Any) -> None:
    evictor = DeltaEvictor.of(3, lambda value, last: abs(value - last))
    assert stays(evictor, evictor_context, [(1, 0), (5, 0), (2, 0), (7, 0), (4, 0)]) == [5, 2, 4]


@pytest.mark.parametrize("evictor", [CountEvictor(1), TimeEvictor(1), DeltaEvictor(1, lambda a, b: 0)])
def test_empty_windows(evictor_context: Any, evictor: Any) -> None:
    assert stays(evictor, evictor_context, []) == []


def test_it_cannot_keep_less_than_nothing() -> None:
    with pytest.raises(JobDefinitionError):
        CountEvictor.of(-1)
