"""The expected behaviour of the column methods of states: the row methods, called for one key after the other."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from state_engine.api.keys import Keys, indices
from state_engine.api.types import ListType
from state_engine.backends.columns.column import Column
from state_engine.backends.keys import KeyContext
from state_engine.backends.rows.states import DefaultedValueState
from state_engine.backends.time import OperatorTime


class _ByRows:
    """The common part of all kinds of state."""

    def __init__(self, descriptor: StateDescriptor, state: Any, context: KeyContext, time: OperatorTime) -> None:
        self.state = state
        self.column = Column(descriptor.name, descriptor.type_info)
        self._context, self._time = context, time
        self._in_event_time = descriptor.expires_in_event_time

    def remove_many(self, keys: Keys) -> None:
        for _ in self._at(keys.entries, keys.distinct.times):
            self.state.clear()

    def _at(self, entries: list[Any], times: Any) -> Iterator[None]:
        """Makes one entry after the other current, at its time."""
        before = self._context.entry, self._time.timestamp
        stamps = iter(times.to_pylist()) if times is not None else None
        try:
            for entry in entries:
                if stamps is not None:
                    self._time.timestamp = next(stamps)
                self._context.entry = entry
                yield
        finally:
            self._context.entry, self._time.timestamp = before

    def _ask(self, keys: Keys, ask: Callable[[], Any]) -> list[Any]:
        return [ask() for _ in self._at(keys.entries, keys.latest_times)]

    def _add(self, keys: Keys, values: list[Any]) -> None:
        """Adds each record's value: at its own time if that counts, else at the time of its key's last record."""
        of_keys: list[list[Any]] = [[] for _ in keys.entries]
        if self._in_event_time and keys.times is not None:
            entries = [keys.entries[code] for code in keys.codes.tolist()]
            for value, _ in zip(values, self._at(entries, keys.times), strict=True):
                self.state.add(value)
            return
        for code, value in zip(keys.codes.tolist(), values, strict=True):
            of_keys[code].append(value)
        for of_key, _ in zip(of_keys, self._at(keys.entries, keys.distinct.times), strict=True):
            for value in of_key:
                self.state.add(value)

    def _spread(self, values: Any, keys: Keys) -> Any:
        return values.take(indices(keys.codes))


class _Values(_ByRows):
    def get_many(self, keys: Keys) -> Any:
        return self._spread(self.column.write(self._ask(keys, self.state.value)), keys)

    def contains_many(self, keys: Keys) -> Any:
        stored = self.state.stored if isinstance(self.state, DefaultedValueState) else self.state
        present = [value is not None for value in self._ask(keys, stored.value)]
        return self._spread(pa.array(present, pa.bool_()), keys)

    def put_many(self, keys: Keys, values: Any) -> None:
        read = self.column.read(self.column.fitted(values, len(keys)).take(indices(keys.last)))
        for value, _ in zip(read, self._at(keys.entries, keys.distinct.times), strict=True):
            self.state.update(value)


class _Lists(_ByRows):
    def __init__(self, descriptor: StateDescriptor, *arguments: Any) -> None:
        super().__init__(descriptor, *arguments)
        self._lists = Column(descriptor.name, ListType(descriptor.type_info))

    def get_many(self, keys: Keys) -> Any:
        return self._spread(self._lists.write(self._found(keys)), keys)

    def contains_many(self, keys: Keys) -> Any:
        return self._spread(pa.array([bool(elements) for elements in self._found(keys)], pa.bool_()), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        self._add(keys, self.column.read(self.column.fitted(values, len(keys))))

    def put_many(self, keys: Keys, values: Any) -> None:
        read = self._lists.read(self._lists.fitted(values, len(keys)).take(indices(keys.last)))
        for value, _ in zip(read, self._at(keys.entries, keys.distinct.times), strict=True):
            self.state.update(value or [])

    def _found(self, keys: Keys) -> list[list[Any]]:
        return self._ask(keys, lambda: list(self.state.get()))


class _Maps(_ByRows):
    def __init__(self, descriptor: MapStateDescriptor, *arguments: Any) -> None:
        super().__init__(descriptor, *arguments)
        self._user_keys = Column(descriptor.name, descriptor.key_type_info)

    def get_many(self, keys: Keys, user_keys: Any) -> Any:
        pairs, values = self._of_pairs(keys, user_keys, self.state.get)
        return self._spread(self.column.write(values), pairs)

    def contains_many(self, keys: Keys, user_keys: Any) -> Any:
        pairs, present = self._of_pairs(keys, user_keys, self.state.contains)
        return self._spread(pa.array(present, pa.bool_()), pairs)

    def items_many(self, keys: Keys) -> Any:
        items = self._ask(keys, lambda: list(self.state.items()))
        user_keys = self._user_keys.write([user_key for of_key in items for user_key, _ in of_key])
        values = self.column.write([value for of_key in items for _, value in of_key])
        offsets: Any = pa.array(np.cumsum([0, *map(len, items)]), pa.int32())
        entries = pa.StructArray.from_arrays([user_keys, values], names=["key", "value"])
        return self._spread(pa.ListArray.from_arrays(offsets, entries), keys)

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        array = self.column.fitted(values, len(keys))
        pairs = self._pairs(keys, user_keys)
        read = iter(self.column.read(array.take(indices(pairs.last))))
        self._each(keys, pairs.distinct, pairs.distinct.times, lambda user_key: self.state.put(user_key, next(read)))

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        if user_keys is None:
            super().remove_many(keys)
            return
        pairs = self._pairs(keys, user_keys)
        self._each(keys, pairs.distinct, pairs.distinct.times, self.state.remove)

    def _of_pairs(self, keys: Keys, user_keys: Any, ask: Callable[[Any], Any]) -> tuple[Keys, list[Any]]:
        pairs = self._pairs(keys, user_keys)
        return pairs, self._each(keys, pairs.distinct, pairs.latest_times, ask)

    def _pairs(self, keys: Keys, user_keys: Any) -> Keys:
        fitted = self._user_keys.fitted(user_keys, len(keys))
        return Keys([indices(keys.codes), fitted], lambda _: [], keys.times)

    def _each(self, keys: Keys, distinct: Keys, times: Any, call: Callable[[Any], Any]) -> list[Any]:
        codes: Any = distinct.columns[0]
        entries = [keys.entries[code] for code in codes.to_pylist()]
        read = self._user_keys.read(distinct.columns[1])
        return [call(user_key) for user_key, _ in zip(read, self._at(entries, times), strict=True)]


class _Reduced(_ByRows):
    def get_many(self, keys: Keys) -> Any:
        return self._spread(self.column.write(self._ask(keys, self.state.get)), keys)

    def contains_many(self, keys: Keys) -> Any:
        return self._spread(pa.array([one is not None for one in self._ask(keys, self.state.get)], pa.bool_()), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        self._add(keys, self.column.read(self.column.fitted(values, len(keys))))


class _Aggregated(_ByRows):
    def get_many(self, keys: Keys, result_type: Any) -> Any:
        column = Column(self.column.name, result_type)
        return self._spread(column.fitted(self._ask(keys, self.state.get), len(keys.entries)), keys)

    def contains_many(self, keys: Keys) -> Any:
        return self._spread(pa.array([one is not None for one in self._ask(keys, self.state.get)], pa.bool_()), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        self._add(keys, values.to_pylist() if isinstance(values, pa.Array) else list(values))


def by_rows(descriptor: StateDescriptor, state: Any, context: KeyContext, time: OperatorTime) -> Any:
    """Returns column methods of a state that call its row methods."""
    match descriptor:
        case ListStateDescriptor():
            return _Lists(descriptor, state, context, time)
        case MapStateDescriptor():
            return _Maps(descriptor, state, context, time)
        case ReducingStateDescriptor():
            return _Reduced(descriptor, state, context, time)
        case AggregatingStateDescriptor():
            return _Aggregated(descriptor, state, context, time)
    return _Values(descriptor, state, context, time)


__all__ = ["by_rows"]
