"""The column methods of states, which a vectorised function calls with the keys of a whole batch.

They mean the same as the row methods, called once per record in turn. Each calls its table, or a time to live around
the table (`ttl.py`), once per batch.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, indices
from state_engine.backends.columns.column import Column, filled
from state_engine.backends.stores.list_runs import Elements


class StateColumns:
    """The common base of the column methods of all types of state.

    Args:
        table: The state's table, or a time to live around it.
        column: Its values.
    """

    def __init__(self, table: Any, column: Column) -> None:
        self.table = table
        self.column = column

    def _spread(self, values: Any, keys: Keys) -> Any:
        """Returns, for each record, the value of its key."""
        return values if keys.distinct is keys else values.take(indices(keys.codes))


class ValueColumns(StateColumns):
    """Column methods of value states.

    Args:
        table: See `StateColumns`.
        column: See `StateColumns`.
        default: What is read if there is no value, as an array; None for null.
    """

    def __init__(self, table: Any, column: Column, default: Any = None) -> None:
        super().__init__(table, column)
        self._default = default

    def get_many(self, keys: Keys) -> Any:
        """Returns, for each record, the value of its key, null if there is none."""
        values = self.table.get_many(keys)
        return self._spread(values if self._default is None else filled(values, self._default), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns, for each record, whether its key has a value."""
        return self._spread(pc.is_valid(self.table.get_many(keys)), keys)

    def put_many(self, keys: Keys, values: Any) -> None:
        """Sets the value of each key to that of its last record; null removes it."""
        array = self.column.fitted(values, len(keys))
        self.table.put_many(keys.distinct, array if keys.distinct is keys else array.take(indices(keys.last)))

    def remove_many(self, keys: Keys) -> None:
        """Clears the state of each key."""
        self.table.put_many(keys.distinct, pa.nulls(len(keys.distinct), self.column.type))


class ListColumns(StateColumns):
    """Column methods of list states.

    Args:
        table: See `StateColumns`.
        column: Of elements.
        lists: Of whole lists.
    """

    def __init__(self, table: Any, column: Column, lists: Column) -> None:
        super().__init__(table, column)
        self._lists = lists

    def get_many(self, keys: Keys) -> Any:
        """Returns, for each record, the list of its key; an empty one if there is none."""
        lists = lists_of(self.table.elements(keys), len(keys.distinct))
        return self._spread(lists.cast(self._lists.type), keys)

    def contains_many(self, keys: Keys) -> Any:
        """Returns, for each record, whether the list of its key has elements."""
        return self._spread(pa.array(self.table.has(keys)), keys)

    def add_many(self, keys: Keys, values: Any) -> None:
        """Appends the value of each record to the list of its key, in the order of the records."""
        array = self.column.fitted(values, len(keys))
        self.table.append(keys, keys.codes, array, keys.times)

    def put_many(self, keys: Keys, values: Any) -> None:
        """Replaces the list of each key by that of its last record; an empty or null one clears it."""
        lists = self._lists.fitted(values, len(keys))
        if keys.distinct is not keys:
            lists = lists.take(indices(keys.last))
        counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        codes, times = np.repeat(np.arange(len(lists)), counts), keys.distinct.times
        self.table.clear(keys)
        self.table.append(keys, codes, lists.flatten(), None if times is None else times.take(indices(codes)))

    def remove_many(self, keys: Keys) -> None:
        """Clears the list of each key."""
        self.table.clear(keys)


class MapColumns(StateColumns):
    """Column methods of map states.

    Args:
        table: See `StateColumns`.
        column: Of values.
        user_keys: Of user keys.
    """

    def __init__(self, table: Any, column: Column, user_keys: Column) -> None:
        super().__init__(table, column)
        self._user_keys = user_keys

    def get_many(self, keys: Keys, user_keys: Any) -> Any:
        """Returns, for each record, the value of its user key in the map of its key, null if there is none."""
        asked = self._asked(keys, user_keys)
        return asked.spread(self.table.get_many(asked))

    def contains_many(self, keys: Keys, user_keys: Any) -> Any:
        """Returns, for each record, whether the map of its key has its user key."""
        asked = self._asked(keys, user_keys)
        return pa.array(self.table.has(asked)[asked.of_record])

    def items_many(self, keys: Keys) -> Any:
        """Returns, for each record, all entries of the map of its key, as lists of structs of `key` and `value`."""
        of_keys, user_keys, values = self.table.items(keys)
        entries = pa.StructArray.from_arrays([user_keys, values], names=["key", "value"])
        return self._spread(lists_of(Elements(of_keys, entries), len(keys.distinct)), keys)

    def put_many(self, keys: Keys, user_keys: Any, values: Any) -> None:
        """Sets one entry per record, in the order of the records."""
        array = self.column.fitted(values, len(keys))
        asked = self._asked(keys, user_keys)
        self.table.put_many(asked, array.take(indices(asked.last)), np.zeros(len(asked.last), bool))

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        """Removes one entry per record; without user keys all entries of each key."""
        if user_keys is None:
            self.table.clear(keys)
        else:
            asked = self._asked(keys, user_keys)
            count = len(asked.last)
            self.table.put_many(asked, pa.nulls(count, self.column.type), np.ones(count, bool))

    def _asked(self, keys: Keys, user_keys: Any) -> Any:
        return self.table.asked(keys, self._user_keys.fitted(user_keys, len(keys)))


def lists_of(elements: Elements, count: int) -> Any:
    """Returns `count` lists, by the numbers of their elements, as an array."""
    ends = np.cumsum(np.bincount(elements.numbers, minlength=count))
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), elements.values)


__all__ = ["ListColumns", "MapColumns", "StateColumns", "ValueColumns", "lists_of"]
