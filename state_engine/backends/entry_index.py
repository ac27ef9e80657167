"""The index of a backend's entries: where tables by columns hold a key in a namespace.

A table by columns is cut into *segments*, and an entry has a number in its segment. There are two ways to cut:

* `ByNamespace`: a segment for each namespace, in which the number of an entry is that of its key. For few namespaces
  that many keys share, such as time windows.
* `ByPlace`: one segment, in which the number of an entry is its *place*: the number of the key in the upper half, that
  of the namespace in the lower one. For keys that have namespaces of their own, such as sessions.

All tables of a backend share one index, so a batch is looked up once, however many states are asked with it.
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
"""Texts are gathered one by one if fewer than one in eight of those known are wanted."""


class Part(NamedTuple):
    """The distinct keys of a batch that lie in one segment.

    Attributes:
        segment: The segment.
        positions: Where the keys stand among all distinct keys of the batch.
        numbers: Of the entries, ascending.
    """

    segment: Segment
    positions: Numbers
    numbers: Numbers

    def take(self, at: Numbers) -> "Part":
        """Returns some of them."""
        return Part(self.segment, self.positions[at], self.numbers[at])


class EntryIndex:
    """The keys and namespaces of the entries that the tables of a backend hold, by number.

    Args:
        codec: Of the keys.

    Attributes:
        keys: The numbers of the keys.
        namespaces: The numbers of the namespaces, if tables lie by place.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.keys = KeyNumbers(codec)
        self.namespaces = NamespaceNumbers()

    def places(self, keys: Keys) -> Numbers:
        """Returns the place of each record's key and namespace; new ones get numbers."""
        if isinstance(keys, EntryKeys):
            return self.places_of_entries(keys.each)
        if isinstance(keys, NamespacedKeys):
            own = self.keys.of_taken(keys.own.distinct, keys.of_own)
            return place(own, self.namespaces.of(keys.namespaces)[keys.spaces])
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
        """Returns the namespaces of places as a column that has each text once."""
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
        """Returns the distinct keys of a batch by segment; new ones get numbers."""
        distinct, generation = keys.distinct, self.index.keys.generation
        known = self._parts.get(distinct)
        if known is None or known[0] != generation:
            known = self._parts[distinct] = generation, list(self._cut(distinct))
        return known[1]

    def _cut(self, distinct: Keys) -> Iterator[Part]:
        numbers = self.index.keys
        namespaces: Sequence[Segment] = [None]
        spaces = np.zeros(len(distinct), np.int64)
        if isinstance(distinct, NamespacedKeys):
            own = numbers.of_taken(distinct.own.distinct, distinct.of_own)
            namespaces, spaces = distinct.namespaces, distinct.spaces
        elif isinstance(distinct, EntryKeys):
            keys, of_entries = split_entries(distinct.entries)
            own = numbers.of(keys)
            if of_entries is not None:  # timers that another function left
                known: dict[Segment, int] = {}
                spaces = np.array([known.setdefault(one, len(known)) for one in of_entries], np.int64)
                namespaces = list(known)
        else:
            own = numbers.of_each(distinct)
        for space, at in by_number(spaces):
            order = last_of_each(own[at], len(numbers))
            yield Part(namespaces[space], at[order], own[at][order])

    def part_of(self, entry: Any) -> Part:
        """Returns one entry as a part."""
        key, namespace = split_entry(entry)
        return Part(namespace, np.zeros(1, np.int64), self.index.keys.of([key]))

    def split(self, rows: Delta) -> Iterator[Part]:
        """Yields rows by segment, in their order: positions of rows, and the number of the entry of each."""
        numbers = rows.numbered_by(self.index.keys)
        for namespace, positions in by_namespace(rows.namespaces):
            yield Part(namespace, positions, numbers[positions])

    def names(self, segments: Sequence[Segment], lengths: Sequence[int], numbers: Numbers) -> Any:
        """Returns the namespaces of entries, given segment after segment, as a column that has each text once."""
        of_each: Any = pa.array(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths))
        return pa.DictionaryArray.from_arrays(of_each, pa.array(segments, pa.string()))

    def keys_of(self, numbers: Numbers) -> Numbers:
        """Returns the numbers of the keys of entries."""
        return numbers

    def with_keys(self, new: Numbers) -> Renumber:
        """Returns what makes new numbers of entries, given the new numbers of keys by the old ones."""
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
        """As of `ByNamespace`."""
        distinct = keys.distinct
        generation = self.index.keys.generation, self.index.namespaces.generation
        known = self._parts.get(distinct)
        if known is None or known[0] != generation:
            places = self.index.places(distinct)
            order = order_of(places)
            known = self._parts[distinct] = generation, [Part(None, order, places[order])]
        return known[1]

    def part_of(self, entry: Any) -> Part:
        """As of `ByNamespace`."""
        return Part(None, np.zeros(1, np.int64), self.index.places_of_entries([entry]))

    def split(self, rows: Delta) -> Iterator[Part]:
        """As of `ByNamespace`."""
        places = self.index.places_of_rows(rows)
        yield Part(None, np.arange(len(places)), places)

    def names(self, segments: Sequence[Segment], lengths: Sequence[int], numbers: Numbers) -> Any:
        """As of `ByNamespace`."""
        return self.index.names_at(numbers)

    def keys_of(self, numbers: Numbers) -> Numbers:
        """As of `ByNamespace`."""
        return keys_of(numbers)

    def with_keys(self, new: Numbers) -> Renumber:
        """As of `ByNamespace`."""
        return lambda places: place(new[keys_of(places)], namespaces_of(places))


