"""Maps of keys in namespaces, as columns: what functions over batches keep on the heap.

They are asked for many entries at once, and put many. So a table has columns for each namespace, in which a number
stands for a key and a user key, and nothing in it is a Python object per entry: neither what is asked, nor an epoch's
rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices, latest_of, order_of
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers, last_of_each, positions_of
from state_engine.backends.keys import join_entries, split_entry
from state_engine.backends.list_runs import LARGER, Flags, distinct
from state_engine.backends.map_runs import Entries, EntryNumbers, MapRuns, keys_of, with_keys
from state_engine.backends.namespaced_keys import Part, by_position, parts_of
from state_engine.backends.namespaced_tables import ClearedKeys, RunsTable, by_namespace
from state_engine.backends.tables import DELETED, LogRows, MapDelta
from state_engine.log.ops import Op
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.mutability import conformer

_NO_SIZE = 1 << 62


class Asked(NamedTuple):
    """The entries of one namespace that records ask for.

    Attributes:
        namespace: None is the void one.
        records: Where the records stand among all.
        numbers: Of the entries, ascending and each once.
        of_record: Which of these each record asks for.
        last: Of each entry the position of its last record among all.
    """

    namespace: str | None
    records: Numbers
    numbers: Numbers
    of_record: Numbers
    last: Numbers

    @property
    def first(self) -> Numbers:
        """Of each entry the position of its first record among all."""
        first = np.empty(len(self.numbers), np.int64)
        first[self.of_record[::-1]] = self.records[::-1]
        return first

    def latest(self, times: Any) -> Any:
        """Returns of each entry the latest event time of its records, null where none has one.

        Args:
            times: Of all records, as an array; None gives None.
        """
        return (
            None if times is None else latest_of(self.of_record, times.take(indices(self.records)), len(self.numbers))
        )


class _Frozen(NamedTuple):
    """What an epoch did to the maps of a namespace: keys whose maps it emptied first, and entries."""

    cleared: Numbers
    entries: Entries


class _Written:
    """The same while the epoch goes on.

    Args:
        nothing: Entries, of which there are none.
    """

    def __init__(self, nothing: Entries) -> None:
        self.cleared = ClearedKeys()
        self._nothing = nothing
        self._parts: list[Entries] = []  # from the oldest to the newest

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._parts)

    def clear(self, keys: Numbers, size: int) -> None:
        """Empties maps, given by their keys, of so many that are numbered."""
        self.cleared.add(keys, size)
        parts = [part.where(positions_of(keys_of(part.numbers), keys) < 0) for part in self._parts]
        self._parts = [part for part in parts if len(part.numbers)]

    def put(self, entries: Entries) -> None:
        """Does something to entries. Merged with older ones when there are not many more of these."""
        self._parts.append(entries)
        while len(self._parts) > 1 and len(self._parts[-2].numbers) < LARGER * len(self._parts[-1].numbers):
            self._parts[-2:] = [self._parts[-2].under(self._parts[-1])]

    @property
    def entries(self) -> Entries:
        """All to which something was done."""
        while len(self._parts) > 1:
            self._parts[-2:] = [self._parts[-2].under(self._parts[-1])]
        return self._parts[0] if self._parts else self._nothing

    def find(self, numbers: Numbers) -> Iterator[tuple[Numbers, Entries, Numbers]]:
        """Yields where entries stand among those wanted, what was done, and where they stand there."""
        left = np.arange(len(numbers))
        for part in reversed(self._parts):
            at = positions_of(numbers[left], part.numbers)
            there = at >= 0
            if there.any():
                yield left[there], part, at[there]
                left = left[~there]

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Puts another number to each entry, in the same order."""
        self._parts = [part.renumbered(new) for part in self._parts]

    def frozen(self) -> _Frozen:
        """Returns all that was done."""
        return _Frozen(self.cleared.numbers, self.entries)


