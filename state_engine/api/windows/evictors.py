"""Evictors: they remove elements from a window before or after its function is called.

PyFlink has none; these are Flink's Java evictors under Python names. With an evictor a window keeps all its elements,
even if they are reduced or aggregated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from state_engine.api.durations import Time, as_milliseconds
from state_engine.api.windows.windows import Window
from state_engine.errors import JobDefinitionError


class TimestampedValue(NamedTuple):
    """An element of a window: the record, and its event time in ms or None."""

    value: Any
    timestamp: int | None

    def has_timestamp(self) -> bool:
        """Returns whether the record has an event time."""
        return self.timestamp is not None


class Evictor(ABC):
    """Removes elements from a window permanently."""

    class EvictorContext(ABC):
        """Gives an evictor the current times."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the epoch's one processing time, in ms."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the operator's watermark, in ms."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, ctx: "Evictor.EvictorContext"
    ) -> None:
        """Called before the window's function.

        Args:
            elements: All elements, in order of arrival. Elements that are removed from this list are evicted.
            size: The number of elements.
            window: The window with these elements.
            ctx: The current times.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, ctx: "Evictor.EvictorContext"
    ) -> None:
        """Called after the window's function, with the elements that the function got; as `evict_before`."""


class _OneSidedEvictor(Evictor):
    """Evicts by one rule, either before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, ctx: Evictor.EvictorContext
    ) -> None:
        if not self._after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, ctx: Evictor.EvictorContext
    ) -> None:
        if self._after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None:
        """Removes elements from the list."""


class CountEvictor(_OneSidedEvictor):
    """Keeps the last `max_count` elements."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        if max_count < 0:
            raise JobDefinitionError(f"A CountEvictor was told to keep {max_count} elements.", action="Give 0 or more.")
        super().__init__(do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> "CountEvictor":
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self._max_count)]


class TimeEvictor(_OneSidedEvictor):
    """Keeps the elements with an event time less than `window_size` before the latest event time.

    If the first element has no event time, nothing is evicted.

    Args:
        window_size: In ms.
        do_evict_after: Whether to evict after the function, so that it still gets these elements.
    """

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Time, do_evict_after: bool = False) -> "TimeEvictor":
        return TimeEvictor(as_milliseconds(window_size, "The window of a TimeEvictor"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements or not elements[0].has_timestamp():
            return
        latest = max(_time(element) for element in elements)
        elements[:] = [element for element in elements if _time(element) > latest - self._window_size]


def _time(element: TimestampedValue) -> int:
    assert element.timestamp is not None  # a stream has event time for all its records or for none
    return element.timestamp


class DeltaEvictor(_OneSidedEvictor):
    """Keeps the elements that differ from the last one by less than a threshold.

    Args:
        threshold: An element with at least this difference is evicted.
        delta_function: Returns the difference between an element and the last one.
        do_evict_after: Whether to evict after the function, so that it still gets these elements.
    """

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> "DeltaEvictor":
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, last) < self._threshold]


__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor", "TimestampedValue"]
