"""The keys of a batch that a state is asked with: keys in namespaces (windows of records), or Python values."""

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
        columns: Of each record the number of its key among the distinct ones of `own`, and that of its namespace.
        own: The keys, by the key columns.
        namespaces: The namespaces.
        times: As of `Keys`.

    Attributes:
        own: As given.
        namespaces: As given.
    """

    def __init__(
        self, columns: "Sequence[pa.Array[Any]]", own: Keys, namespaces: Sequence[str | None], times: Any = None
    ) -> None:
        # Not a method of this object: in a cycle, the batch would stay until the next garbage collection.
        super().__init__(columns, partial(_joined, own, namespaces), times)
        self.own = own
        self.namespaces = namespaces

    @property
    def of_own(self) -> Numbers:
        """Of each record the number of its key among the distinct ones of `own`."""
        return np.asarray(self.columns[0])

    @property
    def spaces(self) -> Numbers:
        """Of each record the number of its namespace."""
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
    """Keys that are known as Python values alone.

    Args:
        each: The keys, or entries of a table; one may be there several times.
        times: As of `Keys`.

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
        return EntryKeys([self.each[at] for at in positions.tolist()], times)


def _unread(_: Any) -> list[Any]:
    raise TypeError("numbers stand for no keys of their own")


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
    """Returns entries, each given once, as such keys.

    Args:
        entries: Keys, most of them with namespaces.
        write: Makes columns of keys.
        times: As of `Keys`.
    """
    keys: dict[Any, int] = {}
    spaces: dict[str | None, int] = {}
    codes = [keys.setdefault(key, len(keys)) for key, _ in map(split_entry, entries)]
    numbers = [spaces.setdefault(namespace, len(spaces)) for _, namespace in map(split_entry, entries)]
    listed = list(keys)
    columns = [indices(np.array(column, np.int64)) for column in (codes, numbers)]
    return NamespacedKeys(columns, Keys(write(listed), lambda _: listed), list(spaces), times)


__all__ = ["EntryKeys", "NamespacedKeys", "namespaced_keys"]
