"""Tables: one state of one key-group range, as a store that reflects a manifest and an overlay of one epoch.

Reads go through the overlay to the store, writes go to the overlay. `freeze` turns the overlay into rows of the log and
keeps it pending. `settle` merges it into the store once the manifest that names those rows is known to be sealed;
`forget` drops it.

A shape (value, list, map, timers) has two tables. The table by entry has Python values, for functions that take record
after record. The table by columns has Arrow arrays, for functions that take batches. Both can be accessed in both ways:
with an entry through `base` and `overlay`, and with the keys of a batch through the methods for columns. Timers have
neither: `TimerTable` says how they are accessed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from state_engine.api.keys import Keys, Numbers
from state_engine.backends.ascending import distinct
from state_engine.backends.delta import Delta, Ops
from state_engine.backends.entry_index import Addressing, Part, Segment
from state_engine.backends.stored_type import StoredType

Expired = Callable[[int | None], bool]

AT_ONCE = 100_000
"""Entries by columns that a clean-up checks together."""


class Table(ABC):
    """The methods of every table, which the backend calls."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Live rows of the store, as the log would have them."""

    @property
    @abstractmethod
    def keys(self) -> int:
        """Entries of the store."""

    @abstractmethod
    def freeze(self) -> Delta | None:
        """Returns the overlay as rows of the log, keeps it pending, and starts an empty one; None if nothing changed.

        Raises:
            StateValueError: A value is not of the state's type.
        """

    @abstractmethod
    def settle(self) -> None:
        """Merges the pending changes into the store."""

    @abstractmethod
    def forget(self) -> None:
        """Drops the overlay and the pending changes."""

    @abstractmethod
    def merge(self, delta: Delta) -> None:
        """Merges rows of the log into the store."""

    @abstractmethod
    def drop_group(self, group: int) -> None:
        """Removes a key group from the store."""


class StampedTable(Protocol):
    """The methods of a table of a state with a time to live.

    Attributes:
        oldest: The earliest last access of rows that were loaded or logged since a clean-up last began a round; minus
            infinity if one is unknown, infinity without any.
    """

    oldest: float

    def drop_expired(self, expired: Expired) -> None:
        """Removes from the store what was last accessed at a time that has expired. Nothing is logged."""
        ...

    def begin_round(self) -> None:
        """Marks all entries of the store as not checked by a clean-up."""
        ...

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """Checks the next entries: removes expired values, and sets the last access of values that have none.

        What the epoch itself wrote stays as it is.

        Args:
            most: How many entries to check.
            expiry: What was last accessed then, or earlier, has expired.
            seen: The last access to set; None leaves values without one as they are.

        Returns:
            How many entries it checked, 0 if all were checked before; and the earliest last access that stays.
        """
        ...


class EntryTable(Table):
    """A table by entry.

    Args:
        stored: Of the values.
        base: The store: maps an entry to its content. It is a dict, or can be used like one.

    Attributes:
        stored: As given.
        base: As given.
        overlay: Changes of the epoch, by entry.
        oldest: See `StampedTable`.
    """

    def __init__(self, stored: StoredType, base: Any) -> None:
        self.stored = stored
        self.base = base
        self.overlay: dict[Any, Any] = {}
        self.oldest = math.inf
        self._pending: Any = None
        self._unseen: list[Any] = []

    @property
    def rows(self) -> int:
        rows: int = self.base.rows
        return rows

    @property
    def keys(self) -> int:
        return len(self.base)

    def forget(self) -> None:
        self.overlay, self._pending = {}, None

    def drop_group(self, group: int) -> None:
        self.base.drop_group(group)

    def _may_hold(self, entry: Any) -> bool:
        """Returns whether the log may have rows of an entry. What came and went within an epoch needs no removing row.

        For a state with a time to live, the log may have what the store has already dropped.
        """
        return self.stored.stamped or self.base.may_hold(entry)

    def begin_round(self) -> None:
        """See `StampedTable`."""
        self._unseen = list(self.base)
        self._unseen.reverse()

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """See `StampedTable`."""
        entries = self._unseen[-most:]
        if not entries:
            return 0, math.inf
        del self._unseen[-most:]
        entries.reverse()
        return len(entries), self.clean(entries, expiry, seen)

    @abstractmethod
    def clean(self, entries: list[Any], expiry: float, seen: int | None) -> float:
        """Does to entries what `clean_next` does, and returns the earliest last access that stays."""