class NamespacedMapTable(RunsTable):
    """Namespace to maps of keys.

    What functions do key by key waits as Python values until somebody asks, or the epoch ends.

    Args:
        user_key: Type of a user key.
        value: Type of a value.
        numbers: Of the keys.
    """

    base: dict[str | None, MapRuns]
    overlay: dict[str | None, _Written]
    _pending: dict[str | None, _Frozen]

    def __init__(self, user_key: TypeInformation, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(value, numbers)
        self.entries = EntryNumbers(user_key.ddl())
        self.conform_key = conformer(user_key)
        self._read_key, self._write_key = reader(user_key), writer(user_key)
        self._key_type = self._write_key([]).type
        self._places = 0
        self._singly: dict[tuple[str | None, Any], MapDelta] = {}

    @property
    def keys(self) -> int:
        return sum(runs.keys for runs in self.base.values())

    # Columns ----------------------------------------------------------------------------------------------------------

    def asked(self, keys: Keys, user_keys: Any) -> list[Asked]:
        """Returns the entries that records ask for, namespace by namespace.

        Args:
            keys: Of the records.
            user_keys: A user key for each, as a column of their type.
        """
        parts, codes = parts_of(keys, self.numbers), keys.codes
        of_each, spaces = by_position(parts)
        numbers = self.entries.of(of_each[codes], user_keys)
        if len(parts) <= 1:
            return [_asked(parts[0].namespace if parts else None, np.arange(len(numbers)), numbers)]
        return [_asked(parts[space].namespace, at, numbers[at]) for space, at in by_number(spaces[codes])]

    def get(self, asked: Sequence[Asked]) -> Any:
        """Returns of each record the value of its entry, null where there is none."""
        return self.spread(asked, self.of(asked))

    def of(self, asked: Sequence[Asked]) -> list[Any]:
        """Returns, by namespace, the values of the entries, null where there is none."""
        self._join()
        return [self._values(part.namespace, part.numbers) for part in asked]

    def spread(self, asked: Sequence[Asked], values: Sequence[Any]) -> Any:
        """Returns of each record what its entry has.

        Args:
            asked: What records ask for.
            values: By namespace, one for each entry, as arrays.
        """
        found = [of_part.take(indices(part.of_record)) for part, of_part in zip(asked, values, strict=True)]
        return found[0] if len(found) == 1 else pa.concat_arrays(found).take(indices(_back(asked)))

    def has(self, asked: Sequence[Asked]) -> Flags:
        """Returns of each record whether its entry is there."""
        self._join()
        found = [self._there(part.namespace, part.numbers)[part.of_record] for part in asked]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, bool), *found])[_back(asked)]

    def items(self, parts: Sequence[Part]) -> tuple[Numbers, Any, Any]:
        """Returns all entries of distinct keys, key by key, those of a key in the order in which they were put.

        Returns:
            Of each entry the position of its key, its user key, and its value.
        """
        self._join()
        none = self._entries(np.empty(0, np.int64), pa.array([], self.type))
        each = [none, *(self._held(part.namespace, part.numbers, none) for part in parts)]
        positions = [
            part.positions[positions_of(keys_of(own.numbers), part.numbers)]
            for part, own in zip(parts, each[1:], strict=True)
        ]
        of_keys = np.concatenate([none.numbers, *positions])
        order = order_of(np.concatenate([own.places for own in each]), of_keys)
        numbers = np.concatenate([own.numbers for own in each])[order]
        values = pa.concat_arrays([own.values for own in each]).take(indices(order))
        return of_keys[order], self.entries.user_keys_of(numbers), values

    def put(self, asked: Sequence[Asked], values: Any) -> None:
        """Sets entries, each to the value of its last record; without values removes them."""
        self._join()  # what was put key by key was put before
        first = self.next_places(sum(len(part.records) for part in asked))
        for part in asked:
            gone = np.full(len(part.numbers), values is None)
            of_each = pa.nulls(len(gone), self.type) if values is None else values.take(indices(part.last))
            self.lay(part, first, of_each, gone)

    def next_places(self, count: int) -> int:
        """Returns the first of so many places behind all that were ever given."""
        first = self._places
        self._places += count
        return first

    def lay(self, part: Asked, first: int, values: Any, gone: Flags, changed: Flags | None = None) -> None:
        """Sets or removes entries of a namespace.

        Args:
            part: The entries.
            first: The place of the first record of all.
            values: One for each; null where it is removed.
            gone: Which are removed.
            changed: To which something is done; None for all.
        """
        entries = Entries(part.numbers, values, first + part.first, gone)
        self._written_in(part.namespace).put(entries if changed is None else entries.where(changed))

    def clear(self, parts: Sequence[Part]) -> None:
        """Empties maps."""
        self._join()
        for part in parts:
            self._written_in(part.namespace).clear(distinct(part.numbers), len(self.numbers))

    def _values(self, namespace: str | None, numbers: Numbers) -> Any:
        stored, written = self.base.get(namespace), self.overlay.get(namespace)
        found = pa.nulls(len(numbers), self.type) if stored is None else stored.of(numbers)
        if written is None:
            return found
        rows, lost = np.arange(len(numbers)), written.cleared.has(keys_of(numbers))
        values, count = [found], len(numbers)
        for positions, part, at in written.find(numbers):
            values.append(part.values.take(indices(at)))
            rows[positions], lost[positions] = np.arange(len(at)) + count, False
            count += len(at)
        return pa.concat_arrays(values).take(pa.array(rows, mask=lost))

    def _there(self, namespace: str | None, numbers: Numbers) -> Flags:
        stored, written = self.base.get(namespace), self.overlay.get(namespace)
        found = np.zeros(len(numbers), bool) if stored is None else stored.has(numbers)
        if written is None:
            return found
        found &= ~written.cleared.has(keys_of(numbers))
        for positions, part, at in written.find(numbers):
            found[positions] = ~part.gone[at]
        return found

    def _held(self, namespace: str | None, keys: Numbers, none: Entries) -> Entries:
        """Returns all entries of some keys, given in ascending order.

        Args:
            namespace: Theirs.
            keys: Their numbers.
            none: Entries, of which there are none.
        """
        stored, written = self.base.get(namespace), self.overlay.get(namespace)
        if written is None:
            return none if stored is None else stored.entries(keys)
        found = none if stored is None else stored.entries(keys[~written.cleared.has(keys)])
        own = written.entries
        own = own.where(positions_of(keys_of(own.numbers), keys) >= 0)
        held = found.where(positions_of(found.numbers, own.numbers) < 0).under(own)
        return held.where(~held.gone)

    def _written_in(self, namespace: str | None) -> _Written:
        found = self.overlay.get(namespace)
        if found is None:
            found = self.overlay[namespace] = _Written(self._entries(np.empty(0, np.int64), pa.array([], self.type)))
        return found

    def _entries(self, numbers: Numbers, values: Any, gone: Flags | None = None) -> Entries:
        """Returns entries that are put one after the other, given in any order and any number of times."""
        at = last_of_each(numbers, _NO_SIZE)
        first = self.next_places(len(numbers))
        gone = np.zeros(len(numbers), bool) if gone is None else gone
        return Entries(numbers[at], values.take(indices(at)), first + at, gone[at])

    # Key by key -------------------------------------------------------------------------------------------------------

    def content(self, entry: Any) -> dict[Any, Any]:
        """Returns the map of an entry, in the order in which it was put."""
        key, namespace = split_entry(entry)
        _, user_keys, values = self.items([Part(namespace, np.zeros(1, np.int64), self.numbers.of([key]))])
        return dict(zip(self._read_key(user_keys), self._read(values), strict=True))

    def delta(self, entry: Any) -> MapDelta:
        """Returns where to say what becomes of the map of an entry."""
        key, namespace = split_entry(entry)
        found = self._singly.get((namespace, key))
        if found is None:
            found = self._singly[namespace, key] = MapDelta()
        return found

    def _join(self) -> None:
        """Moves what was done key by key into the columns."""
        if not self._singly:
            return
        done = self._singly
        namespaces, keys = [namespace for namespace, _ in done], [key for _, key in done]
        counts = [len(delta.entries) for delta in done.values()]
        of_each = zip(join_entries(keys, namespaces), counts, strict=True)
        entries = [entry for entry, count in of_each for _ in range(count)]
        values = [value for delta in done.values() for value in delta.entries.values()]
        gone = np.array([value is DELETED for value in values], bool)
        array = self._written(self._write, [None if value is DELETED else value for value in values], entries)
        user_keys = [user_key for delta in done.values() for user_key in delta.entries]
        of_user_keys = self._written(self._write_key, user_keys, entries)
        self._singly = {}
        own = self.numbers.of(keys)
        numbers = self.entries.of(np.repeat(own, counts), of_user_keys)
        cleared = np.array([delta.cleared for delta in done.values()], bool)
        spaces = pa.array(namespaces, pa.string())
        for namespace, at in by_namespace(spaces.filter(pa.array(cleared))):
            self._written_in(namespace).clear(np.sort(own[cleared][at]), len(self.numbers))
        for namespace, at in by_namespace(spaces.take(indices(np.repeat(np.arange(len(keys)), counts)))):
            self._written_in(namespace).put(self._entries(numbers[at], array.take(indices(at)), gone[at]))

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        self._join()
        overlay, self.overlay = self.overlay, {}
        frozen = {namespace: self._frozen(namespace, written) for namespace, written in overlay.items()}
        self._pending = {n: one for n, one in frozen.items() if len(one.cleared) or len(one.entries.numbers)}
        if not self._pending:
            return None
        numbers, ops, values, user_keys = [], [], [], []
        for cleared, entries in self._pending.values():
            placed = _in_their_places(entries)
            numbers += [cleared, keys_of(placed.numbers)]
            ops += [np.full(len(cleared), Op.CLEAR, np.int8), np.where(placed.gone, Op.DELETE, Op.PUT)]
            values += [pa.nulls(len(cleared), self.type), placed.values]
            user_keys += [pa.nulls(len(cleared), self._key_type), self.entries.user_keys_of(placed.numbers)]
        lengths = [len(one.cleared) + len(one.entries.numbers) for one in self._pending.values()]
        of_each = np.concatenate(ops).astype(np.int8)
        return self._numbered_rows(numbers, lengths, of_each, values, pa.concat_arrays(user_keys))

    def _frozen(self, namespace: str | None, written: _Written) -> _Frozen:
        """Returns what an epoch did; a map of which the log has no rows needs none that empties it."""
        cleared, stored = written.cleared.numbers, self.base.get(namespace)
        if not self.stamped:  # else the log may have what the base has dropped already
            cleared = cleared[:0] if stored is None else cleared[stored.has_any(cleared)]
        return _Frozen(cleared, written.entries)

    def settle(self) -> None:
        super().settle()
        new = self.entries.drop_unused(self._numbers_held(), self.rows)
        if new is not None:
            for runs in self.base.values():
                runs.renumber(new)
            self._renumber_changes(new)

    def forget(self) -> None:
        self._singly = {}
        super().forget()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        column = user_keys.combine_chunks().cast(self._key_type)
        values, is_clear = values.cast(self.type), ops == Op.CLEAR
        for namespace, at in by_namespace(namespaces):
            clears, puts = at[is_clear[at]], at[~is_clear[at]]
            clears = clears[last_of_each(numbers[clears], len(self.numbers))]
            if len(clears):
                found = positions_of(numbers[puts], numbers[clears])
                puts = puts[(found < 0) | (puts > clears[found])]
            of_entries = self.entries.of(numbers[puts], column.take(indices(puts)))
            gone = ops[puts] != Op.PUT
            put = values.take(pa.array(puts, mask=gone))
            self._change_in(namespace, _Frozen(numbers[clears], self._entries(of_entries, put, gone)))

    def _no_runs(self) -> MapRuns:
        return MapRuns(self.type)

    def _change(self, runs: MapRuns, change: _Frozen) -> None:
        runs.change(*change)

    def _changes(self) -> Iterator[_Frozen]:
        yield from (written.frozen() for written in self.overlay.values())
        yield from self._pending.values()

    def _numbers_held(self) -> Iterator[Numbers]:
        yield from super().used()
        for change in self._changes():
            yield change.entries.numbers

    def used(self) -> Iterable[Numbers]:
        for numbers in self._numbers_held():
            yield keys_of(numbers)
        for change in self._changes():
            yield change.cleared

    def renumber(self, new: Numbers) -> None:
        for runs in self.base.values():
            runs.renumber_keys(new)
        for written in self.overlay.values():
            written.cleared.renumber(new)
        self._pending = {n: _Frozen(new[one.cleared], one.entries) for n, one in self._pending.items()}
        self._renumber_changes(with_keys(new))

    def _renumber_changes(self, new: Callable[[Numbers], Numbers]) -> None:
        for written in self.overlay.values():
            written.renumber(new)
        self._pending = {n: one._replace(entries=one.entries.renumbered(new)) for n, one in self._pending.items()}


