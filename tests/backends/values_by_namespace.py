"""A heap backend for tests that keeps by namespace what can be, as declared windows have theirs."""

from copy import copy
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.backends.column_timers import ColumnTimerTable
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.namespaced import NamespacedValueTable
from state_engine.backends.namespaced_timers import NamespacedTimerTable
from state_engine.backends.stamped_values import StampedValueTable
from state_engine.backends.tables import HeapTable
from state_engine.backends.timers import TimerTable


class ByNamespace(HeapKeyedStateBackend):
    """The backend. It looks for keys that nobody holds any more after each epoch, however few there are."""

    def settle(self) -> None:
        super().settle()
        self._numbers.limit = self._namespaces.limit = 0
        self._forget_keys()

    def _new_timers(self) -> TimerTable:
        if self.timers_by_columns:
            return ColumnTimerTable(self._numbers, self._namespaces)
        return NamespacedTimerTable(self._numbers)

    def _new_table(self, descriptor: StateDescriptor) -> HeapTable:
        """Folds lie as columns whatever their function: row by row they mean the same with each."""
        if isinstance(descriptor, (ReducingStateDescriptor, AggregatingStateDescriptor)):
            kind = NamespacedValueTable if descriptor.ttl_config is None else StampedValueTable
            return kind(descriptor.type_info, self._numbers)
        return super()._new_table(descriptor)

    def state(self, descriptor: StateDescriptor) -> Any:
        if isinstance(descriptor, (ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor)):
            descriptor = copy(descriptor)
            descriptor.by_namespace = True
        return super().state(descriptor)


class ByPlace(ByNamespace):
    """The same, of namespaces that are many: values and timers lie by place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timers_by_columns = True

    def state(self, descriptor: StateDescriptor) -> Any:
        descriptor = copy(descriptor)
        descriptor.many_namespaces = True
        return super().state(descriptor)
