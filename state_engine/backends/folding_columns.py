"""Column methods of states that fold what is added: reducing and aggregating ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.functions import ColumnAggregateFunction, ColumnReduceFunction
from state_engine.api.keys import Keys, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.columns import Column, StateColumns, ValueColumns, as_array, grouped
from state_engine.backends.list_runs import Flags
from state_engine.backends.stamped_tables import at_most, stamps_of, without
from state_engine.errors import UnsupportedTypeError
from state_engine.serialization.convert import reader
from state_engine.serialization.types import from_arrow


class FoldingColumns(StateColumns):
    """What they have in common."""

    def _since_expired(self, keys: Keys) -> tuple[Keys, Any, Flags | None]:
        """Returns the records that count: those behind the last one of their key that made what there was expire.

        By event time a late record touches a value at its own time, at which it may have expired: what is added next
        is the first. The last record of a key always counts, and so does each where expired values may be read.

        Returns:
            The keys of the records, their positions, and of which distinct keys nothing counts that was there before;
            None for the latter two if all counts.
        """
        if not self._in_event_time or keys.times is None or self.state.rules.returns_expired:
            return keys, None, None
        late = at_most(stamps_of(self.state.rules, keys.times), self.state.rules.expiry())
        late[keys.last] = False
        if not late.any():
            return keys, None, None
        latest = np.full(len(keys.distinct), -1)
        np.maximum.at(latest, keys.codes[late], np.flatnonzero(late))
        at = np.flatnonzero(np.arange(len(keys)) > latest[keys.codes])
        counted = keys.take(at)
        return counted, indices(at), latest[keys.codes[at[counted.first]]] >= 0


class ReducingColumns(FoldingColumns, ValueColumns):
    """Of reducing states.

    Args:
        function: That reduces columns; None where values are added one by one.
    """

    _adds_at_once = False
    """Whether what is added value by value to a key is written once, and not with each value."""

    def __init__(self, *arguments: Any, function: ColumnReduceFunction | None) -> None:
        super().__init__(*arguments)
        self._function = function

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        array = self.column.fitted(values, len(keys))
        if not len(keys):
            return
        by_record = self._in_event_time and keys.times is not None and not self._adds_at_once
        if by_record and (self._function is None or array.null_count):
            self._prefetch(keys.entries)
            self._add_each(keys, self.column.read(array))
            return
        counted, at, anew = self._since_expired(keys)
        given = array if at is None else array.take(at)
        reduced = None
        if self._function is not None and not array.null_count:
            reduced = self.column.fitted(self._function.reduce_columns(counted, given), len(counted.distinct))
        if reduced is not None and not reduced.null_count:
            self._add_reduced(counted.distinct, reduced, anew)
        elif by_record:  # what reduces to nothing lets the next value be the first one
            self._add_each(keys, self.column.read(array))
        else:
            self._add(counted.distinct, grouped(self.column.read(given), counted), anew)

    def _add_reduced(self, distinct: Keys, reduced: Any, anew: Flags | None) -> None:
        """Adds one value to the state of each key; of some nothing counts that is there."""
        self._add(distinct, [[value] for value in self.column.read(reduced)], anew)

    def _add(self, distinct: Keys, values: list[list[Any]], anew: Flags | None) -> None:
        self._prefetch(distinct.entries)
        add, clears = self.state.add, [False] * len(values) if anew is None else anew.tolist()
        for of_key, clear, _ in zip(values, clears, self._of_each(distinct, distinct.times), strict=True):
            if clear:
                self.state.clear()
            for value in of_key:
                add(value)

    def _read_one(self) -> Callable[[], Any]:
        get: Callable[[], Any] = self.state.get
        return get


class AggregatingColumns(FoldingColumns):
    """Of aggregating states, whose descriptor declares neither what is added nor what comes of it."""

    def get_many(self, keys: Keys, result_type: TypeInformation) -> Any:
        """Returns of each record the result of its key, null where nothing was added."""
        column = Column(self.column.name, result_type)
        return self._spread(column.fitted(self._results(keys), len(keys.entries)), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns of each record whether its key has a result."""
        there = [result is not None for result in self._results(keys)]
        return self._spread(pa.array(there, pa.bool_()), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        array = as_array(values)
        read = list(values) if array is None else self._python(array)
        self._check(read, len(keys))
        self._prefetch(keys.entries)
        if self._in_event_time and keys.times is not None:
            self._add_each(keys, read)
            return
        add, distinct = self.state.add, keys.distinct
        for of_key, _ in zip(grouped(read, keys), self._of_each(distinct, distinct.times), strict=True):
            for value in of_key:
                add(value)

    def _check(self, values: Any, count: int) -> None:
        if len(values) != count:
            raise ValueError(f"state {self.column.name!r} got {len(values)} values for {count} keys")

    def _python(self, array: Any) -> list[Any]:
        """Returns a column's values as the row methods take them."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_null(array.type):
            return [None] * len(array)
        try:
            return reader(from_arrow(array.type))(array)
        except UnsupportedTypeError:
            raise TypeError(f"state {self.column.name!r} got a column of {array.type}: cast it") from None

    def _results(self, keys: Keys) -> list[Any]:
        self._prefetch(keys.entries)
        get = self.state.get
        return [get() for _ in self._of_each(keys, keys.latest_times)]


class ColumnAggregatingColumns(AggregatingColumns):
    """Of those whose function works on columns; here the accumulators come from the row methods, and go there.

    Args:
        function: The function.
    """

    def __init__(self, *arguments: Any, function: ColumnAggregateFunction) -> None:
        super().__init__(*arguments)
        self._function = function

    def get_many(self, keys: Keys, result_type: TypeInformation) -> Any:
        column, accumulators = Column(self.column.name, result_type), self._read(keys)
        there = np.asarray(accumulators.is_valid())
        count = int(np.count_nonzero(there))
        results = column.fitted(self._results_of(accumulators, there) if count else [], count)
        if count < len(there):
            results = results.take(pa.array(np.cumsum(there) - 1, mask=~there))
        return self._spread(results, keys)

    def contains_many(self, keys: Keys) -> Any:
        accumulators = self._read(keys)
        there = np.array(accumulators.is_valid())
        count = int(np.count_nonzero(there))
        if count:
            results = self._results_of(accumulators, there)
            array = as_array(results)
            known = [one is not None for one in results] if array is None else np.asarray(array.is_valid())
            self._check(known, count)
            there[there] = known
        return self._spread(pa.array(there), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        array = as_array(values)
        if array is None:
            values = list(values)
            array = _inferred(values)
        if array is None:
            super().add_many(keys, values)
            return
        self._check(array, len(keys))
        if not len(keys):
            return
        counted, at, anew = self._since_expired(keys)
        given = array if at is None else array.take(at)
        held = self._held(counted)
        if anew is not None:
            held = without(held, anew)
        added = self._function.add_columns(counted, given, held)
        self._write(counted.distinct, self.column.fitted(added, len(counted.distinct)))

    def _results_of(self, accumulators: Any, there: Any) -> Any:
        given = accumulators if there.all() else accumulators.filter(pa.array(there))
        return self._function.get_result_columns(given)

    def _read(self, keys: Keys) -> Any:
        """Returns the accumulator of each distinct key, null where there is none, as a read gives it."""
        return self._asked(self.state.read, keys, keys.latest_times)

    def _held(self, keys: Keys) -> Any:
        """Returns the accumulator of each distinct key that something is added to, null where there is none."""
        return self._asked(self.state.held, keys, keys.distinct.times)

    def _asked(self, ask: Callable[[], Any], keys: Keys, times: Any) -> Any:
        self._prefetch(keys.entries)
        return self.column.fitted([ask() for _ in self._of_each(keys, times)], len(keys.distinct))

    def _write(self, distinct: Keys, values: Any) -> None:
        """Sets the accumulators of keys, each there once; null clears."""
        put = self.state.put
        for value, _ in zip(self.column.read(values), self._of_each(distinct, distinct.times), strict=True):
            put(value)


def _inferred(values: list[Any]) -> Any:
    """Returns Python values as a column, None where Arrow can make none of them."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


__all__ = ["AggregatingColumns", "ColumnAggregatingColumns", "ReducingColumns"]
