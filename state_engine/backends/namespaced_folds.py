"""Reducing and aggregating states over columns: what functions that fold by columns keep of them on the heap.

They lie as values do (`namespaced.py`, `stamped_values.py`), so nothing is a Python object per key: neither what is
asked, nor what is added. Row by row they are the states over dicts, with another place to read and to write.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from state_engine.api.functions import ColumnAggregateFunction, ColumnReduceFunction
from state_engine.api.keys import Keys, indices
from state_engine.api.types import holds_codec
from state_engine.backends.columns import StateColumns
from state_engine.backends.folding_columns import AggregatingColumns, ColumnAggregatingColumns, ReducingColumns
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyContext
from state_engine.backends.list_runs import Flags
from state_engine.backends.namespaced import NamespacedColumns, NamespacedValueColumns, NamespacedValueTable
from state_engine.backends.stamped_tables import StampedState, without
from state_engine.backends.stamped_values import StampedColumns, StampedValueTable
from state_engine.backends.states import FoldedValue, Folding, HeapAggregatingState, HeapReducingState, reducer
from state_engine.backends.tables import HeapTable
from state_engine.backends.ttl import TtlAggregatingState, TtlReducingState
from state_engine.backends.ttl_rules import TtlRules

Folds = AggregatingStateDescriptor | ReducingStateDescriptor


class _OverColumns(Folding):
    """A fold whose accumulators lie as columns."""

    __slots__ = ()
    _table: NamespacedValueTable

    @property
    def table(self) -> NamespacedValueTable:
        """The accumulators."""
        return self._table

    def bind(self) -> None:
        """Does nothing: the table is asked each time."""

    def _accumulator(self) -> Any:
        return self._table.value(self._context.entry)

    def _store(self, accumulator: Any, own: Any) -> None:
        stays = accumulator is own and self._may_stay(accumulator)
        (self._table.put_own if stays else self._table.put_value)(self._context.entry, accumulator)

    def clear(self) -> None:
        self._table.put_own(self._context.entry, None)


class NamespacedReducingState(_OverColumns, HeapReducingState):
    """One reduced value per key and namespace, row by row."""

    __slots__ = ()


class NamespacedAggregatingState(_OverColumns, HeapAggregatingState):
    """One accumulator per key and namespace, row by row."""

    __slots__ = ()


class StampedFold(_OverColumns, FoldedValue):
    """The stamped accumulators of a state with a time to live."""

    __slots__ = ()

    def store(self, stamped: Any, own: Any) -> None:
        accumulator = stamped[0]
        if accumulator is None:
            self.clear()
        else:
            self._store(stamped, stamped if own is not None and accumulator is own[0] else None)

    def _may_stay(self, accumulator: Any) -> bool:
        return super()._may_stay(accumulator[0])


class StampedReducingState(StampedState, TtlReducingState):
    """One reduced value per key and namespace that may expire, row by row; the original is a `StampedFold`."""

    __slots__ = ()


class StampedAggregatingState(StampedState, TtlAggregatingState):
    """One accumulator per key and namespace that may expire, row by row; the original is a `StampedFold`."""

    __slots__ = ()


class NamespacedReducingColumns(NamespacedValueColumns, ReducingColumns):
    """Of reducing states: what was added before is reduced with what a batch adds by columns, too."""

    _adds_at_once = True

    def _add_reduced(self, distinct: Keys, reduced: Any, anew: Flags | None) -> None:
        held = self._counting(distinct, anew)
        there = np.flatnonzero(np.asarray(held.is_valid()))
        if len(there):
            reduced = self._with_held(distinct, held, there, reduced)
        self._write(distinct, reduced)

    def _add(self, distinct: Keys, values: list[list[Any]], anew: Flags | None) -> None:
        """As the row method, with one look at what all keys have: each by itself would be a search."""
        assert self._function is not None
        held, reduce = self.column.read(self._counting(distinct, anew)), self._function.reduce
        for n, of_key in enumerate(values):
            for value in of_key:
                held[n] = value if held[n] is None else reduce(held[n], value)
        self._write(distinct, self.column.fitted(held, len(distinct)))

    def _counting(self, distinct: Keys, anew: Flags | None) -> Any:
        held = self._held(distinct)
        return held if anew is None else without(held, anew)

    def _with_held(self, distinct: Keys, held: Any, there: Any, reduced: Any) -> Any:
        """Returns what each key has then; what some had stands before all that was added, since the order counts."""
        assert self._function is not None
        twice, at = distinct.take(np.concatenate([there, there])), indices(there)
        values = pa.concat_arrays([held.take(at), reduced.take(at)])
        both = self.column.fitted(self._function.reduce_columns(twice, values), len(there))
        if len(there) == len(distinct):
            return both
        rows = np.arange(len(distinct))
        rows[there] = np.arange(len(there)) + len(distinct)
        return pa.concat_arrays([reduced, both]).take(indices(rows))


class StampedReducingColumns(StampedColumns, NamespacedReducingColumns):
    """Of those with a time to live."""


class NamespacedAggregatingColumns(NamespacedColumns, ColumnAggregatingColumns):
    """Of aggregating states."""


class StampedAggregatingColumns(StampedColumns, ColumnAggregatingColumns):
    """Of those with a time to live."""


def fold_table(descriptor: Folds, numbers: KeyNumbers) -> NamespacedValueTable | None:
    """Returns an empty table of columns, None where the function folds none."""
    if isinstance(descriptor, ReducingStateDescriptor):
        by_columns = isinstance(descriptor.get_reduce_function(), ColumnReduceFunction)
    else:
        by_columns = isinstance(descriptor.get_agg_function(), ColumnAggregateFunction)
    if not by_columns:
        return None
    table = NamespacedValueTable if descriptor.ttl_config is None else StampedValueTable
    return table(descriptor.type_info, numbers)


def fold_rows(descriptor: Folds, table: NamespacedValueTable, context: KeyContext) -> Any:
    """Returns what a function calls per record, of a state without a time to live."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return NamespacedReducingState(table, context, reducer(descriptor))
    return NamespacedAggregatingState(table, context, descriptor.get_agg_function())


