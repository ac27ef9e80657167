"""The stores of tables by entry in a database: to their tables they are dicts, with writes that the database lacks yet.

Three layers: what was *read*, for the records at hand; what is *staged*, the sealed changes that the next `write` puts
into the database; and the database. The counts of keys and rows are exact after each change. So a change of an entry
first finds out whether it is there: from what the function read before, otherwise from the database.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from state_engine.backends.keys import Namespaced
from state_engine.backends.rocksdb.cells import Cells, group_of, head_range
from state_engine.backends.rocksdb.store import Changes, StateMeta, Store
from state_engine.backends.rocksdb.values import ValueCodec
from state_engine.backends.stores.dicts import MISSING

READ_BYTES = 16 << 20
"""How much of a state is remembered as read, about; with the next read after that all of it is dropped."""

PER_CELL = 100

KNOWN_AT_MOST = 500_000
"""Entries of which it is remembered, over the batches of an epoch, whether they are there."""


class Opened(Protocol):
    """Whoever holds the database open, and may open it anew."""

    @property
    def store(self) -> Store: ...


class StateInDatabase(ABC):
    """What of one state lies in the database.

    Args:
        opened: Whoever holds the database.
        cells: Keys of the state's cells.

    Attributes:
        cells: As given.
    """

    form = ""
    """How it lies in cells, where states of one kind may lie in several forms."""

    one_cell = False
    """Whether an entry is one cell, and not many after a header."""

    def __init__(self, opened: Opened, cells: Cells) -> None:
        self._opened = opened
        self.cells = cells

    @abstractmethod
    def take(self, found: StateMeta) -> None:
        """Goes on with what the database has."""

    @abstractmethod
    def empty(self) -> None:
        """Begins anew: a load comes."""

    @abstractmethod
    def write(self, changes: Changes) -> None:
        """Moves what is staged into a write."""

    def prefetch(self, entries: list[Any]) -> None:
        """Reads at once what a batch of records, of which each entry is given once, will ask for."""

    def stage(self, rows: pa.Table) -> None:
        """Is told of rows of the log that the table merged."""

    def freeze(self, rows: pa.Table) -> None:
        """Is told of the rows that the table froze."""

    def settle(self) -> None:
        """Is told that the table settled them."""

    def forget(self) -> None:
        """Is told that the table forgot them."""


class EntriesInDatabase(StateInDatabase):
    """The store of a table by entry.

    Attributes:
        live: Number of live entries.
        rows: Live rows.
        staged: Changes that are not in the database yet, by entry.
    """

    reads_ahead_from = 4
    """Batches are read ahead once one in this many of a batch's entries was asked for and not known."""

    def __init__(self, opened: Opened, cells: Cells) -> None:
        super().__init__(opened, cells)
        self.live = 0
        self.rows = 0
        self.staged: dict[Any, Any] = {}
        self._reset: set[int] = set()
        self._held = 0
        self._misses = 0
        self._batch: list[Any] = []
        self._has_windows: bool | None = None
        self._reads_ahead = False

    def __len__(self) -> int:
        return self.live

    def take(self, found: StateMeta) -> None:
        self.abandon()
        self.live, self.rows = found.keys, found.rows

    def empty(self) -> None:
        self.abandon()
        self.live = self.rows = 0

    def may_hold(self, entry: Any) -> bool:
        """Says that the log may have rows of an entry: to look costs more than a row that removes nothing."""
        return True

    def forget_reads(self) -> None:
        """Drops what was read."""
        self._held = 0

    def _make_room(self) -> None:
        """Drops what was read if it is much."""
        if self._held > READ_BYTES:
            self.forget_reads()

    def _hold(self, cells: Sequence[bytes | None]) -> None:
        """Takes cells that were read into account."""
        self._held += PER_CELL * len(cells) + sum(map(len, filter(None, cells)))

    @abstractmethod
    def _read_many(self, entries: list[Any]) -> None:
        """Reads what records of these entries will ask for."""

    @abstractmethod
    def _stage_cells(self, changes: Changes) -> None:
        """Adds what is staged."""

    @abstractmethod
    def _drop(self, group: int, staged: list[Any]) -> None:
        """Takes all entries of a key group out of the count, and the staged ones away."""

    def prefetch(self, entries: list[Any]) -> None:
        # A state is read ahead once a batch has asked for many entries one by one: not every record needs every state.
        self._make_room()
        self._reads_ahead = self._reads_ahead or self._were_many(self._misses * self.reads_ahead_from)
        self._misses = 0
        self._batch, self._has_windows = entries, None
        if self._reads_ahead:
            self._read_many(entries)

    def _were_many(self, misses: int) -> bool:
        """Says whether there were so many misses as the batch in which they happened has entries."""
        return 0 < len(self._batch) < misses

    def _is_miss(self, entry: Any) -> bool:
        """Says whether an entry that is not known could have been read ahead: batches of plain keys name no windows."""
        if type(entry) is not Namespaced:
            return True
        if self._has_windows is None:
            self._has_windows = Namespaced in set(map(type, self._batch))
        return self._has_windows

    def write(self, changes: Changes) -> None:
        changes.ranges.extend(self.cells.groups(group, group) for group in sorted(self._reset))
        self._stage_cells(changes)
        self.staged = {}
        self._reset = set()
        self.forget_reads()

    def drop_group(self, group: int) -> None:
        """Removes all entries of a key group."""
        self._drop(group, [entry for entry in self.staged if self.cells.group(entry) == group])
        self._reset.add(group)
        self.forget_reads()

    def abandon(self) -> None:
        """Drops what is staged: the database is to be read anew."""
        self.staged = {}
        self._reset = set()
        self.forget_reads()

    def _stored(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Reads cells, of key groups that were not reset since the last write."""
        found = self._opened.store.get_many(keys)
        if self._reset:
            return [None if group_of(key) in self._reset else value for key, value in zip(keys, found, strict=True)]
        return found

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yields all entries with their content, those of the database first; what is staged on the way is not seen."""
        staged = list(self.staged)
        for group in range(self.cells.max_parallelism):
            for key, _ in self._heads_of(group):
                entry = self.cells.entry(key)[0]
                if entry not in self.staged and (found := self.get(entry)) is not None:
                    yield entry, found
        for entry in staged:
            if (found := self.get(entry)) is not None:
                yield entry, found

    @abstractmethod
    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns what an entry has, or the default where it has nothing."""

    @property
    def resets(self) -> set[int]:
        """Key groups of which nothing that the database has counts any more."""
        return self._reset

    def raw(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the cells of the database from one key up to another, whatever is staged."""
        return self._opened.store.scan(begin, end)

    def _heads_of(self, group: int) -> Iterable[tuple[bytes, bytes]]:
        if group not in self._reset:
            yield from self._opened.store.scan(*head_range(self.cells.number, group))


class ValuesInDatabase(EntriesInDatabase):
    """Entry to value; None stands for no value."""

    one_cell = True

    def __init__(self, opened: Opened, cells: Cells, values: ValueCodec) -> None:
        super().__init__(opened, cells)
        self._values = values
        self._read: dict[Any, Any] = {}
        self._known: dict[Any, bool] = {}

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the value of an entry."""
        value = self._read.get(entry, MISSING)
        if value is MISSING:
            self._misses += self._is_miss(entry)
            self._make_room()
            self._read_many([entry])
            value = self._read[entry]
        return default if value is None else value

    def forget_reads(self) -> None:
        super().forget_reads()
        self._read = {}

    def _read_many(self, entries: list[Any]) -> None:
        if len(self._known) > KNOWN_AT_MOST:
            self._known = {}
        staged, read, known, decode = self.staged, self._read, self._known, self._values.decode
        if staged:
            for entry in entries:
                if entry in staged:
                    read[entry] = staged[entry]
        unread = [entry for entry in entries if entry not in read]
        found = self._stored(self.cells.keys(unread))
        self._hold(found)
        for entry, value in zip(unread, found, strict=True):
            read[entry] = None if value is None else decode(value)
            known[entry] = value is not None

    def merge(self, values: "Mapping[Any, Any] | Iterable[tuple[Any, Any]]", removed: Iterable[Any] = ()) -> None:
        """Stages values; None, which the removed entries have, is a delete."""
        changes = dict(values)
        self.live += sum(value is not None for value in changes.values()) - self._present(list(changes))
        self.rows = self.live
        self.staged.update(changes)
        self._known = {}
        self.forget_reads()

    def value(self, cell: bytes) -> Any:
        """Returns the value that a cell has."""
        return self._values.decode(cell)

    def _present(self, entries: list[Any]) -> int:
        """Returns how many of the entries have a value now."""
        count, unknown = 0, []
        for entry in entries:
            if entry in self.staged:
                count += self.staged[entry] is not None
            elif entry in self._known:
                count += self._known[entry]
            else:
                unknown.append(entry)
        return count + sum(value is not None for value in self._stored(self.cells.keys(unknown)))

    def _drop(self, group: int, staged: list[Any]) -> None:
        shadowed = {self.cells.key(entry) for entry in staged}
        gone = sum(key not in shadowed for key, _ in self._heads_of(group))
        for entry in staged:
            gone += self.staged.pop(entry) is not None
        self.live -= gone
        self.rows = self.live
        self._known = {}

    def _stage_cells(self, changes: Changes) -> None:
        encode = self._values.encode
        keys = self.cells.keys(list(self.staged))
        for key, value in zip(keys, self.staged.values(), strict=True):
            changes.cells[key] = None if value is None else encode(value)

    def abandon(self) -> None:
        super().abandon()
        self._known = {}


__all__ = ["PER_CELL", "EntriesInDatabase", "Opened", "StateInDatabase", "ValuesInDatabase"]
