"""The index of a backend's entries: finds the number that a key in a namespace has in tables by columns.

A table by columns is cut into *segments*, and an entry has a number in its segment. There are two ways to cut:

* `ByNamespace`: one segment per namespace. The number of an entry is the number of its key. For few namespaces that
  many keys share, such as time windows.
* `ByPlace`: one segment in all. The number of an entry is its *place*: the number of the key in the upper half, the
  number of the namespace in the lower half. For keys that have namespaces of their own, such as sessions.

All tables of a backend share one index, so a batch is looked up once, however many states use it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, order_of
from state_engine.backends.ascending import ANY, last_of_each
from state_engine.backends.batch_keys import EntryKeys, NamespacedKeys
from state_engine.backends.delta import Delta
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyCodec, split_entries, split_entry

Segment = str | None
Renumber = Callable[[Numbers], Numbers]

_BITS = 32
_OF_NAMESPACE = (1 << _BITS) - 1
_AT_LEAST = 1 << 12
_MORE = 8
"""Texts are fetched one by one if fewer than one in eight of all known texts are requested."""


class Part(NamedTuple):
    """The distinct keys of a batch that belong to one segment.

    Attributes:
        segment: The segment.
        positions: Positions of the keys among all distinct keys of the batch.
        numbers: Numbers of the entries, ascending.
    """

    segment: Segment
    positions: Numbers
    numbers: Numbers

    def take(self, at: Numbers) -> "Part":
        """Returns a part with only some of the keys."""
        return Part(self.segment, self.positions[at], self.numbers[at])


class EntryIndex:
    """The keys and namespaces of the entries that the tables of a backend hold, by number.

    Args:
        codec: Of the keys.

    Attributes:
        keys: The numbers of the keys.
        namespaces: The numbers of the namespaces, for tables by place.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.keys = KeyNumbers(codec)
        self.namespaces = NamespaceNumbers()

    def places(self, keys: Keys) -> Numbers:
        """Returns the place of each record's key and namespace; new keys and namespaces get numbers."""
        if isinstance(keys, EntryKeys):
            return self.places_of_entries(keys.each)
        if isinstance(keys, NamespacedKeys):
            key_numbers = self.keys.of_taken(keys.own.distinct, keys.of_own)
            return place(key_numbers, self.namespaces.of(keys.namespaces)[keys.spaces])
        return place(self.keys.of_each(keys)[keys.codes], np.zeros(len(keys), np.int64))

    def places_of_entries(self, entries: list[Any]) -> Numbers:
        """Returns the places of entries."""
        keys, namespaces = split_entries(entries)
        void: Sequence[Segment] = [None] * len(keys)
        return place(self.keys.of(keys), self.namespaces.of(void if namespaces is None else namespaces))

    def places_of_rows(self, rows: Delta) -> Numbers:
        """Returns the places of rows."""
        encoded = rows.namespaces.dictionary_encode("encode")
        spaces = self.namespaces.of(encoded.dictionary.to_pylist())[np.asarray(encoded.indices)]
        return place(rows.numbered_by(self.keys), spaces)

    def names_at(self, places: Numbers) -> Any:
        """Returns the namespaces of places as a dictionary array, which stores each text once."""
        return self.namespaces.texts_of(namespaces_of(places))


