"""Maps by columns: a number identifies a key and a user key, and no entry of a map is a Python object."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices, order_of
from state_engine.backends.ascending import ANY, Flags, distinct, inverse_of, last_of_each, positions_of
from state_engine.backends.delta import Delta, one_array
from state_engine.backends.entry_index import ByNamespace, Part, Segment, by_position
from state_engine.backends.shapes.cleared import ClearedKeys
from state_engine.backends.shapes.maps import Asked, UserKeys, rows_of
from state_engine.backends.shapes.table import ColumnTable, Expired
from state_engine.backends.stamps import at_most, earliest, split_stamps, stamp_each, unexpired, without
from state_engine.backends.stored_type import StoredType
from state_engine.backends.stores.list_runs import LARGER
from state_engine.backends.stores.map_runs import Entries, EntryNumbers, MapChange, keys_of, with_keys
from state_engine.backends.stores.segments import Segments
from state_engine.log.ops import Op

Memo = tuple[tuple[int, int], Any, Asked]


class Written:
    """What an epoch did to the maps of a segment: it cleared some, and then put and removed entries.

    Args:
        nothing: No entries.
    """

    def __init__(self, nothing: Entries) -> None:
        self.cleared = ClearedKeys()
        self._nothing = nothing
        self._parts: list[Entries] = []  # from the oldest to the newest

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._parts)

    def clear(self, keys: Numbers, size: int) -> None:
        """Clears maps, given by keys that ascend; all numbers of keys are below `size`."""
        if not len(keys):
            return
        self.cleared.add(keys, size)
        parts = [part.where(positions_of(keys_of(part.numbers), keys) < 0) for part in self._parts]
        self._parts = [part for part in parts if len(part.numbers)]

    def put(self, entries: Entries) -> None:
        """Puts or removes entries. They are merged with older ones unless there are many more of these."""
        self._parts.append(entries)
        while len(self._parts) > 1 and len(self._parts[-2].numbers) < LARGER * len(self._parts[-1].numbers):
            self._parts[-2:] = [self._parts[-2].under(self._parts[-1])]

    @property
    def entries(self) -> Entries:
        """All entries that were changed."""
        while len(self._parts) > 1:
            self._parts[-2:] = [self._parts[-2].under(self._parts[-1])]
        return self._parts[0] if self._parts else self._nothing

    def find(self, numbers: Numbers) -> Iterator[tuple[Numbers, Entries, Numbers]]:
        """Yields positions of wanted entries, a part of the changes, and the positions of these entries in it."""
        remaining = np.arange(len(numbers))
        for part in reversed(self._parts):
            rows = positions_of(numbers[remaining], part.numbers)
            exist = rows >= 0
            if exist.any():
                yield remaining[exist], part, rows[exist]
                remaining = remaining[~exist]

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives each entry another number, in the same order."""
        self._parts = [part.renumbered(new) for part in self._parts]


