"""Keys of a batch that are asked for in namespaces: windows of records."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices, integers, numbered
from state_engine.backends.key_numbers import KeyNumbers, last_of_each
from state_engine.backends.keys import Namespaced, split_entries, split_entry

_KNOWN = "_known_parts"
"""Where keys remember their parts, for the next state that is asked with them."""


class Part(NamedTuple):
    """The distinct keys of one namespace.

    Attributes:
        namespace: None is the void one.
        positions: Where they stand among all.
        numbers: Of the keys, ascending.
    """

    namespace: str | None
    positions: Numbers
    numbers: Numbers

    def take(self, at: Numbers) -> "Part":
        """Returns some of them."""
        return Part(self.namespace, self.positions[at], self.numbers[at])


class NamespacedKeys(Keys):
    """Keys of a batch that are asked for in namespaces.

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
        # No method of this object: in a cycle, all that a batch had would wait for a collection.
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


def parts_of(keys: Keys, numbers: KeyNumbers) -> list[Part]:
    """Returns the distinct keys, namespace by namespace; of keys without, all are in the void one."""
    distinct = keys.distinct
    by = numbers, numbers.generation
    known = distinct.__dict__.get(_KNOWN)
    if known is None or known[0] != by:
        known = distinct.__dict__[_KNOWN] = by, list(_parts(distinct, numbers))
    parts: list[Part] = known[1]
    return parts


def by_position(parts: Sequence[Part]) -> tuple[Numbers, Numbers]:
    """Returns of each distinct key, by its position, its number, and the place of its part among all."""
    count = sum(len(part.positions) for part in parts)
    numbers, places = np.empty(count, np.int64), np.empty(count, np.int64)
    for place, part in enumerate(parts):
        numbers[part.positions], places[part.positions] = part.numbers, place
    return numbers, places


def _parts(distinct: Keys, numbers: KeyNumbers) -> Iterator[Part]:
    namespaces: Sequence[str | None] = [None]
    spaces = np.zeros(len(distinct), np.int64)
    if isinstance(distinct, NamespacedKeys):
        own = numbers.of_taken(distinct.own.distinct, distinct.of_own)
        namespaces, spaces = distinct.namespaces, distinct.spaces
    elif isinstance(distinct, EntryKeys):
        keys, of_entries = split_entries(distinct.entries)
        own = numbers.of(keys)
        if of_entries is not None:  # of timers that another function left
            known: dict[str | None, int] = {}
            spaces = np.array([known.setdefault(one, len(known)) for one in of_entries], np.int64)
            namespaces = list(known)
    else:
        own = numbers.of_each(distinct)
    for space, at in by_number(spaces):
        order = last_of_each(own[at], len(numbers))
        yield Part(namespaces[space], at[order], own[at][order])


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


__all__ = ["EntryKeys", "NamespacedKeys", "Part", "by_position", "namespaced_keys", "parts_of"]
