"""Tables: one state of one key-group range, as a store that stands for a manifest and an overlay of one epoch.

Reads go through the overlay to the store, writes go to the overlay. `freeze` turns the overlay into rows of the log and
keeps it pending. `settle` merges it into the store once the manifest that names those rows is known to be sealed;
`forget` drops it.

A shape (value, list, map, timers) has two tables: one by entry, of Python values, for functions that take record after
record, and one by columns, of Arrow arrays, for functions that take batches. Either can be asked in both ways: with an
entry through `base` and `overlay`, and with the keys of a batch through its methods for columns.
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
"""Entries by columns that a clean-up looks at together."""


class Table(ABC):
    """What the backend asks of every table."""

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
        """Merges what is pending into the store."""

    @abstractmethod
    def forget(self) -> None:
        """Drops the overlay and what is pending."""

    @abstractmethod
    def merge(self, delta: Delta) -> None:
        """Merges rows of the log into the store."""

    @abstractmethod
    def drop_group(self, group: int) -> None:
        """Removes a key group from the store."""


class StampedTable(Protocol):
    """What a time to live asks of the table of a state that has one.

    Attributes:
        oldest: The earliest last access of rows that were merged since a clean-up last began a round; minus infinity if
            one is unknown, infinity without any.
    """

    oldest: float

    def drop_expired(self, expired: Expired) -> None:
        """Removes from the store what was last accessed at a time that has expired. Nothing is logged."""
        ...

    def begin_round(self) -> None:
        """Makes all entries of the store unseen by a clean-up."""
        ...

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """Removes what has expired from the next unseen entries, and writes the time of what has none.

        What the epoch itself wrote stays as it is.

        Args:
            most: How many entries to look at.
            expiry: What was last accessed then, or earlier, has expired.
            seen: The last access of what has none; None leaves it as it is.

        Returns:
            At how many entries it looked, 0 if none is unseen; and the earliest last access that stays.
        """
        ...


class EntryTable(Table):
    """A table by entry.

    Args:
        stored: Of the values.
        base: The store: entry to what it has. It is a dict, or answers like one.

    Attributes:
        stored: As given.
        base: As given.
        overlay: What the epoch did, by entry.
        oldest: As of `StampedTable`.
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
        """Says whether the log may have rows of an entry: what came and went within an epoch needs none to remove it.

        Of a state with a time to live, the log may have what the store has dropped already.
        """
        return self.stored.stamped or self.base.may_hold(entry)

    def begin_round(self) -> None:
        """As of `StampedTable`."""
        self._unseen = list(self.base)
        self._unseen.reverse()

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """As of `StampedTable`."""
        entries = self._unseen[-most:]
        if not entries:
            return 0, math.inf
        del self._unseen[-most:]
        entries.reverse()
        return len(entries), self.clean(entries, expiry, seen)

    @abstractmethod
    def clean(self, entries: list[Any], expiry: float, seen: int | None) -> float:
        """Does to entries what `clean_next` does, and returns the earliest last access that stays."""


class ColumnTable(Table):
    """A table by columns.

    Args:
        stored: Of the values.
        addressing: Where entries lie.
        store: What the log has, by segment.

    Attributes:
        stored: As given.
        addressing: As given.
        store: As given.
        written: What the epoch did, by segment.
        overlay: What the epoch did entry by entry, until somebody asks by columns.
        oldest: As of `StampedTable`.
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
        """What entries have without `overlay`: the store and `written` together."""
        return Contents(self)

    def parts(self, keys: Keys) -> list[Part]:
        """Returns the distinct keys of a batch by segment."""
        return self.addressing.parts(keys)

    @abstractmethod
    def content(self, entry: Any) -> Any:
        """Returns what an entry has without what then is in `overlay`; None if it has nothing."""

    @abstractmethod
    def rows_of_overlay(self) -> Delta:
        """Returns what the epoch did entry by entry, as rows."""

    @abstractmethod
    def changes(self, delta: Delta) -> Mapping[Segment, Any]:
        """Returns what rows do, by segment."""

    @abstractmethod
    def write(self, segment: Segment, change: Any) -> None:
        """Does to a segment, in the overlay, what rows do."""

    @abstractmethod
    def frozen(self, segment: Segment, written: Any) -> Any:
        """Returns what the epoch did to a segment, as the store takes it; without what removes nothing."""

    @abstractmethod
    def as_rows(self, changes: Mapping[Segment, Any]) -> Delta:
        """Returns what is pending as rows of the log."""

    def join(self) -> None:
        """Moves what was done entry by entry into the columns."""
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
        gone = self.addressing.index.keys.groups == group
        self.store.drop_group(group, lambda numbers: ~gone[self.addressing.keys_of(numbers)])

    def numbered_rows(self, ops: Ops, values: Any, numbers: list[Numbers], lengths: list[int], **more: Any) -> Delta:
        """Returns rows of what is pending.

        Args:
            ops: Of the rows.
            values: Of the rows.
            numbers: Of the rows' entries, in parts.
            lengths: How many rows each segment that is pending has.
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
        """As of `StampedTable`."""
        self._unseen = self.store.batches()

    def clean_next(self, most: int, expiry: float, seen: int | None) -> tuple[int, float]:
        """As of `StampedTable`; looks at many entries at once, since a look is laid over all that the epoch wrote."""
        if not self._unseen:
            return 0, math.inf
        segment, numbers = self._unseen.pop()
        most = min(most, max(AT_ONCE, self.count_written(segment)))
        if len(numbers) > most:
            self._unseen.append((segment, numbers[most:]))
        oldest = self.clean(segment, numbers[:most], expiry, seen)
        return max(1, min(most, len(numbers))), oldest

    def count_written(self, segment: Segment) -> int:
        """Returns to how many entries of a segment the epoch did something."""
        return 0

    @abstractmethod
    def clean(self, segment: Segment, numbers: Numbers, expiry: float, seen: int | None) -> float:
        """Does to entries what `clean_next` does, and returns the earliest last access that stays."""


class Contents:
    """What the entries of a table by columns have, to who asks as if it were a dict.

    Args:
        table: The table.
    """

    __slots__ = ("_table",)

    def __init__(self, table: ColumnTable) -> None:
        self._table = table

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns what an entry has."""
        found = self._table.content(entry)
        return default if found is None else found

    def prefetch(self, entries: list[Any]) -> None:
        """Does nothing: everything is at hand."""


__all__ = ["AT_ONCE", "ColumnTable", "Contents", "EntryTable", "Expired", "StampedTable", "Table"]
