"""Maps as columns: entries of maps in the order of their numbers; a number identifies a key and a user key.

The upper half of a number is the key's, the lower half the user key's. So the entries of a map are next to each other.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.backends.ascending import Flags, distinct, merged_layers, positions_of
from state_engine.backends.key_numbers import KeyGroups, KeyNumbers
from state_engine.backends.keys import KeyCodec
from state_engine.backends.stores.value_runs import Run, ValueRuns
from state_engine.serialization.column import Column

_BITS = 32
_VALUE = 0
"""Index of the values in the structs of `MapRuns`."""


class _UserKeyCodec(KeyCodec):
    """Converts user keys between Python and a column; without key groups, as they are stored with their keys."""

    def __init__(self, ddl: str) -> None:
        super().__init__([Column(name="user_key", type=ddl)], 1)

    def groups_of(self, arrays: Any) -> KeyGroups:
        return np.zeros(len(arrays[0]), np.int32)


class EntryNumbers:
    """The numbers of entries of maps.

    Args:
        ddl: Type of the user keys.

    Attributes:
        user_keys: The numbers of the user keys.
    """

    def __init__(self, ddl: str) -> None:
        self.user_keys = KeyNumbers(_UserKeyCodec(ddl))

    def of(self, keys: Numbers, user_keys: Any) -> Numbers:
        """Returns the number of each entry, given the number of its key, and its user key as a column."""
        each = Keys([user_keys], self.user_keys.codec.read)
        return (keys << _BITS) | self.user_keys.of_each(each)[each.codes]

    def user_keys_of(self, numbers: Numbers) -> Any:
        """Returns the user keys of entries as a column."""
        return self.user_keys.columns(_user_keys_of(numbers))[0]

    def drop_unused(self, used: Iterator[Numbers], rows: int) -> Callable[[Numbers], Numbers] | None:
        """Forgets user keys that no entry has any more, if there may be many.

        Args:
            used: The numbers of all entries. Iterated only if user keys may be dropped.
            rows: How many entries there are.

        Returns:
            A function from old to new numbers, which keeps their order; None if no number changes.
        """
        new = self.user_keys.drop_unused(map(_user_keys_of, used), rows)
        if new is None:
            return None
        return lambda numbers: (keys_of(numbers) << _BITS) | new[_user_keys_of(numbers)]


def keys_of(numbers: Numbers) -> Numbers:
    """Returns the numbers of the keys of entries."""
    return numbers >> _BITS


def _user_keys_of(numbers: Numbers) -> Numbers:
    return numbers & ((1 << _BITS) - 1)


def with_keys(new: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Numbers]:
    """Returns a function from old to new numbers of entries, given that of their keys; it keeps the order."""
    return lambda numbers: (new(keys_of(numbers)) << _BITS) | _user_keys_of(numbers)


class Entries(NamedTuple):
    """Changes of entries.

    Attributes:
        numbers: Of the entries, ascending.
        values: What was put, as an Arrow array; null where nothing was put.
        places: For each entry, its place among everything that was ever put: it orders the entries of a map.
        gone: Whether the entry was removed.
    """

    numbers: Numbers
    values: Any
    places: Numbers
    gone: Flags

    def under(self, other: "Entries") -> "Entries":
        """Returns both; for an entry in both, the other's value, in the place that the entry had before."""
        numbers, rows = merged_layers(self.numbers, other.numbers)
        places = other.places
        positions = positions_of(other.numbers, self.numbers)
        places = np.where(positions >= 0, self.places[positions], places) if len(self.places) else places
        return Entries(
            numbers,
            pa.concat_arrays([self.values, other.values]).take(indices(rows)),
            np.concatenate([self.places, places])[rows],
            np.concatenate([self.gone, other.gone])[rows],
        )

    def where(self, kept: Flags) -> "Entries":
        """Returns the kept ones."""
        return Entries(self.numbers[kept], self.values.filter(pa.array(kept)), self.places[kept], self.gone[kept])

    def renumbered(self, new: Callable[[Numbers], Numbers]) -> "Entries":
        """Returns them with other numbers, in the same order."""
        return self._replace(numbers=new(self.numbers))


class MapChange(NamedTuple):
    """The changes of an epoch to the maps of a segment: the keys of maps cleared first, ascending, and the entries."""

    cleared: Numbers
    entries: Entries

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not len(self.cleared) and not len(self.entries.numbers)