class ByNamespace:
    """A segment for each namespace; the number of an entry is that of its key.

    Args:
        index: Of the backend's entries.
    """

    def __init__(self, index: EntryIndex) -> None:
        self.index = index
        self._parts: WeakKeyDictionary[Keys, tuple[int, list[Part]]] = WeakKeyDictionary()

    @property
    def size(self) -> int:
        """All numbers are below it."""
        return len(self.index.keys)

    def parts(self, keys: Keys) -> list[Part]:
        """Returns the distinct keys of a batch by segment; new keys get numbers."""
        distinct, generation = keys.distinct, self.index.keys.generation
        cached = self._parts.get(distinct)
        if cached is None or cached[0] != generation:
            cached = self._parts[distinct] = generation, list(self._cut(distinct))
        return cached[1]

    def _cut(self, distinct: Keys) -> Iterator[Part]:
        numbers = self.index.keys
        namespaces: Sequence[Segment] = [None]
        spaces = np.zeros(len(distinct), np.int64)
        if isinstance(distinct, NamespacedKeys):
            key_numbers = numbers.of_taken(distinct.own.distinct, distinct.of_own)
            namespaces, spaces = distinct.namespaces, distinct.spaces
        elif isinstance(distinct, EntryKeys):
            keys, of_entries = split_entries(distinct.entries)
            key_numbers = numbers.of(keys)
            if of_entries is not None:  # timers left by another function
                space_numbers: dict[Segment, int] = {}
                spaces = np.array([space_numbers.setdefault(one, len(space_numbers)) for one in of_entries], np.int64)
                namespaces = list(space_numbers)
        else:
            key_numbers = numbers.of_each(distinct)
        for space, positions in by_number(spaces):
            order = last_of_each(key_numbers[positions], len(numbers))
            yield Part(namespaces[space], positions[order], key_numbers[positions][order])

    def part_of(self, entry: Any) -> Part:
        """Returns one entry as a part."""
        key, namespace = split_entry(entry)
        return Part(namespace, np.zeros(1, np.int64), self.index.keys.of([key]))

    def split(self, rows: Delta) -> Iterator[Part]:
        """Yields rows by segment, in their order: the positions of the rows, and the number of each row's entry."""
        numbers = rows.numbered_by(self.index.keys)
        for namespace, positions in by_namespace(rows.namespaces):
            yield Part(namespace, positions, numbers[positions])

    def names(self, segments: Sequence[Segment], lengths: Sequence[int], numbers: Numbers) -> Any:
        """Returns the namespaces of entries, given segment after segment, as a dictionary array."""
        of_each: Any = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
        return pa.DictionaryArray.from_arrays(of_each, pa.array(segments, pa.string()))

    def keys_of(self, numbers: Numbers) -> Numbers:
        """Returns the numbers of the keys of entries."""
        return numbers

    def with_keys(self, new: Numbers) -> Renumber:
        """Returns a function from old to new numbers of entries.

        Args:
            new: The new numbers of the keys, by their old numbers.
        """
        return new.__getitem__


class ByPlace:
    """One segment; the number of an entry is its place.

    Args:
        index: Of the backend's entries.
    """

    size = ANY

    def __init__(self, index: EntryIndex) -> None:
        self.index = index
        self._parts: WeakKeyDictionary[Keys, tuple[tuple[int, int], list[Part]]] = WeakKeyDictionary()

    def parts(self, keys: Keys) -> list[Part]:
        """See `ByNamespace`."""
        distinct = keys.distinct
        generation = self.index.keys.generation, self.index.namespaces.generation
        cached = self._parts.get(distinct)
        if cached is None or cached[0] != generation:
            places = self.index.places(distinct)
            order = order_of(places)
            cached = self._parts[distinct] = generation, [Part(None, order, places[order])]
        return cached[1]

    def part_of(self, entry: Any) -> Part:
        """See `ByNamespace`."""
        return Part(None, np.zeros(1, np.int64), self.index.places_of_entries([entry]))

    def split(self, rows: Delta) -> Iterator[Part]:
        """See `ByNamespace`."""
        places = self.index.places_of_rows(rows)
        yield Part(None, np.arange(len(places)), places)

    def names(self, segments: Sequence[Segment], lengths: Sequence[int], numbers: Numbers) -> Any:
        """See `ByNamespace`."""
        return self.index.names_at(numbers)

    def keys_of(self, numbers: Numbers) -> Numbers:
        """See `ByNamespace`."""
        return keys_of(numbers)

    def with_keys(self, new: Numbers) -> Renumber:
        """See `ByNamespace`."""
        return lambda places: place(new[keys_of(places)], namespaces_of(places))


Addressing = ByNamespace | ByPlace


class Numbered(Protocol):
    """A table with numbered entries."""

    @property
    def addressing(self) -> Addressing: ...

    @property
    def rows(self) -> int: ...

    def numbers(self) -> Iterable[Numbers]: ...

    def renumber(self, new: Renumber) -> None: ...


def drop_unused(index: EntryIndex, tables: Sequence[Numbered]) -> None:
    """Forgets keys and namespaces that no table holds any more, if there may be many. Closed windows leave them."""
    used = (table.addressing.keys_of(numbers) for table in tables for numbers in table.numbers())
    keys = index.keys.drop_unused(used, sum(table.rows for table in tables))
    if keys is not None:
        for table in tables:
            table.renumber(table.addressing.with_keys(keys))
    placed = [table for table in tables if isinstance(table.addressing, ByPlace)]
    names = index.namespaces.drop_unused(namespaces_of(numbers) for table in placed for numbers in table.numbers())
    if names is not None:
        for table in placed:
            table.renumber(lambda places: place(keys_of(places), names[namespaces_of(places)]))