class CollectionTable(EntryTable):
    """A table by entry that has several values for an entry.

    A clean-up may come by an entry many times before one of its values expires. So the table remembers, for each entry
    that was checked, the earliest last access of its values.
    """

    def __init__(self, stored: StoredType, base: Any) -> None:
        super().__init__(stored, base)
        self._oldest_of: dict[Any, float] = {}

    def forget(self) -> None:
        super().forget()
        self._oldest_of.clear()  # the clean-up's own changes are dropped too

    def clean(self, entries: list[Any], expiry: float, seen: int | None) -> float:
        oldest_of, oldest = self._oldest_of, math.inf
        for entry in entries:
            known = oldest_of.get(entry)
            if known is None or known <= expiry:
                known = oldest_of[entry] = self.clean_entry(entry, expiry, seen)
            if known < oldest:
                oldest = known
        return oldest

    @abstractmethod
    def clean_entry(self, entry: Any, expiry: float, seen: int | None) -> float:
        """Does to an entry what `clean_next` does, and returns the earliest last access that stays."""

    def _merge_deltas(self, deltas: Mapping[Any, Any]) -> None:
        """Merges changes by entry into the store."""
        oldest_of = self._oldest_of
        for entry in oldest_of.keys() & deltas.keys():
            known, delta = oldest_of[entry], deltas[entry]
            times = [stamped[1] for stamped in self.values_in(delta)]
            if None in times or delta.cleared:
                del oldest_of[entry]
            else:
                oldest_of[entry] = min([known, *times])
        self.base.merge(deltas)

    @abstractmethod
    def values_in(self, delta: Any) -> list[Any]:
        """Returns the values that a change of an entry adds."""


