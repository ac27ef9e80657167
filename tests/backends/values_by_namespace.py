"""Heap backends for tests: ones whose tables lie by columns, and one whose column methods are its row methods."""

from typing import Any

from columns_by_rows import by_rows

from state_engine.api.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.layout import Layout
from state_engine.backends.shapes.values import ValueColumnTable
from state_engine.backends.stored_type import StoredType


class ByNamespace(HeapKeyedStateBackend):
    """All that can be lies by columns. After each epoch it forgets keys that no table holds, however few there are."""

    layout = Layout.COLUMNS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timers_by_columns = True

    def settle(self) -> None:
        super().settle()
        self._index.keys.limit = self._index.namespaces.limit = 0
        self._forget_keys()

    def _new_table(self, descriptor: StateDescriptor, stored: StoredType, layout: Layout) -> Any:
        """Folds lie as columns whatever their function: row by row they mean the same with each."""
        if isinstance(descriptor, (ReducingStateDescriptor, AggregatingStateDescriptor)):
            return ValueColumnTable(stored, self._by_namespace, self._stores.column_values(stored))
        return super()._new_table(descriptor, stored, layout)

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        return super().state(descriptor, self.layout)


class ByPlace(ByNamespace):
    """The same, of namespaces that are many: values lie by place."""

    layout = Layout.PLACES


class ByRows(HeapKeyedStateBackend):
    """All lies by entry, and a state's column methods are its row methods, called one by one: what they shall mean."""

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        known = descriptor.name in self._states
        made = super().state(descriptor)
        if not known:
            made.columns = by_rows(descriptor, made, self.context, self.time)
        return made


__all__ = ["ByNamespace", "ByPlace", "ByRows"]
