"""Triggers that fire repeatedly while a window is open, under PyFlink's names."""

from typing import Any

from state_engine.api.descriptors import ReducingStateDescriptor
from state_engine.api.durations import Time, as_milliseconds
from state_engine.api.pyflink_types import Types
from state_engine.api.windows.triggers import Trigger, TriggerResult
from state_engine.api.windows.windows import Window, event_time
from state_engine.errors import JobDefinitionError


class _ContinuousTrigger(Trigger[Any, Window]):
    """Stores per key and window when it fires next: at whole multiples of the interval, and at the window's end.

    Args:
        interval: In ms.
    """

    def __init__(self, interval: int) -> None:
        if interval < 1:
            raise JobDefinitionError(f"{type(self).__name__} got the interval {interval}.", action="Give 1 ms or more.")
        self.interval = interval
        self._next = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        return True

    def _first(self, time: int) -> int:
        return time - time % self.interval + self.interval

    def _state(self, ctx: Trigger.TriggerContext) -> Any:
        return ctx.get_partitioned_state(self._next)


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires whenever the watermark has passed a multiple of the interval, and at the end of the window.

    The multiples begin with the first one after the event time of the window's first element.
    """

    @staticmethod
    def of(interval: Time) -> "ContinuousEventTimeTrigger":
        return ContinuousEventTimeTrigger(as_milliseconds(interval, "The interval of a ContinuousEventTimeTrigger"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        state = self._state(ctx)
        if state.get() is None:
            self._schedule(self._first(event_time(timestamp)), window, state, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = self._state(ctx)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self._schedule(self._first(time), window, state, ctx)
        return TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        time = self._state(ctx).get()
        if time is not None:
            ctx.register_event_time_timer(time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        state = self._state(ctx)
        time = state.get()
        if time is not None:
            ctx.delete_event_time_timer(time)
            state.clear()

    def _schedule(self, time: int, window: Window, state: Any, ctx: Trigger.TriggerContext) -> None:
        time = min(time, window.max_timestamp())
        state.add(time)
        ctx.register_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires whenever processing time has passed a multiple of the interval, and at the end of the window.

    Processing time is constant within an epoch, so several multiples may pass at once: it fires for each.
    """

    @staticmethod
    def of(interval: Time) -> "ContinuousProcessingTimeTrigger":
        return ContinuousProcessingTimeTrigger(
            as_milliseconds(interval, "The interval of a ContinuousProcessingTimeTrigger")
        )

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = self._state(ctx)
        if state.get() is None:
            self._schedule(self._first(ctx.get_current_processing_time()), window, state, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = self._state(ctx)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        if time < window.max_timestamp():  # otherwise the next time would be this one, for ever
            self._schedule(self._first(time), window, state, ctx)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        time = self._state(ctx).get()
        if time is not None:
            ctx.register_processing_time_timer(time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state = self._state(ctx)
        time = state.get()
        if time is not None:
            ctx.delete_processing_time_timer(time)
            state.clear()

    def _schedule(self, time: int, window: Window, state: Any, ctx: Trigger.TriggerContext) -> None:
        time = min(time, window.max_timestamp())
        state.add(time)
        ctx.register_processing_time_timer(time)


__all__ = ["ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger"]
