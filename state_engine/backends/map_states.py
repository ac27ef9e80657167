"""What a function holds of a table of maps that lie as columns: row methods, and column methods."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.state import MapState
from state_engine.backends.columns import MapColumns
from state_engine.backends.keys import KeyContext
from state_engine.backends.namespaced_keys import parts_of
from state_engine.backends.namespaced_maps import Asked, NamespacedMapTable
from state_engine.backends.tables import DELETED
from state_engine.iterating import whole

_KNOWN = "_known_entries"
"""Where keys remember what they asked for, for the next call with the same user keys."""


class NamespacedMapState(MapState[Any, Any]):
    """A map per key and namespace, row by row.

    Args:
        table: The maps.
        context: The current key.
    """

    def __init__(self, table: NamespacedMapTable, context: KeyContext) -> None:
        self.table = table
        self._context = context

    def bind(self) -> None:
        """Does nothing: the table is asked each time."""

    def get(self, key: Any) -> Any:
        return dict(self.items()).get(self._user_key(key))

    def put(self, key: Any, value: Any) -> None:
        delta = self.table.delta(self._context.entry)
        delta.entries[self._user_key(key)] = self.table.conform(value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in whole(dict_value.items()):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self.table.delta(self._context.entry).entries[self._user_key(key)] = DELETED

    def contains(self, key: Any) -> bool:
        return self._user_key(key) in dict(self.items())

    def items(self) -> Iterable[tuple[Any, Any]]:
        found, copy = self.table.content(self._context.entry), self.table.copy
        return [(key, value if copy is None else copy(value)) for key, value in found.items()]

    def keys(self) -> Iterable[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.items()

    def clear(self) -> None:
        delta = self.table.delta(self._context.entry)
        delta.cleared, delta.entries = True, {}

    def _user_key(self, key: Any) -> Any:
        return self.table.conform_key(key)


class NamespacedMapColumns(MapColumns):
    """Of such states."""

    state: NamespacedMapState

    def get_many(self, keys: Keys, user_keys: Any) -> Any:
        return self.state.table.get(self._entries(keys, user_keys))

    def contains_many(self, keys: Keys, user_keys: Any) -> Any:
        return pa.array(self.state.table.has(self._entries(keys, user_keys)))

    def items_many(self, keys: Keys) -> Any:
        of_keys, user_keys, values = self._items(keys)
        return self._listed(keys, np.bincount(of_keys, minlength=len(keys.distinct)), user_keys, values)

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        array = self._kept(self.column.fitted(values, len(keys)), keys.times)
        self._put(self._entries(keys, user_keys), array)

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        table = self.state.table
        if user_keys is None:
            table.clear(parts_of(keys, table.numbers))
        else:
            self._put(self._entries(keys, user_keys), None)

    def _items(self, keys: Keys) -> tuple[Numbers, Any, Any]:
        """Returns all entries, as `NamespacedMapTable.items`."""
        table = self.state.table
        return table.items(parts_of(keys, table.numbers))

    def _put(self, asked: list[Asked], values: Any) -> None:
        self.state.table.put(asked, values)

    def _kept(self, values: Any, times: Any) -> Any:
        """Returns values as the table keeps them, given the event times of the records, None if there are none."""
        return values

    def _entries(self, keys: Keys, user_keys: Any) -> list[Asked]:
        table = self.state.table
        by = table, table.numbers.generation, table.entries.user_keys.generation
        if not isinstance(user_keys, pa.Array) or isinstance(user_keys, pa.DictionaryArray):  # may be filled anew
            return table.asked(keys, self._user_keys.fitted(user_keys, len(keys)))
        slots: dict[int, tuple[Any, Any, list[Asked]]] = keys.__dict__.setdefault(_KNOWN, {})
        known = slots.get(id(table))
        if known is None or known[0] != by or not known[1].equals(user_keys):
            asked = table.asked(keys, self._user_keys.fitted(user_keys, len(keys)))
            # A copy: whose buffer it is may fill it anew, and wrap it again.
            known = slots[id(table)] = by, user_keys.take(indices(np.arange(len(user_keys)))), asked
        return known[2]


__all__ = ["NamespacedMapColumns", "NamespacedMapState"]