Addressing = ByNamespace | ByPlace


class Numbered(Protocol):
    """A table whose entries have numbers."""

    @property
    def addressing(self) -> Addressing: ...

    @property
    def rows(self) -> int: ...

    def numbers(self) -> Iterable[Numbers]: ...

    def renumber(self, new: Renumber) -> None: ...


def drop_unused(index: EntryIndex, tables: Sequence[Numbered]) -> None:
    """Forgets keys and namespaces that no table holds any more, if there may be many: windows come and go."""
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
        self._column: Any = pa.nulls(1, pa.string())  # of the first ones
        self._last: tuple[Sequence[Segment], Numbers] = (), np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._texts)

    def of(self, namespaces: Sequence[Segment]) -> Numbers:
        """Returns the numbers of namespaces; new ones get numbers.

        The last answer is kept, since several states are asked with the same namespaces.
        """
        if namespaces is not self._last[0]:
            known, texts = self._numbers, self._texts
            found = np.fromiter(map(known.get, namespaces, repeat(-1)), np.int64, len(namespaces))
            for at in np.flatnonzero(found < 0).tolist():
                text = namespaces[at]
                found[at] = number = known.setdefault(text, len(texts))
                if number == len(texts):
                    texts.append(text)
            self._last = namespaces, found
        return self._last[1]

    def texts_of(self, numbers: Numbers) -> Any:
        """Returns namespaces by their numbers, as a column that has each text once."""
        if len(numbers) * _MORE < len(self):
            some, codes = np.unique(numbers, return_inverse=True)
            texts: Any = pa.array([self._texts[number] for number in some.tolist()], pa.string())
        else:
            texts, codes = self._all(), numbers
        own: Any = pa.array(codes.astype(np.int32))
        return pa.DictionaryArray.from_arrays(own, texts)

    def _all(self) -> Any:
        if len(self._column) < len(self):
            further = pa.array(self._texts[len(self._column) :], pa.string())
            self._column = pa.concat_arrays([self._column, further])
        return self._column

    def drop_unused(self, used: Iterable[Numbers]) -> Numbers | None:
        """Forgets namespaces that no table holds any more, if there may be many.

        Args:
            used: All numbers that tables hold. It is walked only if namespaces may be dropped.

        Returns:
            The new number by the old one, in the same order; None if no number changes.
        """
        if len(self) < self.limit:
            return None
        holds = np.zeros(len(self), bool)
        holds[0] = True
        for numbers in used:
            holds[numbers] = True
        count = int(np.count_nonzero(holds))
        self.limit = max(2 * count, _AT_LEAST)
        if count == len(self):
            return None
        self._texts = list(compress(self._texts, holds.tolist()))
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        self._column, self._last = pa.nulls(1, pa.string()), ((), np.empty(0, np.int64))
        self.generation += 1
        return np.cumsum(holds) - 1


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
    """Returns of each distinct key, by its position, the number of its entry and the index of its part."""
    count = sum(len(part.positions) for part in parts)
    numbers, of_parts = np.empty(count, np.int64), np.empty(count, np.int64)
    for at, part in enumerate(parts):
        numbers[part.positions], of_parts[part.positions] = part.numbers, at
    return numbers, of_parts


def by_namespace(namespaces: Any) -> Iterator[tuple[Segment, Numbers]]:
    """Yields each namespace of an array with the positions that it has."""
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
