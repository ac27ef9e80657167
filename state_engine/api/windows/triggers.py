"""Triggers, under PyFlink's names: they decide when a window emits its result.

A trigger keeps no state in its fields, because one object serves all keys and windows of an instance. It stores state
in `ctx.get_partitioned_state(...)`, which belongs to the current key and window.
"""

from abc import ABC, abstractmethod
from enum import Enum
from operator import add
from typing import Any, Generic, NoReturn, TypeVar

from state_engine.api.descriptors import ReducingStateDescriptor, StateDescriptor
from state_engine.api.functions import NO_METRICS
from state_engine.api.pyflink_types import Types
from state_engine.api.state import State
from state_engine.api.windows.windows import TimeWindow, Window
from state_engine.errors import JobDefinitionError, UnsupportedMethodError

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(Enum):
    """What happens to a window: whether its function is called, and whether its elements are dropped.

    A window without elements never calls its function.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Returns whether the function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Returns whether the elements are dropped. The states of the trigger and the function are kept."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window of a key emits a result."""

    class TriggerContext(ABC):
        """Gives a trigger the time, timers and state of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the epoch's one processing time, in ms."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the operator's watermark, in ms."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Registers a call of `on_processing_time` when processing time passes `time` (ms)."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Registers a call of `on_event_time` when the watermark passes `time` (ms)."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Deletes the window's timer at this processing time; an absent one is no error."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Deletes the window's timer at this event time; an absent one is no error."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Returns a state of the current key and window. Get it anew in each call; do not keep the object."""

        def get_metric_group(self) -> NoReturn:
            """Is not supported.

            Raises:
                UnsupportedMethodError: Always.
            """
            raise UnsupportedMethodError("TriggerContext.get_metric_group() is not supported.", action=NO_METRICS)

    class OnMergeContext(TriggerContext):
        """What `on_merge` gets; the current window is the result of the merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges a list, reducing or aggregating state of the merged windows into that of the resulting window."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called for each element, after it was added to the window.

        Args:
            element: The record.
            timestamp: Its event time in ms; None on a stream without event time.
            window: The window to which it was added.
            ctx: Time, timers and state.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called when a processing-time timer fires: one of the trigger's, or the timer for the window's end."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Called when an event-time timer fires: one of the trigger's, or the timer for the window's end."""

    def can_merge(self) -> bool:
        """Returns whether it can be used with session windows; then `on_merge` must be implemented correctly."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: "Trigger.OnMergeContext") -> None:
        """Called after windows were merged into `window`; then `clear` is called for each of the merged windows."""

    @abstractmethod
    def clear(self, window: W, ctx: "Trigger.TriggerContext") -> None:
        """Called when a window is over: deletes the trigger's timers and clears its state for this window."""


class EventTimeTrigger(Trigger[Any, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for each late element after that."""

    @staticmethod
    def create() -> "EventTimeTrigger":
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # If the end has already passed, on_element fires the window; a timer would fire it again.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[Any, TimeWindow]):
    """Fires when processing time passes the end of the window."""

    @staticmethod
    def create() -> "ProcessingTimeTrigger":
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class NeverTrigger(Trigger[Any, Window]):
    """Never fires: the default of global windows."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        pass


class CountTrigger(Trigger[Any, Window]):
    """Fires when the window got `window_size` elements, and then counts from 0 again.

    Args:
        window_size: Number of elements.
    """

    def __init__(self, window_size: int) -> None:
        if type(window_size) is not int or window_size < 1:
            raise JobDefinitionError(
                f"A CountTrigger was told to fire after {window_size!r} elements.", action="Give 1 or more."
            )
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> "CountTrigger":
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count: Any = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class PurgingTrigger(Trigger[Any, Window]):
    """Makes another trigger also drop the elements whenever it fires.

    Args:
        nested_trigger: The other trigger.
    """

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise JobDefinitionError(f"A PurgingTrigger got {nested_trigger!r}.", action="Give an object of a Trigger.")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> "PurgingTrigger":
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


__all__ = [
    "CountTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerResult",
]
