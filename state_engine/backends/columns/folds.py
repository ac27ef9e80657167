"""Column methods of states that fold added values: reducing and aggregating states."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.functions import ColumnAggregateFunction, ColumnReduceFunction
from state_engine.api.keys import Keys, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.ascending import Flags
from state_engine.backends.columns.column import Column, as_array
from state_engine.backends.columns.states import StateColumns
from state_engine.backends.keys import KeyContext
from state_engine.backends.stamps import at_most, stamps_of, without
from state_engine.backends.time import OperatorTime
from state_engine.backends.ttl_rules import TtlRules
from state_engine.errors import UnsupportedTypeError
from state_engine.serialization.convert import reader
from state_engine.serialization.types import from_arrow

FunctionT = TypeVar("FunctionT", ColumnReduceFunction, ColumnAggregateFunction)


class RowByRow:
    """Calls the row methods of a state for records, with the key and time of each record as the current ones.

    Args:
        state: The row methods of the state.
        table: Its table.
        context: Current key of the operator.
        time: The operator's clocks.
        in_event_time: Whether values expire by event time, which differs from record to record.
    """

    def __init__(self, state: Any, table: Any, context: KeyContext, time: OperatorTime, in_event_time: bool) -> None:
        self.state = state
        self._table = table
        self._context = context
        self._time = time
        self._in_event_time = in_event_time

    def add(self, keys: Keys, values: list[Any]) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        self._table.base.prefetch(keys.entries)
        add, entries = self.state.add, keys.entries
        if self._in_event_time and keys.times is not None:
            of_records = self._at([entries[code] for code in keys.codes.tolist()], keys.times)
            for value, _ in zip(values, of_records, strict=True):
                add(value)
            return
        of_keys: list[list[Any]] = [[] for _ in entries]
        for code, value in zip(keys.codes.tolist(), values, strict=True):
            of_keys[code].append(value)
        for of_key, _ in zip(of_keys, self._at(entries, keys.distinct.times), strict=True):
            for value in of_key:
                add(value)

    def of_each(self, keys: Keys, ask: Callable[[], Any]) -> list[Any]:
        """Returns what a method returns for each distinct key, at the latest time of its records."""
        self._table.base.prefetch(keys.entries)
        return [ask() for _ in self._at(keys.entries, keys.latest_times)]

    def _at(self, entries: list[Any], times: Any) -> Iterator[Any]:
        context, time = self._context, self._time
        before = context.entry, time.timestamp
        stamps = iter(times.to_pylist()) if times is not None else None
        try:
            for entry in entries:
                if stamps is not None:
                    time.timestamp = next(stamps)
                context.entry = entry
                yield entry
        finally:
            time.timestamp = before[1]
            context.entry = before[0]


class FoldingColumns(StateColumns, Generic[FunctionT]):
    """The common base of reducing and aggregating states.

    Args:
        table: See `StateColumns`.
        column: Of accumulators.
        rows: Calls the row methods, where no function works on columns.
        rules: When accumulators expire; None without a time to live.
        function: The function that works on columns; None if values are added one by one.
    """

    def __init__(
        self, table: Any, column: Column, rows: RowByRow, rules: TtlRules | None, function: FunctionT | None
    ) -> None:
        super().__init__(table, column)
        self._rows = rows
        self._rules = rules
        self._function: FunctionT | None = function

    def remove_many(self, keys: Keys) -> None:
        """Clears the state of each key."""
        self.table.put_many(keys.distinct, pa.nulls(len(keys.distinct), self.column.type))

    def _since_expired(self, keys: Keys) -> tuple[Keys, Any, Flags | None]:
        """Returns the records that count: those after the last record of their key that made the value expire.

        By event time, a late record touches a value at the time of the record, by which the value may have expired.
        Then the value that is added next is the first. The last record of a key always counts. All records count if
        expired values may be read.

        Returns:
            The keys of the records, their positions, and for which distinct keys the earlier value does not count;
            None for the latter two if all records count.
        """
        rules = self._rules
        if rules is None or rules.stamps_grow or rules.returns_expired or keys.times is None:
            return keys, None, None
        late = at_most(stamps_of(rules, keys.times), rules.expiry())
        late[keys.last] = False
        if not late.any():
            return keys, None, None
        latest = np.full(len(keys.distinct), -1)
        np.maximum.at(latest, keys.codes[late], np.flatnonzero(late))
        positions = np.flatnonzero(np.arange(len(keys)) > latest[keys.codes])
        counted = keys.take(positions)
        return counted, indices(positions), latest[keys.codes[positions[counted.first]]] >= 0


class ReducingColumns(FoldingColumns[ColumnReduceFunction]):
    """Column methods of reducing states."""

    def get_many(self, keys: Keys) -> Any:
        """Returns, for each record, the reduced value of its key, null if nothing was added."""
        return self._spread(self.table.get_many(keys), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns, for each record, whether something was added to its key."""
        return pc.is_valid(self.get_many(keys))

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        array = self.column.fitted(values, len(keys))
        if not len(keys):
            return
        if self._function is None or array.null_count:
            self._rows.add(keys, self.column.read(array))
            return
        counted, positions, restarts = self._since_expired(keys)
        added = array if positions is None else array.take(positions)
        reduced = self.column.fitted(self._function.reduce_columns(counted, added), len(counted.distinct))
        if reduced.null_count:  # after a reduction to null, the next value is the first
            self._rows.add(keys, self.column.read(array))
            return
        distinct = counted.distinct
        held = self.table.held(distinct)
        if restarts is not None:
            held = without(held, restarts)
        self.table.put_many(distinct, self._with_held(distinct, held, reduced))

    def _with_held(self, distinct: Keys, held: Any, reduced: Any) -> Any:
        """Returns the new value of each key. The old value comes before all added ones, since the order counts."""
        assert self._function is not None
        has_value = np.flatnonzero(np.asarray(held.is_valid()))
        if not len(has_value):
            return reduced
        twice, positions = distinct.take(np.concatenate([has_value, has_value])), indices(has_value)
        values = pa.concat_arrays([held.take(positions), reduced.take(positions)])
        both = self.column.fitted(self._function.reduce_columns(twice, values), len(has_value))
        if len(has_value) == len(distinct):
            return both
        rows = np.arange(len(distinct))
        rows[has_value] = np.arange(len(has_value)) + len(distinct)
        return pa.concat_arrays([reduced, both]).take(indices(rows))