def _asked(namespace: str | None, records: Numbers, numbers: Numbers) -> Asked:
    """Returns what records of a namespace ask for, given the number of the entry of each."""
    if (numbers[1:] > numbers[:-1]).all():
        return Asked(namespace, records, numbers, np.arange(len(numbers)), records)
    order = order_of(numbers)
    ordered = numbers[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    of_record = np.empty(len(numbers), np.int64)
    of_record[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))
    return Asked(namespace, records, ordered[ends], of_record, records[order[ends]])


def _back(asked: Sequence[Asked]) -> Numbers:
    """Returns where each record stands when those of all namespaces lie one behind the other."""
    records = np.concatenate([np.empty(0, np.int64), *(part.records for part in asked)])
    back = np.empty(len(records), np.int64)
    back[records] = np.arange(len(records))
    return back


def _in_their_places(entries: Entries) -> Entries:
    """Returns entries by key, those of a key in the order in which they were put."""
    keys, places = keys_of(entries.numbers), entries.places
    if ((places[1:] > places[:-1]) | (keys[1:] != keys[:-1])).all():
        return entries
    order = order_of(places, keys)
    taken = entries.values.take(indices(order))
    return Entries(entries.numbers[order], taken, places[order], entries.gone[order])


__all__ = ["Asked", "NamespacedMapTable"]
