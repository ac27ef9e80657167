"""Makes the state object that a function holds: its row methods, and its column methods as the attribute `columns`."""

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
from state_engine.api.functions import ColumnAggregateFunction, ColumnReduceFunction
from state_engine.api.types import ListType, holds_codec
from state_engine.backends.columns.column import Column
from state_engine.backends.columns.folds import AggregatingColumns, ReducingColumns, RowByRow
from state_engine.backends.columns.states import ListColumns, MapColumns, StateColumns, ValueColumns
from state_engine.backends.columns.ttl import TtlLists, TtlMaps, TtlValues
from state_engine.backends.keys import KeyContext
from state_engine.backends.rows.states import row_state, with_default
from state_engine.backends.rows.ttl import ttl_state
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_rules import TtlRules

Accessed = Callable[..., None] | None


def made_state(
    descriptor: StateDescriptor,
    table: Any,
    context: KeyContext,
    time: OperatorTime,
    rules: TtlRules | None,
    accessed: Accessed,
) -> Any:
    """Returns the state of a descriptor.

    Args:
        descriptor: The requested state.
        table: Its table.
        context: Current key of the operator.
        time: The operator's clocks.
        rules: When values expire; None without a time to live.
        accessed: Called on each access, to clean up; None if nothing is called.
    """
    if rules is None:
        rows = row_state(descriptor, table, context)
    else:
        rows = ttl_state(descriptor, table, context, rules, accessed)
    state = with_default(descriptor, rows)
    row_by_row = RowByRow(rows, table, context, time, descriptor.expires_in_event_time)
    state.columns = _columns(descriptor, table, row_by_row, rules, accessed)
    return state


def _columns(
    descriptor: StateDescriptor, table: Any, rows: RowByRow, rules: TtlRules | None, accessed: Accessed
) -> StateColumns:
    """Returns the column methods of a state."""
    column = Column(descriptor.name, descriptor.type_info)
    view = table if rules is None else _expiring(descriptor)(table, rules, accessed)
    has_columns = not holds_codec(descriptor.type_info)
    match descriptor:
        case ListStateDescriptor():
            return ListColumns(view, column, Column(descriptor.name, ListType(descriptor.type_info)))
        case MapStateDescriptor():
            return MapColumns(view, column, Column(descriptor.name, descriptor.key_type_info))
        case ReducingStateDescriptor():
            reduces = descriptor.get_reduce_function()
            reduce = reduces if isinstance(reduces, ColumnReduceFunction) and has_columns else None
            return ReducingColumns(view, column, rows, rules, reduce)
        case AggregatingStateDescriptor():
            aggregates = descriptor.get_agg_function()
            aggregate = aggregates if isinstance(aggregates, ColumnAggregateFunction) and has_columns else None
            return AggregatingColumns(view, column, rows, rules, aggregate)
        case ValueStateDescriptor(default_value=default) if default is not None:
            return ValueColumns(view, column, column.write([default]))
    return ValueColumns(view, column)


def _expiring(descriptor: StateDescriptor) -> type[TtlLists | TtlMaps | TtlValues]:
    match descriptor:
        case ListStateDescriptor():
            return TtlLists
        case MapStateDescriptor():
            return TtlMaps
    return TtlValues


__all__ = ["made_state"]
