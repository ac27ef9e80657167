"""The windows of a record, each with its end and its namespace.

Time windows are the same for all records of a slide, so they are made, and written as text, only once. An author's own
assigner is called for each record.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.assigners import TimeWindowAssigner
from state_engine.iterating import whole

_KEPT = 1_000
"""The largest number of cached sets of windows. Records come in order of time, so few sets are needed at a time."""


class Assigned(NamedTuple):
    """A window of a record.

    Attributes:
        window: The window; several records may share the object.
        end: When it is over, in ms of the assigner's clock.
        namespace: The window as text.
    """

    window: Any
    end: int
    namespace: str


WindowsOf = Callable[[Any, int | None], Iterable[Assigned]]
"""Returns the windows for a record and its event time."""


def windows_of(
    assigner: WindowAssigner[Any, Any],
    context: WindowAssigner.WindowAssignerContext,
    end_of: Callable[[Any], int],
) -> WindowsOf:
    """Returns a function that returns the windows of a record.

    Args:
        assigner: Assigns the windows; they are not merged.
        context: Context for the assigner.
        end_of: Returns when a window is over, in ms.
    """
    serialize = assigner.get_window_serializer().serialize

    def assign(value: Any, timestamp: int | None) -> list[Assigned]:
        windows = assigner.assign_windows(value, timestamp, context)  # type: ignore[arg-type]  # it refuses None
        return [Assigned(window, end_of(window), serialize(window)) for window in whole(windows)]

    if not isinstance(assigner, TimeWindowAssigner) or not assigner.goes_by_time_alone:
        return assign
    memo: dict[range, list[Assigned]] = {}
    starts_of = assigner.starts_of

    def assign_cached(value: Any, timestamp: int | None) -> list[Assigned]:
        starts = starts_of(timestamp, context)
        assigned = memo.get(starts)
        if assigned is None:
            if len(memo) >= _KEPT:
                memo.clear()
            assigned = memo[starts] = assign(value, timestamp)
        return assigned

    return assign_cached


__all__ = ["Assigned", "WindowsOf", "windows_of"]
