"""Numbers of keys: what tables by columns hold instead of keys.

A key is looked up as a Python object once per batch, however many windows and states it has there. Everything else is
integers: a table holds the numbers of its keys in ascending order, so that two tables are merged like columns.
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
"""Arrow hashes all known keys, a dict only the wanted ones: the dict is faster if they are fewer than one in eight."""

_LARGER = 2
"""A part of the key columns is joined with the part before it unless that is this many times as long."""

_MOST_BYTES = 1 << 30
"""Parts are not joined to more bytes than this: Arrow's arrays of texts end at 2 GiB."""


class KeyNumbers:
    """The keys that the tables of a backend hold, by number; numbers count from 0.

    Integers that lie close together are looked up in a table, many other keys of one column by Arrow, the rest in a
    dict, which is made when it is first needed.

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
        self._groups: KeyGroups = np.empty(0, np.int32)  # with room for more
        self._places = IntegerKeys()
        self._parts = [codec.write([])]  # of the key columns, the longest first
        self._entries: list[Any] = []  # of the first keys
        self._numbers: dict[Any, int] = {}  # likewise
        self._answers: WeakKeyDictionary[Keys, Numbers] = WeakKeyDictionary()  # for the next state, asked likewise

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
        """Returns the numbers of keys, of which new ones get some."""
        known = self._dict()
        found = np.fromiter(map(known.get, entries, repeat(-1)), np.int64, len(entries))
        new = np.flatnonzero(found < 0)
        if len(new):
            first = dict.fromkeys([entries[at] for at in new.tolist()])
            self._add(self.codec.write(list(first)))
            self._entries += first
            known = self._dict()
            found[new] = [known[entries[at]] for at in new.tolist()]
        return found

    def of_each(self, keys: Keys) -> Numbers:
        """Returns the number of each distinct key, of which new ones get some.

        Args:
            keys: Their columns are the key columns.
        """
        each = keys.distinct
        if self._numbers_all(each):
            return np.arange(len(each))
        if each.taken is not None:
            return self.of_taken(*each.taken)
        found = self._answers.get(each)
        if found is None:
            found = self._answers[each] = self._looked_up(each)
        return found

    def of_taken(self, source: Keys, positions: Numbers) -> Numbers:
        """Returns the numbers of the keys at some positions of keys that are there once each."""
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
        """Gives numbers to those keys, each there once, for which none was found."""
        new = np.flatnonzero(found < 0)
        if len(new):
            found[new] = np.arange(len(new)) + len(self)
            self._add([column.take(indices(new)).cast(self._parts[0][0].type)])
        return found

    def _from(self, number: int) -> "Iterator[list[pa.Array[Any]]]":
        """Yields the key columns of the keys from a number on."""
        for part in self._parts:
            if number < len(part[0]):
                yield [column.slice(number) for column in part]
            number = max(0, number - len(part[0]))

    def among(self, numbers: Numbers) -> tuple[Keys, Numbers]:
        """Returns keys, each there once, and the positions of those with these numbers among them.

        They are all that are known, which need not be looked up again, unless these are too large for one column.
        """
        if _size(self._parts) <= _MOST_BYTES:
            return _Numbered(self, self._joined()), numbers
        wanted = np.unique(numbers)
        return Keys(self.columns(wanted), self.codec.read), np.searchsorted(wanted, numbers)

    def each(self, numbers: Numbers) -> Keys:
        """Returns the keys with these numbers, each given once, in their order; they are not looked up again."""
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
            at = np.flatnonzero(of_parts == n)
            if len(at) or not n:
                within = indices(numbers[at] - (ends[n] - len(part[0])))
                order.append(at)
                taken.append([column.take(within) for column in part])
        if len(taken) == 1:
            return taken[0]
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(order)] = np.arange(len(numbers))
        return [column.take(indices(back)) for column in _one(taken)]

    def drop_unused(self, used: Iterable[Numbers], rows: int) -> Numbers | None:
        """Forgets keys that no table holds any more, if there may be many; the others get other numbers.

        Args:
            used: All numbers that tables hold. It is walked only if keys may be dropped.
            rows: Of all tables together: with it the keys of a large window do not outlive the window for long.

        Returns:
            The new number by the old one, in the same order; None if no number changes.
        """
        if len(self) < min(self.limit, max(2 * rows, _AT_LEAST)):
            return None
        holds = np.zeros(len(self), bool)
        for numbers in used:
            holds[numbers] = True
        kept = np.flatnonzero(holds)
        self.limit = max(2 * len(kept), _AT_LEAST)
        if len(kept) == len(self):
            return None
        self._keep(kept)
        self.generation += 1
        self._answers = WeakKeyDictionary()
        return np.cumsum(holds) - 1

    def _add(self, columns: "list[pa.Array[Any]]") -> None:
        groups, before = self.codec.groups_of(columns), self._count
        self._count += len(groups)
        if self._count > len(self._groups):
            self._groups = np.resize(self._groups, _LARGER * self._count)
        self._groups[before : self._count] = groups
        self._append(columns)

    def _keep(self, kept: Numbers) -> None:
        """Keeps some keys, by their numbers; parts that are too large for one column stay parts."""
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
        known = self._numbers
        if len(known) < len(self):
            known.update(zip(self.entries[len(known) :], count(len(known)), strict=False))
        return known

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
        same = self.generation == self.by.generation
        return self.by.entries[: len(self)] if same else self._read(self.columns)


__all__ = ["KeyGroups", "KeyNumbers"]