class MapColumnTable(ColumnTable):
    """Maps by columns, in one segment per namespace.

    Args:
        user_keys: Their user keys.
        stored: See `ColumnTable`.
        addressing: See `ColumnTable`.
        store: `Segments` of `MapRuns`.

    Attributes:
        user_keys: As given.
        entries: The numbers of entries of maps.
    """

    written: dict[Segment, Written]
    store: Segments

    def __init__(self, user_keys: UserKeys, stored: StoredType, addressing: ByNamespace, store: Segments) -> None:
        super().__init__(stored, addressing, store)
        self.user_keys = user_keys
        self.entries = EntryNumbers(user_keys.info.ddl())
        self._key_type = user_keys.write([]).type
        self._places = 0
        self._asked: WeakKeyDictionary[Keys, Memo] = WeakKeyDictionary()

    # Reading and writing ----------------------------------------------------------------------------------------------

    def asked(self, keys: Keys, user_keys: Any) -> Asked:
        """Returns the entries that records access; the last result is cached for the next call with the same records.

        Args:
            keys: Of the records.
            user_keys: A user key for each, as an array of their type.
        """
        by = self.addressing.index.keys.generation, self.entries.user_keys.generation
        cached = self._asked.get(keys)
        if cached is None or cached[0] != by or not cached[1].equals(user_keys):
            # A copy: the owner of the buffer may fill it anew.
            kept = user_keys.take(indices(np.arange(len(user_keys))))
            cached = self._asked[keys] = by, kept, self._asked_of(keys, user_keys)
        return cached[2]

    def _asked_of(self, keys: Keys, user_keys: Any) -> Asked:
        parts, codes = self.parts(keys), keys.codes
        of_each, of_parts = by_position(parts)
        numbers = self.entries.of(of_each[codes], user_keys)
        if len(parts) <= 1:
            segment = parts[0].segment if parts else None
            distinct_numbers, of_record, last = _each_once(numbers, np.arange(len(numbers)))
            return Asked([(segment, distinct_numbers)], of_record, last, keys.times)
        entries, of_records, lasts, records, before = [], [], [], [], 0
        for at_part, positions in by_number(of_parts[codes]):
            distinct_numbers, of_record, last = _each_once(numbers[positions], positions)
            entries.append((parts[at_part].segment, distinct_numbers))
            of_records.append(of_record + before)
            lasts.append(last)
            records.append(positions)
            before += len(distinct_numbers)
        inverse = inverse_of(np.concatenate(records))
        return Asked(entries, np.concatenate(of_records)[inverse], np.concatenate(lasts), keys.times)

    def get_many(self, asked: Asked) -> Any:
        """Returns the value of each entry, null if it does not exist."""
        self.join()
        values = [self._values(segment, numbers) for segment, numbers in asked.entries]
        return values[0] if len(values) == 1 else pa.concat_arrays(values)

    def has(self, asked: Asked) -> Flags:
        """Returns which entries exist."""
        self.join()
        return np.concatenate([self._there(segment, numbers) for segment, numbers in asked.entries])

    def put_many(self, asked: Asked, values: Any, gone: Flags, changed: Flags | None = None) -> None:
        """Sets entries, or removes them.

        Args:
            asked: The entries.
            values: One for each.
            gone: Which entries are removed.
            changed: Which entries are changed at all; None for all.
        """
        self.join()  # what was put entry by entry was put before
        places = self._next_places(len(asked.of_record)) + asked.first
        start = 0
        for segment, numbers in asked.entries:
            part = slice(start, start := start + len(numbers))
            entries = Entries(numbers, values[part], places[part], gone[part])
            self._written_in(segment).put(entries if changed is None else entries.where(changed[part]))

    def items(self, keys: Keys) -> tuple[Numbers, Any, Any]:
        """Returns all entries of the distinct keys' maps, map by map, each in the order in which it was put.

        Returns:
            For each entry, the position of its key, its user key, and its value.
        """
        self.join()
        return self._items(self.parts(keys))

    def clear(self, keys: Keys) -> None:
        """Clears the maps of the distinct keys."""
        self.join()
        for part in self.parts(keys):
            self._written_in(part.segment).clear(distinct(part.numbers), self.addressing.size)

    def content(self, entry: Any) -> dict[Any, Any] | None:
        self.join()  # so that an entry keeps its place in the order of the map, however it is put again
        _, user_keys, values = self._items([self.addressing.part_of(entry)])
        return dict(zip(self.user_keys.read(user_keys), self.stored.read(values), strict=True)) or None

    def _items(self, parts: Sequence[Part]) -> tuple[Numbers, Any, Any]:
        none = self._nothing()
        each = [none, *(self._held(part.segment, part.numbers, none) for part in parts)]
        positions = [
            part.positions[positions_of(keys_of(entries.numbers), part.numbers)]
            for part, entries in zip(parts, each[1:], strict=True)
        ]
        of_keys = np.concatenate([none.numbers, *positions])
        order = order_of(np.concatenate([entries.places for entries in each]), of_keys)
        numbers = np.concatenate([entries.numbers for entries in each])[order]
        values = pa.concat_arrays([entries.values for entries in each]).take(indices(order))
        return of_keys[order], self.entries.user_keys_of(numbers), values

    def _values(self, segment: Segment, numbers: Numbers) -> Any:
        stored, written = self.store.get(segment), self.written.get(segment)
        stored_values = self.stored.nulls(len(numbers)) if stored is None else stored.of(numbers)
        if written is None:
            return stored_values
        rows, lost = np.arange(len(numbers)), written.cleared.has(keys_of(numbers))
        values, count = [stored_values], len(numbers)
        for positions, part, part_rows in written.find(numbers):
            values.append(part.values.take(indices(part_rows)))
            rows[positions], lost[positions] = np.arange(len(part_rows)) + count, False
            count += len(part_rows)
        return pa.concat_arrays(values).take(pa.array(rows, mask=lost))

    def _there(self, segment: Segment, numbers: Numbers) -> Flags:
        exist, written = self.store.may_hold(segment, numbers), self.written.get(segment)
        if written is None:
            return exist
        exist &= ~written.cleared.has(keys_of(numbers))
        for positions, part, part_rows in written.find(numbers):
            exist[positions] = ~part.gone[part_rows]
        return exist

    def _held(self, segment: Segment, keys: Numbers, none: Entries) -> Entries:
        """Returns all entries of some keys.

        Args:
            segment: The segment of the keys.
            keys: Their numbers, ascending.
            none: No entries.
        """
        stored, written = self.store.get(segment), self.written.get(segment)
        if written is None:
            return none if stored is None else stored.entries(keys)
        uncleared = none if stored is None else stored.entries(keys[~written.cleared.has(keys)])
        changed = written.entries
        changed = changed.where(positions_of(keys_of(changed.numbers), keys) >= 0)
        held = uncleared.where(positions_of(uncleared.numbers, changed.numbers) < 0).under(changed)
        return held.where(~held.gone)

    def _next_places(self, count: int) -> int:
        """Reserves `count` places after all that were ever given; returns the first of them."""
        first = self._places
        self._places += count
        return first

    def _nothing(self) -> Entries:
        return self._in_turn(np.empty(0, np.int64), self.stored.nulls(0), np.empty(0, bool))

    def _in_turn(self, numbers: Numbers, values: Any, gone: Flags) -> Entries:
        """Returns the entries after puts one after the other; an entry may be put several times, in any order."""
        last = last_of_each(numbers, ANY)
        first = self._next_places(len(numbers))
        return Entries(numbers[last], values.take(indices(last)), first + last, gone[last])

    def _written_in(self, segment: Segment) -> Written:
        written = self.written.get(segment)
        if written is None:
            written = self.written[segment] = Written(self._nothing())
        return written

    def write(self, segment: Segment, change: MapChange) -> None:
        written = self._written_in(segment)
        written.clear(change.cleared, self.addressing.size)
        written.put(change.entries)

    # Rows of the log --------------------------------------------------------------------------------------------------

    def rows_of_overlay(self) -> Delta:
        return rows_of(self.overlay, self.user_keys, self.stored, lambda _: True)

    def changes(self, delta: Delta) -> Mapping[Segment, MapChange]:
        user_keys = one_array(delta.user_keys).cast(self._key_type)
        values, clears = one_array(delta.values).cast(self.stored.arrow), delta.ops == Op.CLEAR
        changes = {}
        for segment, positions, numbers in self.addressing.split(delta):
            of_entries = ~clears[positions]
            rows = positions[of_entries]
            is_removed = delta.ops[rows] != Op.PUT
            of_maps = self.entries.of(numbers[of_entries], user_keys.take(indices(rows)))
            put = self._in_turn(of_maps, values.take(pa.array(rows, mask=is_removed)), is_removed)
            changes[segment] = MapChange(np.unique(numbers[~of_entries]), put)
        return changes

    def frozen(self, segment: Segment, written: Written) -> MapChange:
        cleared, stored = written.cleared.numbers, self.store.get(segment)
        if not self.stored.stamped:  # else the log may have what the store has dropped already
            cleared = cleared[:0] if stored is None else cleared[stored.has_any(cleared)]
        return MapChange(cleared, written.entries)

    def as_rows(self, changes: Mapping[Segment, MapChange]) -> Delta:
        numbers, ops, values, user_keys, lengths = [], [], [], [], []
        for cleared, entries in changes.values():
            put = _as_put(entries)
            numbers += [cleared, keys_of(put.numbers)]
            ops += [np.full(len(cleared), Op.CLEAR, np.int8), np.where(put.gone, Op.DELETE, Op.PUT)]
            values += [self.stored.nulls(len(cleared)), put.values]
            user_keys += [pa.nulls(len(cleared), self._key_type), self.entries.user_keys_of(put.numbers)]
            lengths.append(len(cleared) + len(put.numbers))
        of_rows = np.concatenate(ops).astype(np.int8)
        every = pa.concat_arrays(values)
        return self.numbered_rows(of_rows, every, numbers, lengths, user_keys=pa.concat_arrays(user_keys))

    def settle(self) -> None:
        super().settle()
        new = self.entries.drop_unused(self._entries_held(), self.rows)
        if new is not None:
            self.store.alter(lambda runs: runs.renumber_entries(new))
            self._renumber_entries(new)

    def _entries_held(self) -> Iterator[Numbers]:
        yield from self.store.numbers()
        for written in self.written.values():
            yield written.entries.numbers
        for change in self._pending.values():
            yield change.entries.numbers

    def numbers(self) -> Iterable[Numbers]:
        yield from map(keys_of, self._entries_held())
        for written in self.written.values():
            yield written.cleared.numbers
        for change in self._pending.values():
            yield change.cleared

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        super().renumber(new)
        for written in self.written.values():
            written.cleared.renumber(new)
        self._pending = {n: MapChange(new(one.cleared), one.entries) for n, one in self._pending.items()}
        self._renumber_entries(with_keys(new))

    def _renumber_entries(self, new: Callable[[Numbers], Numbers]) -> None:
        for written in self.written.values():
            written.renumber(new)
        self._pending = {n: one._replace(entries=one.entries.renumbered(new)) for n, one in self._pending.items()}

    # Time to live -----------------------------------------------------------------------------------------------------

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""
        self.store.alter(lambda runs: runs.keep_values(lambda values: unexpired(split_stamps(values)[1], expired)))

    def count_written(self, segment: Segment) -> int:
        written = self.written.get(segment)
        return 0 if written is None else len(written)

    def clean(self, segment: Segment, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self.join()
        runs, written = self.store.get(segment), self.written.get(segment)
        if runs is None:
            return math.inf
        entries = runs.entries(numbers)
        if written is not None:
            busy = written.cleared.has(keys_of(entries.numbers))
            for positions, _, _ in written.find(entries.numbers):
                busy[positions] = True
            entries = entries.where(~busy)
        values, times = split_stamps(entries.values)
        old, unknown = at_most(times, expiry), np.asarray(times.is_null()) & (seen is not None)
        changed = old | unknown
        if changed.any():
            places = self._next_places(len(old)) + inverse_of(np.argsort(entries.places))
            stamped = without(stamp_each(values, seen), old)
            self._written_in(segment).put(Entries(entries.numbers, stamped, places, old).where(changed))
        return earliest(times, ~old)


def _each_once(numbers: Numbers, records: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the distinct numbers, ascending; the index in them for each record; and the last record of each."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers, np.arange(len(numbers)), records
    order = order_of(numbers)
    ordered = numbers[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    of_record = np.empty(len(numbers), np.int64)
    of_record[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))
    return ordered[ends], of_record, records[order[ends]]


def _as_put(entries: Entries) -> Entries:
    """Returns entries map by map, those of a map in the order in which they were put."""
    keys, places = keys_of(entries.numbers), entries.places
    if ((places[1:] > places[:-1]) | (keys[1:] != keys[:-1])).all():
        return entries
    order = order_of(places, keys)
    taken = entries.values.take(indices(order))
    return Entries(entries.numbers[order], taken, places[order], entries.gone[order])


__all__ = ["MapColumnTable"]
