"""Which table of the heap a state gets, and what a function holds of it.

States lie by entry, as Python values, where they are asked for record by record; by columns, with numbers for keys,
where whole batches ask for them (`StateDescriptor.by_namespace`) and there is a table of columns for their kind.
"""

from collections.abc import Callable
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.types import KEY_ATOMS, AtomicType, ListType
from state_engine.backends.columns import (
    Column,
    ListColumns,
    MapColumns,
    PlainValueColumns,
    StateColumns,
    ValueColumns,
)
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyContext
from state_engine.backends.map_states import NamespacedMapColumns, NamespacedMapState
from state_engine.backends.namespaced import NamespacedValueColumns, NamespacedValueState, NamespacedValueTable
from state_engine.backends.namespaced_folds import (
    fold_columns,
    fold_rows,
    fold_table,
    stamped_fold_rows,
)
from state_engine.backends.namespaced_lists import NamespacedListColumns, NamespacedListState, NamespacedListTable
from state_engine.backends.namespaced_maps import NamespacedMapTable
from state_engine.backends.placed_values import PlacedValueTable
from state_engine.backends.places import NamespaceNumbers
from state_engine.backends.stamped_lists import StampedListColumns, StampedListState, StampedListTable
from state_engine.backends.stamped_maps import StampedMapColumns, StampedMapState, StampedMapTable
from state_engine.backends.stamped_values import StampedValueColumns, StampedValueState, StampedValueTable
from state_engine.backends.states import (
    HeapAggregatingState,
    HeapListState,
    HeapReducingState,
    HeapValueState,
    heap_map_state,
    heap_value_state,
    reducer,
)
from state_engine.backends.tables import HeapTable, ListTable, MapTable, ValueTable
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_rules import TtlRules

_ROWS: dict[type[HeapTable], Callable[..., Any]] = {
    NamespacedValueTable: NamespacedValueState,
    NamespacedListTable: NamespacedListState,
    NamespacedMapTable: NamespacedMapState,
}
_COLUMNS: dict[type[HeapTable], type[StateColumns]] = {
    NamespacedValueTable: NamespacedValueColumns,
    NamespacedListTable: NamespacedListColumns,
    NamespacedMapTable: NamespacedMapColumns,
    StampedValueTable: StampedValueColumns,
    StampedListTable: StampedListColumns,
    StampedMapTable: StampedMapColumns,
}


def heap_table(descriptor: StateDescriptor, numbers: KeyNumbers, namespaces: NamespaceNumbers) -> HeapTable:
    """Returns an empty table for a state.

    Args:
        descriptor: Of the state.
        numbers: Of the backend's keys, for tables of columns.
        namespaces: Likewise.
    """
    match descriptor:
        case _ if not descriptor.by_namespace:
            return _by_entry(descriptor)
        case ReducingStateDescriptor() | AggregatingStateDescriptor():
            return fold_table(descriptor, numbers) or _by_entry(descriptor)
        case ListStateDescriptor(ttl_config=None):
            return NamespacedListTable(descriptor.type_info, numbers)
        case ListStateDescriptor():
            return StampedListTable(descriptor.type_info, numbers)
        case MapStateDescriptor(ttl_config=None, key_type_info=AtomicType(name)) if name in KEY_ATOMS:
            return NamespacedMapTable(descriptor.key_type_info, descriptor.type_info, numbers)
        case MapStateDescriptor(key_type_info=AtomicType(name)) if name in KEY_ATOMS:
            return StampedMapTable(descriptor.key_type_info, descriptor.type_info, numbers)
        case ValueStateDescriptor(default_value=None, ttl_config=None, many_namespaces=True):
            return PlacedValueTable(descriptor.type_info, numbers, namespaces)
        case ValueStateDescriptor(default_value=None, ttl_config=None):
            return NamespacedValueTable(descriptor.type_info, numbers)
        case ValueStateDescriptor(default_value=None):
            return StampedValueTable(descriptor.type_info, numbers)
    return _by_entry(descriptor)


