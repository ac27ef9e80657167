"""The keys of a batch with which a state is called: keys in namespaces (windows of records), or Python values."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices, integers, numbered
from state_engine.backends.keys import Namespaced, split_entry


class NamespacedKeys(Keys):
    """Keys in namespaces.

    Args:
        columns: For each record, the number of its key among the distinct keys of `own`, and of its namespace.
        own: The keys, with the key columns.
        namespaces: The namespaces.
        times: See `Keys`.

    Attributes:
        own: As given.
        namespaces: As given.
    """

    def __init__(
        self, columns: "Sequence[pa.Array[Any]]", own: Keys, namespaces: Sequence[str | None], times: Any = None
    ) -> None:
        # Not a method of this object: a reference cycle would keep the batch until the next garbage collection.
        super().__init__(columns, partial(_joined, own, namespaces), times)
        self.own = own
        self.namespaces = namespaces

    @property
    def of_own(self) -> Numbers:
        """For each record, the number of its key among the distinct keys of `own`."""
        return np.asarray(self.columns[0])

    @property
    def spaces(self) -> Numbers:
        """For each record, the number of its namespace."""
        return np.asarray(self.columns[1])

    @cached_property
    def codes(self) -> Numbers:
        pairs = self.spaces * len(self.own) + self.of_own
        codes, self.first = numbered(pairs, int(pairs.max(initial=0)) + 1)
        return codes

    def take(self, positions: Numbers) -> "NamespacedKeys":
        taken = super().take(positions)
        return NamespacedKeys(taken.columns, self.own, self.namespaces, taken.times)


class EntryKeys(Keys):
    """Keys that exist only as Python values.

    Args:
        each: The keys, or entries of a table; duplicates are allowed.
        times: See `Keys`.

    Attributes:
        each: As given.
    """

    def __init__(self, each: list[Any], times: Any = None) -> None:
        super().__init__([indices(np.arange(len(each)))], _unread, times)
        self.each = each

    @cached_property
    def codes(self) -> Numbers:
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(one, len(numbers)) for one in self.each], np.int64)

    @cached_property
    def entries(self) -> list[Any]:
        return list(dict.fromkeys(self.each))

    def take(self, positions: Numbers) -> "EntryKeys":
        positions = integers(positions)
        times = None if self.times is None else self.times.take(indices(positions))
        return EntryKeys([self.each[position] for position in positions.tolist()], times)


def _unread(_: Any) -> list[Any]:
    raise TypeError("the columns of EntryKeys hold positions, from which no keys can be read")


def _joined(own: Keys, namespaces: Sequence[str | None], columns: Sequence[Any]) -> list[Any]:
    keys, spaces = (column.to_pylist() for column in columns)
    entries = own.entries
    return [
        entries[key] if (namespace := namespaces[space]) is None else Namespaced(entries[key], namespace)
        for key, space in zip(keys, spaces, strict=True)
    ]


def namespaced_keys(
    entries: list[Any], write: "Callable[[list[Any]], Sequence[pa.Array[Any]]]", times: Any = None
) -> NamespacedKeys:
    """Returns entries, each given once, as `NamespacedKeys`.

    Args:
        entries: Keys, most of them with namespaces.
        write: Makes columns of keys.
        times: See `Keys`.
    """
    keys: dict[Any, int] = {}
    spaces: dict[str | None, int] = {}
    codes = [keys.setdefault(key, len(keys)) for key, _ in map(split_entry, entries)]
    numbers = [spaces.setdefault(namespace, len(spaces)) for _, namespace in map(split_entry, entries)]
    distinct_keys = list(keys)
    columns = [indices(np.array(column, np.int64)) for column in (codes, numbers)]
    return NamespacedKeys(columns, Keys(write(distinct_keys), lambda _: distinct_keys), list(spaces), times)


__all__ = ["EntryKeys", "NamespacedKeys", "namespaced_keys"]
