"""Window assigners, under PyFlink's names: they decide to which windows a record belongs.

Assigners of session windows are in `sessions.py`, those of count windows in `counting.py`.
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
    """Assigns each record to any number of windows. It keeps no state in its fields."""

    class WindowAssignerContext(ABC):
        """Gives an assigner processing time and state."""

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
        """Returns the trigger to use if the author names none; `env` is None."""

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]:
        """Returns the serializer that writes the windows as text."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns whether windows end by event time; otherwise they end by processing time, or never."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner of windows that may be merged."""

    class MergeCallback(ABC, Generic[W2]):
        """`merge_windows` calls it with the windows that are merged into one."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merges windows into `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Calls the callback for each group of a key's windows that must be merged into one."""


class TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """Base of the assigners of time windows with a fixed size. `slide` is the distance between their starts.

    Args:
        size: In ms.
        slide: In ms; equal to `size` for tumbling windows.
        offset: Shift of the windows from whole multiples of `slide` since 1970, in ms.

    Raises:
        JobDefinitionError: The size or slide is not above 0, or the absolute offset is not below the slide.
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
        """Returns the starts of a record's windows, in ms, the latest first.

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
        """Whether `starts_of` alone decides a record's windows; false if a subclass overrides `assign_windows`."""
        return type(self).assign_windows is TimeWindowAssigner.assign_windows

    def _starts_at(self, time: int) -> range:
        slide = self._slide
        return range(time - (time - self._offset) % slide, time - self._size, -slide)

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self._size}, slide={self._slide}, offset={self._offset})"


class EventTimeAssigner(TimeWindowAssigner):
    """Base of the time-window assigners that use event time."""

    def starts_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> range:
        return self._starts_at(event_time(timestamp))

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(TimeWindowAssigner):
    """Base of the time-window assigners that use processing time: all records of an epoch are in the same windows."""

    def starts_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> range:
        return self._starts_at(context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class TumblingEventTimeWindows(EventTimeAssigner):
    """Assigns records to tumbling windows by event time: windows of one size that do not overlap."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingEventTimeWindows":
        """Returns the assigner; `of(Time.days(1), Time.hours(-8))` gives days in the time zone UTC+8."""
        return TumblingEventTimeWindows(_size(size), _offset(offset))


class TumblingProcessingTimeWindows(ProcessingTimeAssigner):
    """Assigns records to tumbling windows by processing time: windows of one size that do not overlap."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingProcessingTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return TumblingProcessingTimeWindows(_size(size), _offset(offset))


class SlidingEventTimeWindows(EventTimeAssigner):
    """Assigns records to sliding windows by event time: windows of one size, which start one slide apart.

    A record may be in several windows, or in none.
    """

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingEventTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return SlidingEventTimeWindows(_size(size), _slide(slide), _offset(offset))


class SlidingProcessingTimeWindows(ProcessingTimeAssigner):
    """Assigns records to sliding windows by processing time: windows of one size, which start one slide apart."""

    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingProcessingTimeWindows":
        """Returns the assigner; see `TumblingEventTimeWindows.of`."""
        return SlidingProcessingTimeWindows(_size(size), _slide(slide), _offset(offset))


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Assigns all records of a key to one window, which has no results unless you name a trigger."""

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
