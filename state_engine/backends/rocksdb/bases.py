"""The stores of tables by entry in a database. Tables use them as dicts that also hold writes not in the database yet.

Three layers: what was *read* for the current records; what is *staged*, the sealed changes that the next `write` puts
into the database; and the database. The counts of keys and rows are exact after each change. So a change of an entry
first finds out whether the entry exists: from what the function read before, otherwise from the database.
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
"""About how many bytes of reads are cached for a state; the next read after that drops all of them."""

PER_CELL = 100

KNOWN_AT_MOST = 500_000
"""Most entries for which it is cached, over the batches of an epoch, whether they exist."""


class Opened(Protocol):
    """The owner of an open database, which may open it anew."""

    @property
    def store(self) -> Store: ...


class StateInDatabase(ABC):
    """The part of one state that is in the database.

    Args:
        opened: The owner of the database.
        cells: Keys of the state's cells.

    Attributes:
        cells: As given.
    """

    form = ""
    """The form of its cells, where states of one kind can be stored in several forms."""

    one_cell = False
    """Whether an entry is one cell, and not many after a header."""

    def __init__(self, opened: Opened, cells: Cells) -> None:
        self._opened = opened
        self.cells = cells

    @abstractmethod
    def take(self, found: StateMeta) -> None:
        """Continues with what the database has."""

    @abstractmethod
    def empty(self) -> None:
        """Starts empty, before a load."""

    @abstractmethod
    def write(self, changes: Changes) -> None:
        """Moves the staged changes into a write."""

    def prefetch(self, entries: list[Any]) -> None:
        """Reads, at once, what a batch of records will need; each of its entries is given once."""

    def stage(self, rows: pa.Table) -> None:
        """Called with log rows that the table merged."""

    def freeze(self, rows: pa.Table) -> None:
        """Called with the rows that the table froze."""

    def settle(self) -> None:
        """Called when the table has settled the frozen rows."""

    def forget(self) -> None:
        """Called when the table has forgotten the frozen rows."""


class EntriesInDatabase(StateInDatabase):
    """The store of a table by entry.

    Attributes:
        live: Number of live entries.
        rows: Live rows.
        staged: Changes that are not in the database yet, by entry.
    """

    reads_ahead_from = 4
    """Batches are read ahead once more than one in this many entries of a batch was requested and not cached."""

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
        """Returns that the log may have rows of an entry: a look-up costs more than a row that removes nothing."""
        return True

    def forget_reads(self) -> None:
        """Drops what was read."""
        self._held = 0

    def _make_room(self) -> None:
        """Drops what was read if it is too much."""
        if self._held > READ_BYTES:
            self.forget_reads()

    def _hold(self, cells: Sequence[bytes | None]) -> None:
        """Counts the size of cells that were read."""
        self._held += PER_CELL * len(cells) + sum(map(len, filter(None, cells)))

    @abstractmethod
    def _read_many(self, entries: list[Any]) -> None:
        """Reads what records of these entries will need."""

    @abstractmethod
    def _stage_cells(self, changes: Changes) -> None:
        """Adds the cells of the staged changes to a write."""

    @abstractmethod
    def _drop(self, group: int, staged: list[Any]) -> None:
        """Subtracts all entries of a key group from the count, and removes the staged ones."""

    def prefetch(self, entries: list[Any]) -> None:
        # A state is read ahead once a batch has read many entries one by one: not every record needs every state.
        self._make_room()
        self._reads_ahead = self._reads_ahead or self._has_many_misses(self._misses * self.reads_ahead_from)
        self._misses = 0
        self._batch, self._has_windows = entries, None
        if self._reads_ahead:
            self._read_many(entries)

    def _has_many_misses(self, misses: int) -> bool:
        """Returns whether there were more misses than entries in the batch in which they happened."""
        return 0 < len(self._batch) < misses

    def _is_miss(self, entry: Any) -> bool:
        """Returns whether an uncached entry could have been read ahead: batches of plain keys name no windows."""
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
        """Drops the staged changes, because the database is to be read anew."""
        self.staged = {}
        self._reset = set()
        self.forget_reads()

    def _stored(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Reads cells; None for those of key groups that were reset since the last write."""
        cells = self._opened.store.get_many(keys)
        if self._reset:
            return [None if group_of(key) in self._reset else value for key, value in zip(keys, cells, strict=True)]
        return cells

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yields all entries with their content, those of the database first. Changes staged meanwhile are not seen."""
        staged = list(self.staged)
        for group in range(self.cells.max_parallelism):
            for key, _ in self._heads_of(group):
                entry = self.cells.entry(key)[0]
                if entry not in self.staged and (content := self.get(entry)) is not None:
                    yield entry, content
        for entry in staged:
            if (content := self.get(entry)) is not None:
                yield entry, content

    @abstractmethod
    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the content of an entry, or the default if it has none."""

    @property
    def resets(self) -> set[int]:
        """Key groups that were reset: what the database has of them does not count any more."""
        return self._reset

    def raw(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the cells of the database from one key up to another, without the staged changes."""
        return self._opened.store.scan(begin, end)

    def _heads_of(self, group: int) -> Iterable[tuple[bytes, bytes]]:
        if group not in self._reset:
            yield from self._opened.store.scan(*head_range(self.cells.number, group))


class ValuesInDatabase(EntriesInDatabase):
    """Maps an entry to its value; None means no value."""

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
        staged, read, exists, decode = self.staged, self._read, self._known, self._values.decode
        if staged:
            for entry in entries:
                if entry in staged:
                    read[entry] = staged[entry]
        unread = [entry for entry in entries if entry not in read]
        cells = self._stored(self.cells.keys(unread))
        self._hold(cells)
        for entry, value in zip(unread, cells, strict=True):
            read[entry] = None if value is None else decode(value)
            exists[entry] = value is not None

    def merge(self, values: "Mapping[Any, Any] | Iterable[tuple[Any, Any]]", removed: Iterable[Any] = ()) -> None:
        """Stages values; None, which the removed entries have, is a delete."""
        changes = dict(values)
        self.live += sum(value is not None for value in changes.values()) - self._present(list(changes))
        self.rows = self.live
        self.staged.update(changes)
        self._known = {}
        self.forget_reads()

    def value(self, cell: bytes) -> Any:
        """Returns the value in a cell."""
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
        removed = sum(key not in shadowed for key, _ in self._heads_of(group))
        for entry in staged:
            removed += self.staged.pop(entry) is not None
        self.live -= removed
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
