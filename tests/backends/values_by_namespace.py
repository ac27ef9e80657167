"""Heap backends for tests: some with tables by columns, and one with column methods that call its row methods."""

from typing import Any

from columns_by_rows import by_rows

from state_engine.api.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.layout import Layout
from state_engine.backends.shapes.values import ValueColumnTable
from state_engine.backends.stored_type import StoredType


class ByNamespace(HeapKeyedStateBackend):
    """Stores all tables by columns that can be. After each epoch it drops even a few keys that no table has."""

    layout = Layout.COLUMNS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timers_by_columns = True

    def settle(self) -> None:
        super().settle()
        self._index.keys.limit = self._index.namespaces.limit = 0
        self._forget_keys()

    def _new_table(self, descriptor: StateDescriptor, stored: StoredType, layout: Layout) -> Any:
        """Stores folds as columns, for every function: row by row they mean the same with each."""
        if isinstance(descriptor, (ReducingStateDescriptor, AggregatingStateDescriptor)):
            return ValueColumnTable(stored, self._by_namespace, self._stores.column_values(stored))
        return super()._new_table(descriptor, stored, layout)

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        return super().state(descriptor, self.layout)


class ByPlace(ByNamespace):
    """The same for many namespaces: values are stored by place."""

    layout = Layout.PLACES


class ByRows(HeapKeyedStateBackend):
    """Stores all tables by entry; column methods call the row methods one by one, which defines what they must do."""

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        exists = descriptor.name in self._states
        made = super().state(descriptor)
        if not exists:
            made.columns = by_rows(descriptor, made, self.context, self.time)
        return made


__all__ = ["ByNamespace", "ByPlace", "ByRows"]
