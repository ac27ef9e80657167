"""The windows of a record, with what the operator wants to know of each.

Windows of time are the same for all records of a slide: they are made, and written as text, once. An author's own
assigner is asked for each record.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.assigners import TimeWindowAssigner
from state_engine.iterating import whole

_KEPT = 1_000
"""So many sets of windows are kept at most; records come in order of time, so that few are asked for at once."""


class Assigned(NamedTuple):
    """A window of a record.

    Attributes:
        window: The window; several records may share the object.
        end: When it is over, in ms of the clock that the assigner goes by.
        namespace: The window as text.
    """

    window: Any
    end: int
    namespace: str


WindowsOf = Callable[[Any, int | None], Iterable[Assigned]]
"""Gives the windows of a record and its event time."""


def windows_of(
    assigner: WindowAssigner[Any, Any],
    context: WindowAssigner.WindowAssignerContext,
    end_of: Callable[[Any], int],
) -> WindowsOf:
    """Returns what gives the windows of a record.

    Args:
        assigner: Whose windows; they are not merged.
        context: For the assigner.
        end_of: Returns when a window is over, in ms.
    """
    serialize = assigner.get_window_serializer().serialize

    def asked(value: Any, timestamp: int | None) -> list[Assigned]:
        windows = assigner.assign_windows(value, timestamp, context)  # type: ignore[arg-type]  # it refuses None
        return [Assigned(window, end_of(window), serialize(window)) for window in whole(windows)]

    if not isinstance(assigner, TimeWindowAssigner) or not assigner.goes_by_time_alone:
        return asked
    known: dict[range, list[Assigned]] = {}
    starts_of = assigner.starts_of

    def remembered(value: Any, timestamp: int | None) -> list[Assigned]:
        starts = starts_of(timestamp, context)
        found = known.get(starts)
        if found is None:
            if len(known) >= _KEPT:
                known.clear()
            found = known[starts] = asked(value, timestamp)
        return found

    return remembered


__all__ = ["Assigned", "WindowsOf", "windows_of"]