def _by_entry(descriptor: StateDescriptor) -> HeapTable:
    stamped = descriptor.ttl_config is not None
    if isinstance(descriptor, ListStateDescriptor):
        return ListTable(descriptor.type_info, stamped)
    if isinstance(descriptor, MapStateDescriptor):
        return MapTable(descriptor.key_type_info, descriptor.type_info, stamped)
    return ValueTable(descriptor.type_info, stamped)


def row_methods(descriptor: StateDescriptor, table: Any, context: KeyContext) -> Any:
    """Returns what a function calls per record, of a state without a time to live."""
    match descriptor:
        case ReducingStateDescriptor() | AggregatingStateDescriptor() if isinstance(table, NamespacedValueTable):
            return fold_rows(descriptor, table, context)
        case _ if (rows := _of_kind(_ROWS, table)) is not None:
            return rows(table, context)
        case ListStateDescriptor():
            return HeapListState(table, context)
        case MapStateDescriptor():
            return heap_map_state(table, context)
        case ReducingStateDescriptor():
            return HeapReducingState(table, context, reducer(descriptor))
        case AggregatingStateDescriptor():
            return HeapAggregatingState(table, context, descriptor.get_agg_function())
        case ValueStateDescriptor():
            return heap_value_state(table, context)
    raise TypeError(f"{descriptor!r} describes no keyed state")


def stamped_row_methods(
    descriptor: StateDescriptor,
    table: Any,
    context: KeyContext,
    rules: TtlRules,
    accessed: Callable[..., None] | None,
) -> Any:
    """Returns what a function calls per record, of a state whose values and their last accesses lie as columns.

    Args:
        descriptor: Of the state.
        table: Its own.
        context: Current key of the operator.
        rules: When values expire.
        accessed: Is called before each access; None for nothing.
    """
    match descriptor:
        case ReducingStateDescriptor() | AggregatingStateDescriptor():
            return stamped_fold_rows(descriptor, table, context, rules, accessed)
        case ListStateDescriptor():
            return StampedListState(NamespacedListState(table, context), rules, accessed)
        case MapStateDescriptor():
            return StampedMapState(NamespacedMapState(table, context), rules, accessed)
    return StampedValueState(NamespacedValueState(table, context), rules, accessed)


def _of_kind(known: dict[type[HeapTable], Any], table: HeapTable) -> Any:
    """Returns what is known of the class of a table, or of one that it is made of; None if nothing is."""
    return next((known[kind] for kind in type(table).__mro__ if kind in known), None)


def column_methods(
    descriptor: StateDescriptor,
    table: HeapTable,
    state: Any,
    context: KeyContext,
    time: OperatorTime,
    prefetch: Callable[[list[Any]], None],
) -> StateColumns:
    """Returns what a function calls per batch.

    Args:
        descriptor: Of the state.
        table: Its own.
        state: Its row methods.
        context: Current key of the operator.
        time: Its clocks.
        prefetch: Is told the keys that are asked for next.
    """
    columns: Callable[..., StateColumns] | None = _of_kind(_COLUMNS, table)
    column = Column(descriptor.name, descriptor.type_info)
    shared = state, column, context, time, prefetch, descriptor.expires_in_event_time
    if isinstance(descriptor, ListStateDescriptor):
        return (columns or ListColumns)(*shared, lists=Column(descriptor.name, ListType(descriptor.type_info)))
    if isinstance(descriptor, MapStateDescriptor):
        return (columns or MapColumns)(*shared, user_keys=Column(descriptor.name, descriptor.key_type_info))
    if isinstance(descriptor, ReducingStateDescriptor | AggregatingStateDescriptor):
        return fold_columns(descriptor, table, shared)
    if columns is not None:
        return columns(*shared)
    match descriptor:
        case ValueStateDescriptor() if type(state) is HeapValueState:
            return PlainValueColumns(*shared)
    return ValueColumns(*shared)


__all__ = ["column_methods", "heap_table", "row_methods", "stamped_row_methods"]
