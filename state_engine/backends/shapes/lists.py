"""Tables of lists, one list for each entry."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices, order_of
from state_engine.backends.ascending import Flags, distinct
from state_engine.backends.delta import Delta, entry_of_rows, one_array
from state_engine.backends.entry_index import Part, Segment, by_position
from state_engine.backends.shapes.cleared import ClearedKeys
from state_engine.backends.shapes.table import CollectionTable, ColumnTable, Expired
from state_engine.backends.stamps import at_most, earliest, split_stamps, stamp_each, unexpired
from state_engine.backends.stored_type import StoredType
from state_engine.backends.stores.dicts import ListDelta
from state_engine.backends.stores.list_runs import Elements, ListChange, ListRuns, joined
from state_engine.backends.ttl_rules import is_worth_it
from state_engine.log.ops import Op


class ListTable(CollectionTable):
    """Lists by entry."""

    def freeze(self) -> Delta | None:
        overlay = self.overlay
        if not overlay:
            return None
        rows = rows_of(overlay, self.stored, self._may_hold)
        self.overlay, self._pending = {}, (overlay, rows.values)
        return rows if len(rows) else None

    def settle(self) -> None:
        if self._pending is None:
            return
        overlay, array = self._pending
        self._pending = None
        if not self.stored.reads_alike:
            read = iter(self.stored.read(array))
            for delta in overlay.values():
                if delta.cleared:
                    next(read)
                delta.appended = [next(read) for _ in delta.appended]
        self._merge_deltas(overlay)

    def merge(self, delta: Delta) -> None:
        deltas: dict[Any, ListDelta] = {}
        for entry, op, value in zip(delta.entries, delta.ops.tolist(), self.stored.read(delta.values), strict=True):
            of_entry = deltas.get(entry)
            if of_entry is None:
                of_entry = deltas[entry] = ListDelta()
            if op == Op.APPEND:
                of_entry.appended.append(value)
            else:
                of_entry.cleared = True
        self._merge_deltas(deltas)

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""
        deltas = {}
        for entry, elements in self.base.items():
            kept = [element for element in elements if not expired(element[1])]
            if len(kept) < len(elements):
                deltas[entry] = ListDelta(cleared=True, appended=kept)
        self.base.merge(deltas)

    def values_in(self, delta: ListDelta) -> list[Any]:
        return delta.appended

    def clean_entry(self, entry: Any, expiry: float, seen: int | None) -> float:
        elements: Sequence[Any] = self.base.get(entry, ())
        expired = [time for _, time in elements if time is not None and time <= expiry]
        oldest: float = min((time for _, time in elements if time is not None and time > expiry), default=math.inf)
        unknown = any(time is None for _, time in elements)
        delta = self.overlay.get(entry)
        if delta is not None and delta.cleared:
            return oldest
        if unknown and seen is None:
            return -math.inf  # a later round checks again
        if not unknown and not is_worth_it(len(expired), len(elements)):
            return min(oldest, *expired) if expired else oldest
        if delta is None:
            delta = self.overlay[entry] = ListDelta()
        kept = [(v, seen if time is None else time) for v, time in elements if time is None or time > expiry]
        delta.cleared, delta.appended = True, kept + delta.appended  # what the epoch appended stays last
        return oldest

    # By columns -------------------------------------------------------------------------------------------------------

    def elements(self, keys: Keys) -> Elements:
        """Returns the elements of the distinct keys' lists; their numbers are the positions of the keys."""
        lists = list(map(self._list, self._prefetched(keys)))
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        numbers = np.repeat(np.arange(len(lists)), counts)
        values = [element for of_entry in lists for element in of_entry]
        return Elements(numbers, self.stored.write(values, lambda at: keys.entries[numbers[at]]))

    def has(self, keys: Keys) -> Flags:
        """Returns which of the distinct keys have elements."""
        return np.fromiter((bool(self._list(entry)) for entry in self._prefetched(keys)), bool, len(keys.entries))

    def append(self, keys: Keys, codes: Numbers, values: Any, times: Any = None) -> None:
        """Appends values to the lists of distinct keys.

        Args:
            keys: The keys.
            codes: For each value, the position of its key.
            values: The values.
            times: Used only with a time to live (`columns/ttl.py`).
        """
        entries, overlay = keys.entries, self.overlay
        for code, value in zip(codes.tolist(), self.stored.read(values), strict=True):
            delta = overlay.get(entries[code])
            if delta is None:
                delta = overlay[entries[code]] = ListDelta()
            delta.appended.append(value)

    def clear(self, keys: Keys) -> None:
        """Clears the lists of the distinct keys."""
        self.overlay.update((entry, ListDelta(cleared=True)) for entry in keys.entries)

    def _prefetched(self, keys: Keys) -> list[Any]:
        self.base.prefetch(keys.entries)
        return keys.entries

    def _list(self, entry: Any) -> Sequence[Any]:
        delta = self.overlay.get(entry)
        if delta is not None and delta.cleared:
            appended: Sequence[Any] = delta.appended
            return appended
        stored: Sequence[Any] = self.base.get(entry, ())
        return stored if delta is None else [*stored, *delta.appended]