class MapRuns:
    """The maps of one segment.

    Args:
        value_type: Of values, as Arrow has it.

    Attributes:
        keys: How many maps have entries.
    """

    def __init__(self, value_type: Any) -> None:
        self.keys = 0
        self._fields = [pa.field("value", value_type), pa.field("place", pa.int64())]
        self._runs = ValueRuns(pa.struct(self._fields))
        self._counts: Numbers = np.zeros(0, np.int64)  # of entries, by the key

    @property
    def rows(self) -> int:
        """How many entries there are."""
        return self._runs.rows

    def of(self, numbers: Numbers) -> Any:
        """Returns the values of entries, given ascending and each once; null for an entry without one."""
        return self._runs.of(numbers, _VALUE)

    def has(self, numbers: Numbers) -> Flags:
        """Returns which entries exist; they are given as for `of`."""
        return self._runs.has(numbers)

    def has_any(self, keys: Numbers) -> Flags:
        """Returns which keys have entries."""
        flags = np.zeros(len(keys), bool)
        in_range = np.flatnonzero(keys < len(self._counts))
        flags[in_range] = self._counts[keys[in_range]] > 0
        return flags

    def entries(self, keys: Numbers) -> Entries:
        """Returns all entries of some keys, given in ascending order."""
        numbers = self._numbers_of(keys)
        values, places = self._runs.of(numbers).flatten()
        return Entries(numbers, values, np.asarray(places), np.zeros(len(numbers), bool))

    def _numbers_of(self, keys: Numbers) -> Numbers:
        numbers = self._runs.between(keys << _BITS, (keys + 1) << _BITS)
        return numbers[self.has(numbers)]

    def change(self, change: MapChange) -> None:
        """Clears maps, and then applies the changes of entries."""
        cleared, entries = change
        removed = self._numbers_of(cleared[self.has_any(cleared)])
        if len(removed):
            self._put(Run(removed, pa.nulls(len(removed), pa.struct(self._fields))))
        if len(entries.numbers):
            columns = [entries.values, pa.array(entries.places)]
            mask = pa.array(entries.gone) if entries.gone.any() else None
            self._put(Run(entries.numbers, pa.StructArray.from_arrays(columns, fields=self._fields, mask=mask)))

    def keep(self, kept: Callable[[Numbers], Flags]) -> None:
        """Keeps the maps of the keys whose numbers `kept` flags."""
        self._runs.keep(lambda numbers: kept(keys_of(numbers)))
        self._recount()

    def keep_values(self, kept: Callable[[Any], Flags]) -> None:
        """Keeps the entries whose values `kept` flags."""
        self._runs.keep(lambda numbers: kept(self.of(numbers)))
        self._recount()

    @property
    def parts(self) -> list[Numbers]:
        """The numbers of keys that have entries, or had some: ascending parts, some numbers in several."""
        return [distinct(keys_of(numbers)) for numbers in self._runs.parts]

    def renumber_entries(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each entry another number, in the same order; those of a key stay together."""
        self._runs.renumber(new)

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each key another number, in the same order."""
        self._runs.renumber(with_keys(new))
        self._recount()

    def numbers(self) -> list[Numbers]:
        """Returns the numbers of all entries, in parts, some several times."""
        return self._runs.numbers()

    def _put(self, run: Run) -> None:
        more = np.asarray(run.values.is_valid()).astype(np.int64) - self.has(run.numbers)
        self._runs.change(run)
        positions = np.flatnonzero(more)
        if len(positions):
            self._count(keys_of(run.numbers[positions]), more[positions])

    def _count(self, keys: Numbers, more: Numbers) -> None:
        """Adds to the counts of the entries of keys. The keys ascend, and may be given several times."""
        each = distinct(keys)
        if len(self._counts) <= each[-1]:
            before, self._counts = self._counts, np.zeros(2 * int(each[-1]) + 1, np.int64)
            self._counts[: len(before)] = before
        counts = self._counts[each]
        now = counts + np.add.reduceat(more, np.searchsorted(keys, each))
        self._counts[each] = now
        self.keys += int(np.count_nonzero(now)) - int(np.count_nonzero(counts))

    def _recount(self) -> None:
        self.keys, self._counts = 0, np.zeros(0, np.int64)
        numbers = np.unique(np.concatenate([np.empty(0, np.int64), *self._runs.numbers()]))
        numbers = numbers[self.has(numbers)]
        if len(numbers):
            self._count(keys_of(numbers), np.ones(len(numbers), np.int64))


__all__ = ["Entries", "EntryNumbers", "MapChange", "MapRuns", "keys_of", "with_keys"]
