"""Column methods of states that fold what is added: reducing and aggregating ones."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from state_engine.api.functions import ColumnReduceFunction
from state_engine.api.keys import Keys
from state_engine.api.types import TypeInformation
from state_engine.backends.columns import Column, StateColumns, ValueColumns, as_array, grouped
from state_engine.errors import UnsupportedTypeError
from state_engine.serialization.convert import reader
from state_engine.serialization.types import from_arrow


class ReducingColumns(ValueColumns):
    """Of reducing states.

    Args:
        function: That reduces columns; None where values are added one by one.
    """

    def __init__(self, *arguments: Any, function: ColumnReduceFunction | None) -> None:
        super().__init__(*arguments)
        self._function = function

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the state of its key, in the order of the records."""
        array = self.column.fitted(values, len(keys))
        self._prefetch(keys.entries)
        if self._in_event_time and keys.times is not None:
            self._add_each(keys, self.column.read(array))
        elif self._function is not None and not array.null_count:
            reduced = self.column.fitted(self._function.reduce_columns(keys, array), len(keys.entries))
            self._add(keys.distinct, [[value] for value in self.column.read(reduced)])
        else:
            self._add(keys.distinct, grouped(self.column.read(array), keys))

    def _add(self, distinct: Keys, values: list[list[Any]]) -> None:
        add = self.state.add
        for of_key, _ in zip(values, self._of_each(distinct, distinct.times), strict=True):
            for value in of_key:
                add(value)

    def _read_one(self) -> Callable[[], Any]:
        get: Callable[[], Any] = self.state.get
        return get


class AggregatingColumns(StateColumns):
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
        if len(read) != len(keys):
            raise ValueError(f"state {self.column.name!r} got {len(read)} values for {len(keys)} keys")
        self._prefetch(keys.entries)
        if self._in_event_time and keys.times is not None:
            self._add_each(keys, read)
            return
        add, distinct = self.state.add, keys.distinct
        for of_key, _ in zip(grouped(read, keys), self._of_each(distinct, distinct.times), strict=True):
            for value in of_key:
                add(value)

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


__all__ = ["AggregatingColumns", "ReducingColumns"]
