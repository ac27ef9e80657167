"""Column methods of states: what a vectorised function asks of the keys of a whole batch.

They go through the row methods, once per distinct key, and so mean what these mean: time to live, change log, restore
and RocksDB included. What is measured to be worth it goes around them (`PlainValueColumns`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.keys import KeyContext
from state_engine.backends.states import DefaultedValueState, HeapValueState
from state_engine.backends.tables import MISSING
from state_engine.backends.time import OperatorTime
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.types import to_arrow


class Column:
    """Values of one type between columns that an author gives or gets, and Python.

    Attributes:
        name: Of the state.
        type: As Arrow has it.
    """

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        self.name = name
        self.type: Any = to_arrow(type_info)
        self._declared = type_info.ddl()
        self._read = reader(type_info)
        self.write = writer(type_info)

    def fitted(self, values: Any, count: int) -> Any:
        """Returns a column as an array of the type.

        Raises:
            TypeError: It is of another type, or a value does not fit.
            ValueError: It has another length.
        """
        array = self._array(values)
        if len(array) != count:
            raise ValueError(f"state {self.name!r} got {len(array)} values for {count} keys")
        if array.type == self.type:
            return array
        try:
            if _may_become(array.type, self.type):
                return _cast(array, self.type)
        except pa.ArrowInvalid as error:
            raise TypeError(f"state {self.name!r} is {self._declared}: {error}") from None
        raise TypeError(f"state {self.name!r} is {self._declared}, and got a column of {array.type}")

    def _array(self, values: Any) -> Any:
        array = as_array(values)
        if array is not None:
            return array
        try:
            return self.write(list(values))  # as strict as the row methods
        except ValueTypeError as error:
            raise TypeError(f"state {self.name!r}: {error}") from None

    def read(self, array: Any) -> list[Any]:
        """Returns the Python values of such an array."""
        return self._read(array)


def as_array(values: Any) -> Any:
    """Returns what is a column already as an array, None for Python values."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if hasattr(values, "__array__") and not isinstance(values, pa.Array):  # of NumPy or pandas: NaN is a number there
        values = np.asarray(values)
        return pa.array(values) if values.dtype != object else None
    return values if isinstance(values, pa.Array) else None