class NamespaceNumbers:
    """Namespaces by number; the void one is 0.

    Attributes:
        generation: Changes whenever namespaces get other numbers.
        limit: With fewer namespaces than this, unused ones stay.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.limit = _AT_LEAST
        self._texts: list[Segment] = [None]
        self._numbers: dict[Segment, int] = {None: 0}
        self._column: Any = pa.nulls(1, pa.string())  # the first texts
        self._last: tuple[Sequence[Segment], Numbers] = (), np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._texts)

    def of(self, namespaces: Sequence[Segment]) -> Numbers:
        """Returns the numbers of namespaces; new ones get numbers.

        The last result is cached, because several states are called with the same namespaces.
        """
        if namespaces is not self._last[0]:
            by_text, texts = self._numbers, self._texts
            numbers = np.fromiter(map(by_text.get, namespaces, repeat(-1)), np.int64, len(namespaces))
            for position in np.flatnonzero(numbers < 0).tolist():
                text = namespaces[position]
                numbers[position] = number = by_text.setdefault(text, len(texts))
                if number == len(texts):
                    texts.append(text)
            self._last = namespaces, numbers
        return self._last[1]

    def texts_of(self, numbers: Numbers) -> Any:
        """Returns namespaces by their numbers, as a dictionary array, which stores each text once."""
        if len(numbers) * _MORE < len(self):
            some, codes = np.unique(numbers, return_inverse=True)
            texts: Any = pa.array([self._texts[number] for number in some.tolist()], pa.string())
        else:
            texts, codes = self._all(), numbers
        indices: Any = pa.array(codes.astype(np.int32))
        return pa.DictionaryArray.from_arrays(indices, texts)

    def _all(self) -> Any:
        if len(self._column) < len(self):
            further = pa.array(self._texts[len(self._column) :], pa.string())
            self._column = pa.concat_arrays([self._column, further])
        return self._column

    def drop_unused(self, used: Iterable[Numbers]) -> Numbers | None:
        """Forgets namespaces that no table holds any more, if there may be many.

        Args:
            used: All numbers that tables hold. Iterated only if namespaces may be dropped.

        Returns:
            The new numbers, by the old ones and in the same order; None if no number changes.
        """
        if len(self) < self.limit:
            return None
        is_used = np.zeros(len(self), bool)
        is_used[0] = True
        for numbers in used:
            is_used[numbers] = True
        count = int(np.count_nonzero(is_used))
        self.limit = max(2 * count, _AT_LEAST)
        if count == len(self):
            return None
        self._texts = list(compress(self._texts, is_used.tolist()))
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._column, self._last = pa.nulls(1, pa.string()), ((), np.empty(0, np.int64))
        self.generation += 1
        return np.cumsum(is_used) - 1


def place(keys: Numbers, namespaces: Numbers) -> Numbers:
    """Returns the places of keys and namespaces, by their numbers."""
    return (keys << _BITS) | namespaces


def keys_of(places: Numbers) -> Numbers:
    """Returns the numbers of the keys of places."""
    return places >> _BITS


def namespaces_of(places: Numbers) -> Numbers:
    """Returns the numbers of the namespaces of places."""
    return places & _OF_NAMESPACE


def by_position(parts: Sequence[Part]) -> tuple[Numbers, Numbers]:
    """Returns, for each distinct key by its position, the number of its entry and the index of its part."""
    count = sum(len(part.positions) for part in parts)
    numbers, of_parts = np.empty(count, np.int64), np.empty(count, np.int64)
    for index, part in enumerate(parts):
        numbers[part.positions], of_parts[part.positions] = part.numbers, index
    return numbers, of_parts


def by_namespace(namespaces: Any) -> Iterator[tuple[Segment, Numbers]]:
    """Yields each namespace of an array with its positions."""
    encoded = namespaces.dictionary_encode("encode")
    texts = encoded.dictionary.to_pylist()
    for number, positions in by_number(np.asarray(encoded.indices)):
        yield texts[number], positions


__all__ = [
    "Addressing",
    "ByNamespace",
    "ByPlace",
    "EntryIndex",
    "NamespaceNumbers",
    "Numbered",
    "Part",
    "Renumber",
    "Segment",
    "by_position",
    "drop_unused",
    "keys_of",
    "namespaces_of",
    "place",
]
