"""Window assigners, by PyFlink's names: which windows a record belongs to.

Those that merge are in `sessions.py`, those that count in `counting.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from state_engine.api.durations import Time, as_milliseconds
from state_engine.api.functions import RuntimeContext
from state_engine.api.windows.triggers import (
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from state_engine.api.windows.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowSerializer,
    event_time,
)
from state_engine.errors import JobDefinitionError

T = TypeVar("T")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2", bound=Window)


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to any number of windows. It keeps nothing in its own fields."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the epoch's one processing time, in ms."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Returns the operator's context; its states are those of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: "WindowAssigner.WindowAssignerContext"
    ) -> Collection[W]:
        """Returns the windows of a record.

        Args:
            element: The record.
            timestamp: Its event time in ms; None on a stream without event time.
            context: Processing time and state.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Returns the trigger of windows for which the author names none; `env` is None."""

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]:
        """Returns what writes the windows as text."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Says whether windows end by event time; else by processing time, or never."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may be merged."""

    class MergeCallback(ABC, Generic[W2]):
        """What `merge_windows` tells which windows become one."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Says that windows become `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Tells the callback which of a key's windows become one."""


class TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """Base of the assigners of windows of one size. `slide` is the distance of their starts.

    Args:
        size: In ms.
        slide: In ms; `size` where windows do not overlap.
        offset: By how much they are shifted from whole multiples of `slide` since 1970, in ms.

    Raises:
        JobDefinitionError: No windows are like that.
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise JobDefinitionError(
                f"{type(self).__name__} got size={size}, slide={slide}, offset={offset} ms.",
                action="Give a size and a slide above 0, and an offset below the slide, or below the size of windows "
                "that do not slide.",
            )
        self._size, self._slide, self._offset = size, slide, offset

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Size, slide and offset, in ms."""
        return self._size, self._slide, self._offset

    @abstractmethod
    def starts_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> range:
        """Returns the starts of the windows of a record, in ms, the latest first.

        Args:
            timestamp: Its event time in ms; None on a stream without event time.
            context: Processing time.
        """

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return [TimeWindow(start, start + self._size) for start in self.starts_of(timestamp, context)]

    @property
    def goes_by_time_alone(self) -> bool:
        """Whether records with the same `starts_of` are in the same windows: a subclass may look at the record."""
        return type(self).assign_windows is TimeWindowAssigner.assign_windows

    def _starts_at(self, time: int) -> range:
        slide = self._slide
        return range(time - (time - self._offset) % slide, time - self._size, -slide)

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self._size}, slide={self._slide}, offset={self._offset})"


class EventTimeAssigner(TimeWindowAssigner):
    """Base of those that go by event time."""

    def starts_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> range:
        return self._starts_at(event_time(timestamp))

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(TimeWindowAssigner):
    """Base of those that go by processing time: all records of an epoch are in the same windows."""

    def starts_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> range:
        return self._starts_at(context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class TumblingEventTimeWindows(EventTimeAssigner):
    """Windows of one size by event time, one after the other."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingEventTimeWindows":
        """Returns the assigner; `of(Time.days(1), Time.hours(-8))` gives days of a place that is 8 hours ahead."""
        return TumblingEventTimeWindows(_size(size), _offset(offset))


class TumblingProcessingTimeWindows(ProcessingTimeAssigner):
    """Windows of one size by processing time, one after the other."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingProcessingTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return TumblingProcessingTimeWindows(_size(size), _offset(offset))


class SlidingEventTimeWindows(EventTimeAssigner):
    """Windows of one size by event time, each starting a slide behind the last: a record is in several, or in none."""

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingEventTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return SlidingEventTimeWindows(_size(size), _slide(slide), _offset(offset))


class SlidingProcessingTimeWindows(ProcessingTimeAssigner):
    """Windows of one size by processing time, each starting a slide behind the last."""

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingProcessingTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return SlidingProcessingTimeWindows(_size(size), _slide(slide), _offset(offset))


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window for all records of a key. It gives nothing unless a trigger is named."""

    @staticmethod
    def create() -> "GlobalWindows":
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow(),)

    def get_default_trigger(self, env: Any) -> Trigger[Any, GlobalWindow]:
        return NeverTrigger()  # type: ignore[return-value]  # it takes any window

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def _size(size: Time) -> int:
    return as_milliseconds(size, "The size of a window")


def _slide(slide: Time) -> int:
    return as_milliseconds(slide, "The slide of a window")


def _offset(offset: Time | None) -> int:
    return 0 if offset is None else as_milliseconds(offset, "The offset of a window")


__all__ = [
    "EventTimeAssigner",
    "GlobalWindows",
    "MergingWindowAssigner",
    "ProcessingTimeAssigner",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindowAssigner",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
]