class ColumnTable(Table):
    """A table by columns.

    Args:
        stored: Of the values.
        addressing: Numbers the entries.
        store: What the log has, by segment.

    Attributes:
        stored: As given.
        addressing: As given.
        store: As given.
        written: Changes of the epoch, by segment.
        overlay: Changes that the epoch made entry by entry, until the next access by columns.
        oldest: See `StampedTable`.
    """

    def __init__(self, stored: StoredType, addressing: Addressing, store: Any) -> None:
        self.stored = stored
        self.addressing = addressing
        self.store = store
        self.written: dict[Segment, Any] = {}
        self.overlay: dict[Any, Any] = {}
        self.oldest = math.inf
        self._pending: dict[Segment, Any] = {}
        self._unseen: list[tuple[Segment, Numbers]] = []

    @property
    def rows(self) -> int:
        rows: int = self.store.rows
        return rows

    @property
    def keys(self) -> int:
        keys: int = self.store.keys
        return keys

    @property
    def base(self) -> "Contents":
        """The content of entries without `overlay`: the store and `written` together."""
        return Contents(self)

    def parts(self, keys: Keys) -> list[Part]:
        """Returns the distinct keys of a batch by segment."""
        return self.addressing.parts(keys)

    @abstractmethod
    def content(self, entry: Any) -> Any:
        """Returns the content of an entry without what is then still in `overlay`; None if it has none."""

    @abstractmethod
    def rows_of_overlay(self) -> Delta:
        """Returns the changes that the epoch made entry by entry, as rows."""

    @abstractmethod
    def changes(self, delta: Delta) -> Mapping[Segment, Any]:
        """Returns the changes that rows make, by segment."""

    @abstractmethod
    def write(self, segment: Segment, change: Any) -> None:
        """Applies changes to a segment, in the overlay."""

    @abstractmethod
    def frozen(self, segment: Segment, written: Any) -> Any:
        """Returns the epoch's changes of a segment, as the store takes them, without those that remove nothing."""

    @abstractmethod
    def as_rows(self, changes: Mapping[Segment, Any]) -> Delta:
        """Returns the pending changes as rows of the log."""

    def join(self) -> None:
        """Moves the changes that were made entry by entry into the columns."""
        if self.overlay:
            rows = self.rows_of_overlay()
            self.overlay.clear()  # the same dict: states hold it
            for segment, change in self.changes(rows).items():
                self.write(segment, change)

    def freeze(self) -> Delta | None:
        self.join()
        if not self.written:
            return None
        written, self.written = self.written, {}
        frozen = {segment: self.frozen(segment, of_segment) for segment, of_segment in written.items()}
        self._pending = {segment: change for segment, change in frozen.items() if not change.is_empty}
        return self.as_rows(self._pending) if self._pending else None

    def settle(self) -> None:
        pending, self._pending = self._pending, {}
        if pending:
            self.store.change(pending)

    def forget(self) -> None:
        self.overlay, self.written, self._pending = {}, {}, {}

    def merge(self, delta: Delta) -> None:
        self.store.change(self.changes(delta))

    def drop_group(self, group: int) -> None:
        in_group = self.addressing.index.keys.groups == group
        self.store.drop_group(group, lambda numbers: ~in_group[self.addressing.keys_of(numbers)])

    def numbered_rows(self, ops: Ops, values: Any, numbers: list[Numbers], lengths: list[int], **more: Any) -> Delta:
        """Returns rows of the pending changes.

        Args:
            ops: Of the rows.
            values: Of the rows.
            numbers: Of the rows' entries, in parts.
            lengths: How many rows each pending segment has.
            more: Further columns of the rows.
        """
        every = np.concatenate(numbers)
        names = self.addressing.names(list(self._pending), lengths, every)
        return Delta(ops, values, numbers=self.addressing.keys_of(every), namespaces=names, **more)

    # Renumbering ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def numbers(self) -> Iterable[Numbers]:
        """Returns all numbers of entries that the table holds, in parts, some several times."""

    def renumber(self, new: Callable[[Numbers], Numbers]) -> None:
        """Gives entries other numbers, in the same order."""
        self.store.renumber(new)
        self._unseen = [(segment, distinct(new(numbers))) for segment, numbers in self._unseen]

    # Time to live -----------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """See `StampedTable`."""
        self._unseen = self.store.batches()

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """See `StampedTable`. Checks many entries at once, since each check goes through all that the epoch wrote."""
        if not self._unseen:
            return 0, math.inf
        segment, numbers = self._unseen.pop()
        most = min(most, max(AT_ONCE, self.count_written(segment)))
        if len(numbers) > most:
            self._unseen.append((segment, numbers[most:]))
        oldest = self.clean(segment, numbers[:most], expiry, seen)
        return max(1, min(most, len(numbers))), oldest

    def count_written(self, segment: Segment) -> int:
        """Returns how many entries of a segment the epoch changed."""
        return 0

    @abstractmethod
    def clean(self, segment: Segment, numbers: Numbers, expiry: float, seen: int | None) -> float:
        """Does to entries what `clean_next` does, and returns the earliest last access that stays."""


class Contents:
    """The content of the entries of a table by columns, which readers use like a dict.

    Args:
        table: The table.
    """

    __slots__ = ("_table",)

    def __init__(self, table: ColumnTable) -> None:
        self._table = table

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the content of an entry."""
        content = self._table.content(entry)
        return default if content is None else content

    def prefetch(self, entries: list[Any]) -> None:
        """Does nothing: `get` reads what it needs."""


__all__ = ["AT_ONCE", "CollectionTable", "ColumnTable", "Contents", "EntryTable", "Expired", "StampedTable", "Table"]
