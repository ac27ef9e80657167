"""The properties on which the state of windows depends: a start compares them with those in the log."""

from typing import Any

from state_engine.api.functions import Function
from state_engine.api.windows import MergingWindowAssigner, PurgingTrigger, Trigger, WindowAssigner
from state_engine.api.windows.counting import CountWindowAssigner
from state_engine.log.window_records import WindowsShape
from state_engine.runtime.declared.windowed import WindowedAggregation
from state_engine.runtime.windows.operator import WindowAdapter

_KINDS = {
    ("TimeWindowSerializer", False): "windows of time",
    ("TimeWindowSerializer", True): "sessions",
    ("GlobalWindowSerializer", False): "the global window",
}


def windows_shape(function: Function) -> WindowsShape | None:
    """Returns the properties on which the state of an operator's windows depends; None without windows."""
    if isinstance(function, WindowedAggregation):
        assigner, declared = function.assigner, True
        trigger, evicting = assigner.get_default_trigger(None), False
    elif isinstance(function, WindowAdapter):
        operation = function.operation
        assigner, declared = operation.assigner, False
        trigger, evicting = None if operation.ends_when_purged else operation.trigger, operation.evicting
    else:
        return None
    return WindowsShape(
        kind=_kind_of(assigner),
        event_time=assigner.is_event_time(),
        trigger=_trigger_of(trigger),
        evicting=evicting,
        declared=declared,
    )


def _kind_of(assigner: WindowAssigner[Any, Any]) -> str:
    """Returns the kind of windows: how their texts are spelled, and whether a merged window's text can hold contents.

    Tumbling windows, sliding windows and an author's own time windows all spell their texts the same way.
    """
    if isinstance(assigner, CountWindowAssigner):
        return f"windows by count ({assigner.windows.name})"
    merging = isinstance(assigner, MergingWindowAssigner)
    spelling = type(assigner.get_window_serializer()).__qualname__
    return _KINDS.get((spelling, merging), f"{'merging ' if merging else ''}windows of {spelling}")


def _trigger_of(trigger: Trigger[Any, Any] | None) -> str:
    """Returns the name of a trigger's class, without `PurgingTrigger`: purging needs no state of its own."""
    while isinstance(trigger, PurgingTrigger):
        trigger = trigger.nested_trigger
    return "that of windows by count" if trigger is None else type(trigger).__qualname__


__all__ = ["windows_shape"]