class AggregatingColumns(FoldingColumns[ColumnAggregateFunction]):
    """Column methods of aggregating states. Their descriptor declares neither the added values nor the result."""

    def get_many(self, keys: Keys, result_type: TypeInformation) -> Any:
        """Returns, for each record, the result of its key, null if nothing was added."""
        column = Column(self.column.name, result_type)
        if self._function is None:
            results = self._rows.of_each(keys, self._rows.state.get)
            return self._spread(column.fitted(results, len(keys.distinct)), keys)
        accumulators = self.table.get_many(keys)
        has_value = np.asarray(accumulators.is_valid())
        count = int(np.count_nonzero(has_value))
        results = column.fitted(self._results(accumulators, has_value) if count else [], count)
        if count < len(has_value):
            results = results.take(pa.array(np.cumsum(has_value) - 1, mask=~has_value))
        return self._spread(results, keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns, for each record, whether its key has a result."""
        if self._function is None:
            results = self._rows.of_each(keys, self._rows.state.get)
            return self._spread(pa.array([result is not None for result in results], pa.bool_()), keys)
        accumulators = self.table.get_many(keys)
        has_result = np.array(accumulators.is_valid())
        count = int(np.count_nonzero(has_result))
        if count:
            results = self._results(accumulators, has_result)
            array = as_array(results)
            is_result = [one is not None for one in results] if array is None else np.asarray(array.is_valid())
            self._check(is_result, count)
            has_result[has_result] = is_result
        return self._spread(pa.array(has_result), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        array = as_array(values)
        if array is None:
            values = list(values)
            array = None if self._function is None else _inferred(values)
        if array is None or self._function is None:
            read = values if array is None else self._python(array)
            self._check(read, len(keys))
            self._rows.add(keys, read)
            return
        self._check(array, len(keys))
        if not len(keys):
            return
        counted, positions, restarts = self._since_expired(keys)
        held = self.table.held(counted)
        if restarts is not None:
            held = without(held, restarts)
        added = self._function.add_columns(counted, array if positions is None else array.take(positions), held)
        self.table.put_many(counted.distinct, self.column.fitted(added, len(counted.distinct)))

    def _results(self, accumulators: Any, there: Any) -> Any:
        assert self._function is not None
        return self._function.get_result_columns(accumulators if there.all() else accumulators.filter(pa.array(there)))

    def _check(self, values: Any, count: int) -> None:
        if len(values) != count:
            raise ValueError(f"state {self.column.name!r} got {len(values)} values for {count} keys")

    def _python(self, array: Any) -> list[Any]:
        """Returns the values of a column in the form that the row methods take."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_null(array.type):
            return [None] * len(array)
        try:
            return reader(from_arrow(array.type))(array)
        except UnsupportedTypeError:
            raise TypeError(f"state {self.column.name!r} got a column of {array.type}: cast it") from None


def _inferred(values: list[Any]) -> Any:
    """Returns Python values as a column; None if Arrow cannot make one of them."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


__all__ = ["AggregatingColumns", "ReducingColumns", "RowByRow"]
