"""Windows, under PyFlink's names, and their text form.

The text is the namespace under which a window's state and timers are stored in the log and in state tables. It is part
of the format and may not change. A time window is `<start>/<end>`, as ISO 8601 writes an interval, in ms.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

MAX_TIMESTAMP = (1 << 63) - 1


class Window(ABC):
    """A finite part of the records of a key. Windows are compared and hashed by value."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Returns the last time, in ms, that belongs to the window."""


W = TypeVar("W", bound=Window)


class Merging(Protocol):
    """Receives which windows are merged into one: a `MergingWindowAssigner.MergeCallback`."""

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None: ...


@dataclass(slots=True, order=True, unsafe_hash=True)
class TimeWindow(Window):
    """The time from `start` (inclusive) to `end` (exclusive), both in ms."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: "TimeWindow") -> bool:
        """Returns whether the two overlap or touch: sessions exactly one gap apart are one session."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: "TimeWindow") -> "TimeWindow":
        """Returns the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the window that contains a time.

        Args:
            timestamp: In ms; may be before 1970.
            offset: Shift of the windows from whole multiples of their size, in ms.
            window_size: In ms.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable["TimeWindow"], callback: Merging) -> None:
        """Calls the callback, in order of time, with windows that overlap or touch and the window that covers them."""
        run: list[TimeWindow] = []
        covering: TimeWindow | None = None
        for window in sorted(windows):
            if covering is not None and covering.intersects(window):
                covering = covering.cover(window)
                run.append(window)
                continue
            _report(run, covering, callback)
            covering, run = window, [window]
        _report(run, covering, callback)


def _report(run: list[TimeWindow], covering: TimeWindow | None, callback: Merging) -> None:
    distinct = list(dict.fromkeys(run))
    if len(distinct) > 1:
        callback.merge(distinct, covering)


@dataclass(slots=True, unsafe_hash=True)
class CountWindow(Window):
    """The `id`-th window of a key's records, for windows by number of records."""

    id: int

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP


class GlobalWindow(Window):
    """The single window of all records of a key. It never ends: it has results only if a trigger fires."""

    __slots__ = ()

    @staticmethod
    def get() -> "GlobalWindow":
        """Returns the window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return type(other) is GlobalWindow

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow()"


def event_time(timestamp: int | None) -> int:
    """Returns a record's event time.

    Raises:
        ValueError: The record has none.
    """
    if timestamp is None:
        raise ValueError("the record has no event time; call assign_timestamps_and_watermarks(...) before key_by()")
    return timestamp


class WindowSerializer(ABC, Generic[W]):
    """Converts the windows of an assigner to text and back; PyFlink's serializer writes bytes instead."""

    @abstractmethod
    def serialize(self, window: W) -> str:
        """Returns the text; two windows have one text if and only if they are equal."""

    @abstractmethod
    def deserialize(self, text: str) -> W:
        """Returns the window of a text."""


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """`<start>/<end>`, in ms."""

    def serialize(self, window: TimeWindow) -> str:
        return f"{window.start}/{window.end}"

    def deserialize(self, text: str) -> TimeWindow:
        start, _, end = text.partition("/")
        return TimeWindow(int(start), int(end))


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """The window's number."""

    def serialize(self, window: CountWindow) -> str:
        return str(window.id)

    def deserialize(self, text: str) -> CountWindow:
        return CountWindow(int(text))


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """The word `global`."""

    def serialize(self, window: GlobalWindow) -> str:
        return "global"

    def deserialize(self, text: str) -> GlobalWindow:
        return GlobalWindow()


__all__ = [
    "MAX_TIMESTAMP",
    "CountWindow",
    "CountWindowSerializer",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "TimeWindow",
    "TimeWindowSerializer",
    "Window",
    "WindowSerializer",
    "event_time",
]
