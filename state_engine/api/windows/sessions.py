"""Session windows, under PyFlink's names: records of a key with no larger gap between them are one window.

Each record first gets a window of its own, from its time to its time plus the gap. Windows that overlap or touch are
merged.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from state_engine.api.durations import Time, as_milliseconds
from state_engine.api.windows.assigners import MergingWindowAssigner, WindowAssigner
from state_engine.api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from state_engine.api.windows.windows import TimeWindow, TimeWindowSerializer, WindowSerializer, event_time
from state_engine.errors import JobDefinitionError


class SessionWindowTimeGapExtractor(ABC):
    """Returns how long the session stays open after a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns the gap in ms, above 0."""


class SessionWindowAssigner(MergingWindowAssigner[Any, TimeWindow]):
    """Base of all session assigners. `gap` is in ms, or extracted from each record."""

    def __init__(self, gap: int | SessionWindowTimeGapExtractor) -> None:
        if isinstance(gap, int) and gap <= 0:
            raise JobDefinitionError(f"{type(self).__name__} got a gap of {gap} ms.", action="Give 1 ms or more.")
        if not isinstance(gap, (int, SessionWindowTimeGapExtractor)):
            raise JobDefinitionError(
                f"{type(self).__name__} got {gap!r} for a gap.", action="Give a SessionWindowTimeGapExtractor."
            )
        self._gap = gap

    def _session(self, element: Any, time: int) -> TimeWindow:
        gap = self._gap
        if not isinstance(gap, int):
            gap = gap.extract(element)
            if gap <= 0:
                raise ValueError(f"the session gap of a record must be above 0 ms, but is {gap}")
        return TimeWindow(time, time + gap)

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._gap})"


class DynamicEventTimeSessionWindows(SessionWindowAssigner):
    """Assigns records to sessions by event time, with a gap per record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows":
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return (self._session(element, event_time(timestamp)),)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class DynamicProcessingTimeSessionWindows(SessionWindowAssigner):
    """Assigns records to sessions by processing time, with a gap per record."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicProcessingTimeSessionWindows":
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return (self._session(element, context.get_current_processing_time()),)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class EventTimeSessionWindows(DynamicEventTimeSessionWindows):
    """Assigns records to sessions by event time, with a fixed gap.

    Args:
        session_gap: In ms.
    """

    def __init__(self, session_gap: int) -> None:
        super().__init__(session_gap)
        self._gap: int = session_gap

    @property
    def gap(self) -> int:
        """The gap, in ms."""
        return self._gap

    @staticmethod
    def with_gap(size: Time) -> "EventTimeSessionWindows":
        """Returns the assigner; a record exactly one gap after the previous one is still in its session."""
        return EventTimeSessionWindows(as_milliseconds(size, "The gap of a session"))


class ProcessingTimeSessionWindows(DynamicProcessingTimeSessionWindows):
    """Assigns records to sessions by processing time, with a fixed gap.

    Args:
        session_gap: In ms.
    """

    def __init__(self, session_gap: int) -> None:
        super().__init__(session_gap)

    @staticmethod
    def with_gap(size: Time) -> "ProcessingTimeSessionWindows":
        """Returns the assigner."""
        return ProcessingTimeSessionWindows(as_milliseconds(size, "The gap of a session"))


__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowAssigner",
    "SessionWindowTimeGapExtractor",
]
