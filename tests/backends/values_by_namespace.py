"""A heap backend for tests that keeps by namespace what can be, as declared windows have theirs."""

from copy import copy
from typing import Any

from state_engine.api.descriptors import ListStateDescriptor, StateDescriptor, ValueStateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.namespaced_timers import NamespacedTimerTable
from state_engine.backends.timers import TimerTable


class ByNamespace(HeapKeyedStateBackend):
    """The backend. It looks for keys that nobody holds any more after each epoch, however few there are."""

    def settle(self) -> None:
        super().settle()
        self._numbers.limit = 0
        self._forget_keys()

    def _new_timers(self) -> TimerTable:
        return NamespacedTimerTable(self._numbers)

    def state(self, descriptor: StateDescriptor) -> Any:
        if isinstance(descriptor, (ValueStateDescriptor, ListStateDescriptor)):
            descriptor = copy(descriptor)
            descriptor.by_namespace = True
        return super().state(descriptor)