def _may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may be cast, if all its values fit: as the row methods take an int for a double."""
    kinds = pa.types
    if kinds.is_null(given):
        return True
    if kinds.is_dictionary(given):
        return _may_become(given.value_type, wanted) or given.value_type == wanted
    if kinds.is_integer(wanted):
        return kinds.is_integer(given)
    if kinds.is_floating(wanted):
        return kinds.is_integer(given) or kinds.is_floating(given)
    if kinds.is_timestamp(wanted):
        return kinds.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
    if kinds.is_string(wanted):
        return kinds.is_large_string(given) or kinds.is_string_view(given)
    return kinds.is_binary(wanted) and (kinds.is_large_binary(given) or kinds.is_binary_view(given))


def _cast(array: Any, wanted: pa.DataType) -> Any:
    """Casts a column; a double that is too large for a float is refused, not made infinite."""
    made = array.cast(wanted)
    if pa.types.is_floating(wanted) and pc.sum(pc.is_inf(made)).as_py() != pc.sum(pc.is_inf(array)).as_py():
        raise pa.ArrowInvalid("a number is out of range")
    return made


class StateColumns:
    """What all kinds of state have in common.

    Args:
        state: The state, whose row methods are called.
        column: Its values.
        context: Current key of the operator.
        time: Its clocks.
        prefetch: Is told the keys that are asked for next.
        in_event_time: Whether values expire by event time, which differs from record to record.
    """

    def __init__(
        self,
        state: Any,
        column: Column,
        context: KeyContext,
        time: OperatorTime,
        prefetch: Callable[[list[Any]], None],
        in_event_time: bool,
    ) -> None:
        self.state = state
        self.column = column
        self._context = context
        self._time = time
        self._prefetch = prefetch
        self._in_event_time = in_event_time

    def remove_many(self, keys: Keys) -> None:
        """Clears the state of each key."""
        clear = self.state.clear
        for _ in self._of_each(keys, keys.distinct.times):
            clear()

    def _of_each(self, keys: Keys, times: Any) -> Iterator[Any]:
        """Makes each distinct key current, at the time that a record of it has, and yields it."""
        return self._at(keys.entries, times)

    def _add_each(self, keys: Keys, values: list[Any]) -> None:
        """Adds record by record, each at its own time."""
        add, entries = self.state.add, keys.entries
        for value, _ in zip(values, self._at([entries[code] for code in keys.codes.tolist()], keys.times), strict=True):
            add(value)

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

    def _spread(self, values: Any, keys: Keys) -> Any:
        """Returns of each record what its key has."""
        distinct = keys.distinct
        return values if distinct is keys else values.take(indices(keys.codes))


class ValueColumns(StateColumns):
    """Of value states, and of whatever reads like one."""

    def get_many(self, keys: Keys) -> Any:
        """Returns of each record the value of its key, null where there is none."""
        return self._spread(self.column.write(self._values(keys)), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns of each record whether its key has a value."""
        there = [value is not None for value in self._stored(keys)]
        return self._spread(pa.array(there, pa.bool_()), keys)

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the value of each key to that of its last record; null removes it."""
        array = self.column.fitted(values, len(keys))
        distinct = keys.distinct
        if distinct is not keys:
            array = array.take(indices(keys.last))
        self._put(distinct, self.column.read(array))

    def _values(self, keys: Keys) -> list[Any]:
        return self._read_each(keys, self._read_one())

    def _stored(self, keys: Keys) -> list[Any]:
        """As `_values`, without the default of a state that has one."""
        default = isinstance(self.state, DefaultedValueState)
        return self._read_each(keys, self.state.stored.value) if default else self._values(keys)

    def _read_each(self, keys: Keys, read: Callable[[], Any]) -> list[Any]:
        self._prefetch(keys.entries)
        return [read() for _ in self._of_each(keys, keys.latest_times)]

    def _read_one(self) -> Callable[[], Any]:
        value: Callable[[], Any] = self.state.value
        return value

    def _put(self, distinct: Keys, values: list[Any]) -> None:
        update = self.state.update
        for value, _ in zip(values, self._of_each(distinct, distinct.times), strict=True):
            update(value)


class PlainValueColumns(ValueColumns):
    """Of value states that hold what cannot change, without a time to live: half the time of the row methods."""

    state: HeapValueState

    def _values(self, keys: Keys) -> list[Any]:
        entries = keys.entries
        self._prefetch(entries)
        base, overlay = self.state.dicts
        stored = base.get
        if not overlay:
            return list(map(stored, entries))
        written = overlay.get
        return [stored(e) if (value := written(e, MISSING)) is MISSING else value for e in entries]

    def _put(self, distinct: Keys, values: list[Any]) -> None:
        self.state.dicts[1].update(zip(distinct.entries, values, strict=True))

    def remove_many(self, keys: Keys) -> None:
        self.state.dicts[1].update(dict.fromkeys(keys.entries))


class ListColumns(StateColumns):
    """Of list states.

    Args:
        lists: Whole lists.
    """

    def __init__(self, *arguments: Any, lists: Column) -> None:
        super().__init__(*arguments)
        self._lists = lists

    def get_many(self, keys: Keys) -> Any:
        """Returns of each record the list of its key; an empty one where there is none."""
        return self._spread(self._lists.write(self._found(keys)), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns of each record whether the list of its key has elements."""
        return self._spread(pa.array([bool(found) for found in self._found(keys)], pa.bool_()), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Adds the value of each record to the list of its key, in the order of the records."""
        add_all, distinct = self.state.add_all, keys.distinct
        read = self.column.read(self.column.fitted(values, len(keys)))
        if self._in_event_time and keys.times is not None:
            self._add_each(keys, read)
            return
        for of_key, _ in zip(grouped(read, keys), self._of_each(distinct, distinct.times), strict=True):
            add_all(of_key)

    def put_many(self, keys: Keys, values: Any) -> None:
        """Replaces the list of each key by that of its last record; an empty or null one clears."""
        array = self._lists.fitted(values, len(keys)).take(indices(keys.last))
        update, distinct = self.state.update, keys.distinct
        for value, _ in zip(self._lists.read(array), self._of_each(distinct, distinct.times), strict=True):
            update(value or [])

    def _found(self, keys: Keys) -> list[list[Any]]:
        self._prefetch(keys.entries)
        get = self.state.get
        return [list(get()) for _ in self._of_each(keys, keys.latest_times)]


class MapColumns(StateColumns):
    """Of map states.

    Args:
        user_keys: Keys inside the maps.
    """

    def __init__(self, *arguments: Any, user_keys: Column) -> None:
        super().__init__(*arguments)
        self._user_keys = user_keys

    def get_many(self, keys: Keys, user_keys: Any) -> Any:
        """Returns of each record the value of its user key in the map of its key, null where there is none."""
        return self._asked(keys, user_keys, self.state.get, self.column.write)

    def contains_many(self, keys: Keys, user_keys: Any) -> Any:
        """Returns of each record whether the map of its key has its user key."""
        return self._asked(keys, user_keys, self.state.contains, partial(pa.array, type=pa.bool_()))

    def items_many(self, keys: Keys) -> Any:
        """Returns of each record all entries of the map of its key, as lists of structs of `key` and `value`."""
        self._prefetch(keys.entries)
        items = self.state.items
        found = [list(items()) for _ in self._of_each(keys, keys.latest_times)]
        user_keys = self._user_keys.write([user_key for of_key in found for user_key, _ in of_key])
        values = self.column.write([value for of_key in found for _, value in of_key])
        return self._listed(keys, np.array([len(of_key) for of_key in found], np.int64), user_keys, values)

    def _listed(self, keys: Keys, lengths: Numbers, user_keys: Any, values: Any) -> Any:
        """Returns of each record the entries of its key, given those of the distinct keys one behind the other."""
        entries = pa.StructArray.from_arrays([user_keys, values], names=["key", "value"])
        offsets: Any = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return self._spread(pa.ListArray.from_arrays(offsets, entries), keys)

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        """Sets one entry per record, in their order."""
        array = self.column.fitted(values, len(keys))
        pairs = self._pairs(keys, user_keys)
        found, put = self.column.read(array.take(indices(pairs.last))), self.state.put
        for user_key, value in zip(self._each_pair(keys, pairs.distinct, pairs.distinct.times), found, strict=True):
            put(user_key, value)

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        """Removes one entry per record; without user keys all entries of each key."""
        if user_keys is None:
            super().remove_many(keys)
            return
        pairs, remove = self._pairs(keys, user_keys), self.state.remove
        for user_key in self._each_pair(keys, pairs.distinct, pairs.distinct.times):
            remove(user_key)

    def _asked(self, keys: Keys, user_keys: Any, ask: Callable[[Any], Any], write: Callable[[list[Any]], Any]) -> Any:
        self._prefetch(keys.entries)
        pairs = self._pairs(keys, user_keys)
        return self._spread(
            write([ask(one) for one in self._each_pair(keys, pairs.distinct, pairs.latest_times)]), pairs
        )

    def _pairs(self, keys: Keys, user_keys: Any) -> Keys:
        """Returns number of the key, and user key, of each record, as if these were its key."""
        fitted = self._user_keys.fitted(user_keys, len(keys))
        return Keys([indices(keys.codes), fitted], lambda _: [], keys.times)

    def _each_pair(self, keys: Keys, distinct: Keys, times: Any) -> Iterator[Any]:
        """Makes the key of each distinct pair current, and yields the user key."""
        codes: Any = distinct.columns[0]
        entries = keys.entries
        of_pairs = self._at([entries[code] for code in codes.to_pylist()], times)
        for user_key, _ in zip(self._user_keys.read(distinct.columns[1]), of_pairs, strict=True):
            yield user_key


def grouped(values: list[Any], keys: Keys) -> list[list[Any]]:
    """Returns the values of each distinct key's records, in their order."""
    if keys.distinct is keys:
        return [[value] for value in values]
    found: list[list[Any]] = [[] for _ in keys.entries]
    for code, value in zip(keys.codes.tolist(), values, strict=True):
        found[code].append(value)
    return found


__all__ = [
    "Column",
    "ListColumns",
    "MapColumns",
    "PlainValueColumns",
    "StateColumns",
    "ValueColumns",
    "as_array",
    "grouped",
]
