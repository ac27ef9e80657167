"""The contexts of assigners, triggers, evictors and window functions."""

from collections.abc import Sequence
from typing import Any

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.functions import KeyedStateStore, RuntimeContext
from state_engine.api.state import State
from state_engine.api.timers import TimerService
from state_engine.api.windows import Evictor, ProcessWindowFunction, Trigger, WindowAssigner
from state_engine.backends.keys import KeyContext
from state_engine.backends.time import OperatorTime
from state_engine.errors import JobDefinitionError
from state_engine.runtime.windows.scoped import Scope, scoped
from state_engine.runtime.windows.states import KnownStates, MergeableStates, merge_entries


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The context of assigners; the current entry is the key."""

    def __init__(self, time: OperatorTime, context: RuntimeContext) -> None:
        self._time = time
        self._context = _CachingContext(context)

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_runtime_context(self) -> Any:
        return self._context


class _CachingContext:
    """A runtime context that gets each state only once."""

    def __init__(self, context: RuntimeContext) -> None:
        self._context = context
        self._states = KnownStates(context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._states if name.endswith("_state") else self._context, name)


class StatelessContext:
    """A runtime context for functions that are called while the state of another window is current."""

    def __init__(self, context: RuntimeContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_state"):
            raise JobDefinitionError(
                "The reduce or aggregate function of a window asked for a state.",
                action="Keep state in a ProcessWindowFunction, given as the second argument.",
            )
        return getattr(self._context, name)


class WindowTriggerContext(Trigger.OnMergeContext):
    """The context of triggers; the current entry is the key with the current window.

    Attributes:
        merged: During a merge, the entries of the windows that were merged.
    """

    def __init__(self, keys: KeyContext, time: OperatorTime, timers: TimerService, context: RuntimeContext) -> None:
        self._keys, self._time, self._timers = keys, time, timers
        self._states = MergeableStates(context)
        self.merged: Sequence[Any] = ()

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_current_watermark(self) -> int:
        return self._time.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
        return self._states.of(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        merge_entries(self._states.of(state_descriptor), self._keys, self._keys.entry, self.merged)


class WindowEvictorContext(Evictor.EvictorContext):
    """The context of evictors."""

    def __init__(self, time: OperatorTime) -> None:
        self._time = time

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_current_watermark(self) -> int:
        return self._time.watermark


class WindowProcessContext(ProcessWindowFunction.Context[Any]):
    """The context of window functions; the current entry is the key, so states over all windows need no wrapper.

    Args:
        keys: The current entry.
        time: The operator's clocks.
        context: Returns the states.
        merging: Whether windows are merged. If so, they have no states of their own.
    """

    def __init__(self, keys: KeyContext, time: OperatorTime, context: RuntimeContext, *, merging: bool) -> None:
        self._time = time
        self._scope = Scope()
        self._window: Any = None
        self._global = KnownStates(context)
        self._of_window = None if merging else KnownStates(context, lambda state: scoped(state, self._scope, keys))

    def at(self, window: Any, entry: Any) -> "WindowProcessContext":
        """Returns this context, for another window.

        Args:
            window: The current window.
            entry: The key, with the window as namespace.
        """
        self._window, self._scope.entry = window, entry
        return self

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        return self._time.processing_time

    def current_watermark(self) -> int:
        return self._time.watermark

    def window_state(self) -> KeyedStateStore:
        if self._of_window is None:
            raise JobDefinitionError(
                "A window function asked for the state of a window that may be merged with others.",
                action="Use global_state(), which is the state of the key.",
            )
        return self._of_window

    def global_state(self) -> KeyedStateStore:
        return self._global


__all__ = [
    "AssignerContext",
    "StatelessContext",
    "WindowEvictorContext",
    "WindowProcessContext",
    "WindowTriggerContext",
]
