"""Chooses the table of a state, from the layout that the runtime passes: how the state will be accessed."""

from enum import Enum
from typing import Any, Protocol

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from state_engine.api.functions import ColumnAggregateFunction, ColumnReduceFunction
from state_engine.api.types import KEY_ATOMS, AtomicType
from state_engine.backends.entry_index import Addressing, ByNamespace, ByPlace
from state_engine.backends.shapes.column_maps import MapColumnTable
from state_engine.backends.shapes.lists import ListColumnTable, ListTable
from state_engine.backends.shapes.maps import MapTable, UserKeys
from state_engine.backends.shapes.values import ValueColumnTable, ValueTable
from state_engine.backends.stored_type import StoredType


class Layout(Enum):
    """How a state will be accessed."""

    ENTRIES = "entries"
    """Record by record: a table by entry."""
    COLUMNS = "columns"
    """By batches of many keys in few namespaces: a table by columns, a segment for each namespace."""
    PLACES = "places"
    """By batches of keys that have namespaces of their own, such as sessions: a table by columns, one segment."""


class Stores(Protocol):
    """Makes the stores of a backend's tables. If it returns None for a store by columns, the table is by entry."""

    def values(self, stored: StoredType) -> Any: ...

    def lists(self, stored: StoredType) -> Any: ...

    def maps(self, user_keys: UserKeys, stored: StoredType) -> Any: ...

    def column_values(self, stored: StoredType) -> Any: ...

    def column_lists(self, stored: StoredType, addressing: ByNamespace) -> Any: ...

    def column_maps(self, stored: StoredType) -> Any: ...


def make_table(
    descriptor: StateDescriptor,
    stored: StoredType,
    layout: Layout,
    stores: Stores,
    by_namespace: ByNamespace,
    by_place: ByPlace,
) -> Any:
    """Returns an empty table for a state.

    Args:
        descriptor: Of the state.
        stored: What it stores.
        layout: How it will be accessed.
        stores: Make its store.
        by_namespace: Numbers entries in one segment per namespace.
        by_place: Numbers them in one segment.
    """
    by_columns = layout is not Layout.ENTRIES
    match descriptor:
        case ListStateDescriptor():
            if layout is Layout.COLUMNS and (store := stores.column_lists(stored, by_namespace)) is not None:
                return ListColumnTable(stored, by_namespace, store)
            return ListTable(stored, stores.lists(stored))
        case MapStateDescriptor():
            user_keys = UserKeys(descriptor.key_type_info)
            if layout is Layout.COLUMNS and _is_key_atom(descriptor):
                store = stores.column_maps(stored)
                if store is not None:
                    return MapColumnTable(user_keys, stored, by_namespace, store)
            return MapTable(user_keys, stored, stores.maps(user_keys, stored))
    if by_columns and _folds_columns(descriptor) and (store := stores.column_values(stored)) is not None:
        addressing: Addressing = by_place if layout is Layout.PLACES else by_namespace
        return ValueColumnTable(stored, addressing, store)
    return ValueTable(stored, stores.values(stored))


def _is_key_atom(descriptor: MapStateDescriptor) -> bool:
    key = descriptor.key_type_info
    return isinstance(key, AtomicType) and key.name in KEY_ATOMS


def _folds_columns(descriptor: StateDescriptor) -> bool:
    """Returns whether a state can be accessed by columns alone: if it folds, its function must fold columns."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return isinstance(descriptor.get_reduce_function(), ColumnReduceFunction)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return isinstance(descriptor.get_agg_function(), ColumnAggregateFunction)
    return True


__all__ = ["Layout", "Stores", "make_table"]