class Written:
    """What an epoch did to the lists of a segment: it cleared some, and then appended."""

    def __init__(self) -> None:
        self.appended = ListRuns()
        self.cleared = ClearedKeys()

    def clear(self, numbers: Numbers, size: int) -> None:
        """Clears lists, given by distinct numbers; all numbers are below `size`."""
        self.appended.clear(numbers)
        self.cleared.add(numbers, size)


class ListColumnTable(ColumnTable):
    """Lists by columns, in one segment per namespace.

    The store is `Segments` of `ListRuns`, or RocksDB's `ColumnLists`.
    """

    written: dict[Segment, Written]

    # Reading and writing ----------------------------------------------------------------------------------------------

    def elements(self, keys: Keys) -> Elements:
        """Returns the elements of the distinct keys' lists; their numbers are the positions of the keys."""
        self.join()
        return self._elements(self.parts(keys))

    def has(self, keys: Keys) -> Flags:
        """Returns which of the distinct keys have elements."""
        self.join()
        parts = self.parts(keys)
        flags = np.zeros(sum(len(part.positions) for part in parts), bool)
        for (segment, positions, numbers), stored in zip(parts, self.store.lists_at(parts), strict=True):
            written = self.written.get(segment)
            if written is None:
                flags[positions] = stored
            else:
                flags[positions] = (stored & ~written.cleared.has(numbers)) | written.appended.has(numbers)
        return flags

    def append(self, keys: Keys, codes: Numbers, values: Any, times: Any = None) -> None:
        """Appends values to the lists of distinct keys.

        Args:
            keys: The keys.
            codes: For each value, the position of its key.
            values: The values.
            times: Used only with a time to live (`columns/ttl.py`).
        """
        self.join()
        parts = self.parts(keys)
        if len(parts) == 1:
            [(segment, positions, numbers)] = parts
            of_each = np.empty(len(positions), np.int64)
            of_each[positions] = numbers
            of_values = of_each[codes]
            # Always a copy: otherwise the values would keep the whole batch alive that they came with.
            self._written_in(segment).appended.append(Elements(of_values, values).take(order_of(of_values)))
            return
        of_each, of_parts = by_position(parts)
        for number, rows in by_number(of_parts[codes]):
            elements = Elements(of_each[codes[rows]], values.take(indices(rows)))
            self._written_in(parts[number].segment).appended.append(elements)

    def clear(self, keys: Keys) -> None:
        """Clears the lists of the distinct keys."""
        self.join()
        for part in self.parts(keys):
            self._written_in(part.segment).clear(distinct(part.numbers), self.addressing.size)

    def content(self, entry: Any) -> list[Any] | None:
        return self.stored.read(self._elements([self.addressing.part_of(entry)]).values) or None

    def _elements(self, parts: Sequence[Part]) -> Elements:
        return joined([*self._of_store(parts), *self._of_epoch(parts)] or [self._nothing()])

    def _of_store(self, parts: Sequence[Part]) -> Iterator[Elements]:
        """Yields the stored elements of lists that the epoch did not clear."""
        return self.store.elements([self._not_cleared(part) for part in parts])  # type: ignore[no-any-return]

    def _not_cleared(self, part: Part) -> Part:
        written = self.written.get(part.segment)
        return part if written is None else part.take(np.flatnonzero(~written.cleared.has(part.numbers)))

    def _of_epoch(self, parts: Sequence[Part]) -> Iterator[Elements]:
        for segment, positions, numbers in parts:
            written = self.written.get(segment)
            for elements in () if written is None else written.appended.of(numbers):
                yield Elements(positions[elements.numbers], elements.values)

    def _nothing(self) -> Elements:
        return Elements(np.empty(0, np.int64), self.stored.nulls(0))

    def _written_in(self, segment: Segment) -> Written:
        written = self.written.get(segment)
        if written is None:
            written = self.written[segment] = Written()
        return written

    def write(self, segment: Segment, change: ListChange) -> None:
        written = self._written_in(segment)
        written.clear(change.cleared, self.addressing.size)
        written.appended.append(change.appended)

    # Rows of the log --------------------------------------------------------------------------------------------------

    def rows_of_overlay(self) -> Delta:
        return rows_of(self.overlay, self.stored, lambda _: True)

    def changes(self, delta: Delta) -> Mapping[Segment, ListChange]:
        values, appends = one_array(delta.values).cast(self.stored.arrow), delta.ops == Op.APPEND
        changes = {}
        for segment, positions, numbers in self.addressing.split(delta):
            of_appends = appends[positions]
            appended = Elements(numbers[of_appends], values.take(indices(positions[of_appends])))
            changes[segment] = ListChange(np.unique(numbers[~of_appends]), appended)
        return changes

    def frozen(self, segment: Segment, written: Written) -> ListChange:
        cleared = written.cleared.numbers
        if not self.stored.stamped:  # else the log may have what the store has dropped already
            cleared = cleared[self.store.may_hold(segment, cleared)]
        return ListChange(cleared, joined(written.appended.all() or [self._nothing()]))

    def as_rows(self, changes: Mapping[Segment, ListChange]) -> Delta:
        every = list(changes.values())
        numbers = [numbers for change in every for numbers in change.numbers()]
        values = [v for one in every for v in (self.stored.nulls(len(one.cleared)), one.appended.values)]
        ops = np.repeat(np.array([Op.CLEAR, Op.APPEND] * len(every), np.int8), [len(one) for one in numbers])
        lengths = [len(one.cleared) + len(one.appended.numbers) for one in every]
        return self.numbered_rows(ops, pa.concat_arrays(values), numbers, lengths)

    def numbers(self) -> Iterable[Numbers]:
        yield from self.store.numbers()
        for written in self.written.values():
            yield from written.appended.numbers()
            yield written.cleared.numbers
        for change in self._pending.values():
            yield from change.numbers()

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        super().renumber(new)
        for written in self.written.values():
            written.cleared.renumber(new)
            written.appended.renumber(new)
        self._pending = {segment: change.renumbered(new) for segment, change in self._pending.items()}

    # Time to live -----------------------------------------------------------------------------------------------------

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""
        self.store.keep_elements(lambda elements: unexpired(split_stamps(elements)[1], expired))

    def clean(self, segment: Segment, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self.join()
        count = len(numbers)
        whole = joined([*self._of_store([Part(segment, np.arange(count), numbers)])] or [self._nothing()])
        values, times = split_stamps(whole.values)
        old, unknown = at_most(times, expiry), np.asarray(times.is_null()) & (seen is not None)
        counts = [np.bincount(of_some, minlength=count) for of_some in (whole.numbers[old], whole.numbers)]
        changed = some_of(whole.numbers, unknown, count) | is_worth_it(*counts)
        if changed.any():
            stamped = stamp_each(values, times if seen is None else times.fill_null(seen))
            kept = Elements(whole.numbers, stamped).where(changed[whole.numbers] & ~old)
            into = self._written_in(segment)
            appended = [one.where(changed[one.numbers]) for one in into.appended.of(numbers)]
            into.clear(numbers[changed], self.addressing.size)
            rewritten = joined([kept, *appended])  # what the epoch appended stays last
            into.appended.append(Elements(numbers[rewritten.numbers], rewritten.values))
        return earliest(times, ~(old & changed[whole.numbers]))  # a later round checks again what stays


def rows_of(overlay: Mapping[Any, ListDelta], stored: StoredType, may_hold: Callable[[Any], bool]) -> Delta:
    """Returns the changes of lists by entry as rows.

    A list is cleared in the log only if it `may_hold` something there.
    """
    clear, append = int(Op.CLEAR), int(Op.APPEND)  # NumPy takes three times as long for members of an enumeration
    counts: list[int] = []
    ops: list[int] = []
    values: list[Any] = []
    for entry, delta in overlay.items():
        delta.cleared = delta.cleared and may_hold(entry)
        if delta.cleared:
            ops.append(clear)
            values.append(None)
        ops.extend([append] * len(delta.appended))
        values.extend(delta.appended)
        counts.append(delta.cleared + len(delta.appended))
    array = stored.write(values, entry_of_rows(overlay, counts))
    return Delta(np.array(ops, dtype=np.int8), array, entries=list(overlay), counts=counts)


def some_of(numbers: Numbers, flags: Flags, count: int) -> Flags:
    """Returns which of `count` lists have a flagged element, by the numbers of the elements."""
    flagged = np.zeros(count, bool)
    flagged[numbers[flags]] = True
    return flagged


__all__ = ["ListColumnTable", "ListTable", "Written", "rows_of", "some_of"]