def stamped_fold_rows(
    descriptor: Folds,
    table: StampedValueTable,
    context: KeyContext,
    rules: TtlRules,
    accessed: Callable[..., None] | None,
) -> Any:
    """Returns what a function calls per record, of a state with a time to live.

    Args:
        descriptor: Of the state.
        table: Its own.
        context: The current key.
        rules: When accumulators expire.
        accessed: Is called before each access; None for nothing.
    """
    original = StampedFold(table, context)
    if isinstance(descriptor, ReducingStateDescriptor):
        return StampedReducingState(original, rules, accessed, reducer(descriptor))
    return StampedAggregatingState(original, rules, accessed, descriptor.get_agg_function())


def fold_columns(descriptor: Folds, table: HeapTable, shared: tuple[Any, ...]) -> StateColumns:
    """Returns what a function calls per batch.

    Args:
        descriptor: Of the state.
        table: Its own, by entry or by columns.
        shared: What all `StateColumns` take.
    """
    if isinstance(descriptor, ReducingStateDescriptor):
        given = descriptor.get_reduce_function()
        has_columns = not holds_codec(descriptor.type_info)
        reduces = given if isinstance(given, ColumnReduceFunction) and has_columns else None
        return _REDUCING.get(type(table), ReducingColumns)(*shared, function=reduces)
    function = descriptor.get_agg_function()
    if not isinstance(function, ColumnAggregateFunction) or holds_codec(descriptor.type_info):
        return AggregatingColumns(*shared)
    return _AGGREGATING.get(type(table), ColumnAggregatingColumns)(*shared, function=function)


_REDUCING: dict[type[HeapTable], type[ReducingColumns]] = {
    NamespacedValueTable: NamespacedReducingColumns,
    StampedValueTable: StampedReducingColumns,
}
_AGGREGATING: dict[type[HeapTable], type[ColumnAggregatingColumns]] = {
    NamespacedValueTable: NamespacedAggregatingColumns,
    StampedValueTable: StampedAggregatingColumns,
}


__all__ = ["Folds", "fold_columns", "fold_rows", "fold_table", "stamped_fold_rows"]
