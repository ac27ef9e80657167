"""Gives numbers to keys. Tables by columns store these numbers instead of the keys.

A key is looked up as a Python object once per batch, however many windows and states use it. All other work is done on
integers: a table holds the numbers of its keys in ascending order, so two tables can be merged as columns.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import count, pairwise, repeat
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from state_engine.api.keys import Keys, Numbers, are_integers, indices
from state_engine.backends.integer_keys import IntegerKeys
from state_engine.backends.keys import KeyCodec

KeyGroups = NDArray[np.int32]

_AT_LEAST = 1 << 12
_MORE = 8
"""If fewer than one in eight known keys are looked up, a dict is faster: it hashes only these, Arrow all known keys."""

_LARGER = 2
"""Merge a newer part of the key columns into the part before it, unless that is at least this many times as long."""

_MOST_BYTES = 1 << 30
"""Most bytes of a merged part: an Arrow array of texts holds at most 2 GiB."""


class KeyNumbers:
    """The keys that the tables of a backend hold, by number; numbers count from 0.

    Integers that are close together are looked up in a table. Many other keys of one column are looked up by Arrow, the
    rest in a dict, which is made when it is first needed.

    Args:
        codec: Of the keys.

    Attributes:
        codec: As given.
        limit: With fewer keys than this, unused ones stay, unless the tables have far fewer rows.
        generation: Changes whenever keys get other numbers.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.codec = codec
        self.limit = _AT_LEAST
        self.generation = 0
        self._count = 0
        self._groups: KeyGroups = np.empty(0, np.int32)  # with spare room
        self._places = IntegerKeys()
        self._parts = [codec.write([])]  # parts of the key columns, the longest first
        self._entries: list[Any] = []  # the first keys
        self._numbers: dict[Any, int] = {}  # numbers of the first keys
        self._answers: WeakKeyDictionary[Keys, Numbers] = WeakKeyDictionary()  # for the next state with the same keys

    def __len__(self) -> int:
        return self._count

    @property
    def groups(self) -> KeyGroups:
        """The key groups of the keys, by number."""
        return self._groups[: self._count]

    @property
    def entries(self) -> list[Any]:
        """The keys by number, as Python values."""
        for columns in self._from(len(self._entries)):
            self._entries += self.codec.read(columns)
        return self._entries

    def of(self, entries: list[Any]) -> Numbers:
        """Returns the numbers of keys; new keys get numbers."""
        lookup = self._dict()
        numbers = np.fromiter(map(lookup.get, entries, repeat(-1)), np.int64, len(entries))
        new = np.flatnonzero(numbers < 0)
        if len(new):
            first = dict.fromkeys([entries[index] for index in new.tolist()])
            self._add(self.codec.write(list(first)))
            self._entries += first
            lookup = self._dict()
            numbers[new] = [lookup[entries[index]] for index in new.tolist()]
        return numbers

    def of_each(self, keys: Keys) -> Numbers:
        """Returns the number of each distinct key; new keys get numbers.

        Args:
            keys: Their columns are the key columns.
        """
        distinct = keys.distinct
        if self._numbers_all(distinct):
            return np.arange(len(distinct))
        if distinct.taken is not None:
            return self.of_taken(*distinct.taken)
        numbers = self._answers.get(distinct)
        if numbers is None:
            numbers = self._answers[distinct] = self._looked_up(distinct)
        return numbers

    def of_taken(self, source: Keys, positions: Numbers) -> Numbers:
        """Returns the numbers of the keys at some positions of `source`, which has each key once."""
        return positions if self._numbers_all(source) else self.of_each(source)[positions]

    def _numbers_all(self, keys: Keys) -> bool:
        return isinstance(keys, _Numbered) and keys.by is self and keys.generation == self.generation

    def _looked_up(self, keys: Keys) -> Numbers:
        each = keys.columns
        if len(each) == 1 and self._places.are_close and are_integers(each[0]):
            return self._with_new(each[0], self._places.numbers_of(each[0], lambda n: (one for [one] in self._from(n))))
        few = len(each[0]) * _MORE < len(self)
        if few or len(each) > 1 or pa.types.is_nested(each[0].type) or _size(self._parts) > _MOST_BYTES:
            return self.of(keys.entries)
        column: Any = each[0].cast(self._parts[0][0].type)
        return self._with_new(column, np.array(pc.fill_null(pc.index_in(column, self._joined()[0]), -1), np.int64))

    def _with_new(self, column: "pa.Array[Any]", found: Numbers) -> Numbers:
        """Gives numbers to the keys that have none yet (-1 in `found`); each key occurs once."""
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = np.arange(len(new)) + len(self)
            self._add([column.take(indices(new)).cast(self._parts[0][0].type)])
        return found

    def _from(self, number: int) -> "Iterator[list[pa.Array[Any]]]":
        """Yields the key columns of all keys from a number on."""
        for part in self._parts:
            if number < len(part[0]):
                yield [column.slice(number) for column in part]
            number = max(0, number - len(part[0]))

    def among(self, numbers: Numbers) -> tuple[Keys, Numbers]:
        """Returns keys, each once, and the positions of the keys with these numbers among them.

        They are all known keys, which need not be looked up again; only the requested ones if all are too large for one
        column.
        """
        if _size(self._parts) <= _MOST_BYTES:
            return _Numbered(self, self._joined()), numbers
        wanted = np.unique(numbers)
        return Keys(self.columns(wanted), self.codec.read), np.searchsorted(wanted, numbers)

    def each(self, numbers: Numbers) -> Keys:
        """Returns the keys with these numbers, in the same order; each number is given once. No look-up is needed."""
        if len(numbers) * _MORE >= len(self):
            every, positions = self.among(numbers)
            return every.take(positions)
        keys = Keys(self.columns(numbers), self.codec.read)
        keys.codes = np.arange(len(numbers))
        self._answers[keys] = numbers
        return keys

    def columns(self, numbers: Numbers) -> "list[pa.Array[Any]]":
        """Returns the key columns of keys."""
        ends = np.cumsum([len(part[0]) for part in self._parts])
        of_parts = np.searchsorted(ends, numbers, "right")
        order, taken = [], []
        for n, part in enumerate(self._parts):
            positions = np.flatnonzero(of_parts == n)
            if len(positions) or not n:
                within = indices(numbers[positions] - (ends[n] - len(part[0])))
                order.append(positions)
                taken.append([column.take(within) for column in part])
        if len(taken) == 1:
            return taken[0]
        inverse = np.empty(len(numbers), np.int64)
        inverse[np.concatenate(order)] = np.arange(len(numbers))
        return [column.take(indices(inverse)) for column in _one(taken)]

    def drop_unused(self, used: Iterable[Numbers], rows: int) -> Numbers | None:
        """Forgets keys that no table holds any more, if there may be many; the others get other numbers.

        Args:
            used: All numbers that tables hold. Iterated only if keys may be dropped.
            rows: Rows of all tables together. Because of it, the keys of a large window do not outlive it for long.

        Returns:
            The new numbers, by the old ones and in the same order; None if no number changes.
        """
        if len(self) < min(self.limit, max(2 * rows, _AT_LEAST)):
            return None
        is_used = np.zeros(len(self), bool)
        for numbers in used:
            is_used[numbers] = True
        kept = np.flatnonzero(is_used)
        self.limit = max(2 * len(kept), _AT_LEAST)
        if len(kept) == len(self):
            return None
        self._keep(kept)
        self.generation += 1
        self._answers = WeakKeyDictionary()
        return np.cumsum(is_used) - 1

    def _add(self, columns: "list[pa.Array[Any]]") -> None:
        groups, before = self.codec.groups_of(columns), self._count
        self._count += len(groups)
        if self._count > len(self._groups):
            self._groups = np.resize(self._groups, _LARGER * self._count)
        self._groups[before : self._count] = groups
        self._append(columns)

    def _keep(self, kept: Numbers) -> None:
        """Keeps only the keys with these numbers. Parts that are too large for one column stay separate."""
        starts = np.cumsum([0, *(len(part[0]) for part in self._parts)])
        cuts = np.searchsorted(kept, starts)
        parts, self._parts = self._parts, []
        self._groups, self._count = self._groups[kept], len(kept)
        self._entries, self._numbers, self._places = [], {}, IntegerKeys()
        for part, start, (first, end) in zip(parts, starts[:-1], pairwise(cuts), strict=True):
            if end > first or not self._parts:
                self._append([column.take(indices(kept[first:end] - start)) for column in part])

    def _append(self, columns: "list[pa.Array[Any]]") -> None:
        self._parts.append(columns)
        self._place(columns)
        while (
            len(self._parts) > 1
            and len(self._parts[-2][0]) < _LARGER * len(self._parts[-1][0])
            and _size(self._parts[-2:]) <= _MOST_BYTES
        ):
            self._parts[-2:] = [_one(self._parts[-2:])]

    def _place(self, columns: "list[pa.Array[Any]]") -> None:
        if len(columns) == 1:
            self._places.add(columns[0])

    def _dict(self) -> dict[Any, int]:
        by_key = self._numbers
        if len(by_key) < len(self):
            by_key.update(zip(self.entries[len(by_key) :], count(len(by_key)), strict=False))
        return by_key

    def _joined(self) -> "list[pa.Array[Any]]":
        if len(self._parts) > 1:
            self._parts = [_one(self._parts)]
        return self._parts[0]


def _one(parts: "list[list[pa.Array[Any]]]") -> "list[pa.Array[Any]]":
    return [pa.concat_arrays(list(columns)) for columns in zip(*parts, strict=True)]


def _size(parts: "list[list[pa.Array[Any]]]") -> int:
    return sum(column.nbytes for part in parts for column in part)


class _Numbered(Keys):
    """All keys that have numbers: their positions are their numbers, so they need no look-up."""

    def __init__(self, by: KeyNumbers, columns: "list[pa.Array[Any]]") -> None:
        super().__init__(columns, by.codec.read)
        self.by, self.generation = by, by.generation
        self.codes = np.arange(len(columns[0]))

    @cached_property
    def entries(self) -> list[Any]:
        is_current = self.generation == self.by.generation
        return self.by.entries[: len(self)] if is_current else self._read(self.columns)


__all__ = ["KeyGroups", "KeyNumbers"]
