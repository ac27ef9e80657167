"""The code that lists and maps share: one cell of each is its header, which holds all of it while it is small.

A small one is read, changed and written as one cell. A larger one is *spread*: its rows are in cells of their own after
the header, so that access to one row does not read or write all of it.
"""

import struct
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from state_engine.backends.rocksdb import bases
from state_engine.backends.rocksdb.bases import PER_CELL, EntriesInDatabase, Opened
from state_engine.backends.rocksdb.cells import Cells
from state_engine.backends.rocksdb.store import Changes

SMALL = 256
"""Most bytes of a list or map that is stored in its header: about what the keys of a few cells take."""

FEW = 32
"""Most cells of one entry that are still read, or deleted, one by one."""

PIECE = 512
"""Most elements in one cell of a list that is spread."""

PER_ROW = 40
"""About how many bytes a row takes in memory: a number in a list."""

_PER_BYTE = 16

_NUMBERS = struct.Struct(">QQ")


class Header(msgspec.Struct, gc=False):
    """What is known of one list or map without reading further cells.

    Attributes:
        key: Its own key.
        count: Its live rows.
        end: The number of its next piece, or next place; 0 if the database has no cells of it but this one.
        body: The bytes of all rows, empty without rows; None if it is spread.
        stored: Whether the database has a cell of it.
    """

    key: bytes
    count: int = 0
    end: int = 0
    body: bytes | None = b""
    stored: bool = False

    def cell(self) -> bytes:
        """Returns the cell to store under its key."""
        if self.body is None:
            return _NUMBERS.pack(self.count, self.end)
        return _NUMBERS.pack(self.count, 0) + self.body


def header_of(key: bytes, cell: bytes | None) -> Header:
    """Returns the header under a key; one without rows if there is no cell."""
    if cell is None:
        return Header(key)
    count, end = _NUMBERS.unpack_from(cell)
    return Header(key, count, end, None if end else cell[16:], True)


class HeaderedEntries(EntriesInDatabase):
    """Maps an entry to many rows, with a header. For small ones None is staged: their header has all rows."""

    reads_ahead_from = 64  # a change needs the header in the end, requested or not

    def __init__(self, opened: Opened, cells: Cells) -> None:
        super().__init__(opened, cells)
        self._headers: dict[Any, Header] = {}
        self._wholes: dict[Any, Any] = {}
        self._held_wholes = 0

    @abstractmethod
    def merge(self, deltas: Mapping[Any, Any]) -> None:
        """Stages changes of lists or maps."""

    @abstractmethod
    def _body(self, whole: Any) -> bytes | None:
        """Returns all rows of a list or map as bytes, empty without rows; None if a header must not hold them."""

    @abstractmethod
    def _delta(self, whole: Any) -> Any:
        """Returns the delta that replaces all rows of a list or map by these."""

    def _replace(self, entry: Any, header: Header, whole: Any) -> None:
        """Stages all rows of a list or map."""
        body = self._body(whole) if len(whole) <= SMALL else None  # a row takes a byte at least
        small = body is not None and len(body) <= SMALL
        header.body = body if small else None
        self.staged[entry] = None if small else self._delta(whole)

    def header(self, entry: Any) -> Header:
        """Returns the header of an entry; one without rows if the entry has none."""
        header = self._headers.get(entry)
        if header is None:
            self._misses += self._is_miss(entry)
            self._make_room()
            self.read_headers([entry])
            header = self._headers[entry]
        return header

    def read_headers(self, entries: Iterable[Any]) -> None:
        """Reads, at once, the headers that are not cached; no entry is given twice."""
        headers = self._headers
        unknown = [entry for entry in entries if entry not in headers]
        keys = self.cells.keys(unknown)
        cells = self._stored(keys)
        self._hold(cells)
        headers.update(zip(unknown, map(header_of, keys, cells), strict=True))

    def _remember(self, entry: Any, whole: Any, body: bytes) -> None:
        """Caches all of a list or map that is stored in its header."""
        if self._held + self._held_wholes > bases.READ_BYTES:
            self._forget_wholes()
        # A row may contain many small objects: the number of bytes accounts for these.
        self._held_wholes += PER_CELL + max(PER_ROW * len(whole), _PER_BYTE * len(body))
        self._wholes[entry] = whole

    def _make_room(self) -> None:
        if self._held + self._held_wholes > bases.READ_BYTES:
            self._forget_wholes()  # to decode them again costs less than to read them again
        super()._make_room()

    def _forget_wholes(self) -> None:
        self._wholes, self._held_wholes = {}, 0

    def _count(self, header: Header, count: int) -> None:
        """Updates the counts with the number of rows that an entry has now."""
        self.rows += count - header.count
        self.live += (count > 0) - (header.count > 0)
        header.count = count

    def forget_reads(self) -> None:
        super().forget_reads()
        self._headers = {entry: h for entry, h in self._headers.items() if entry in self.staged} if self.staged else {}
        self._forget_wholes()

    def _drop(self, group: int, staged: list[Any]) -> None:
        shadowed = {self.cells.key(entry) for entry in staged}
        removed = sum(key not in shadowed for key, _ in self._heads_of(group))
        for entry in staged:
            removed += self._headers[entry].count > 0
            del self.staged[entry]
        self.live -= removed

    def drop_group(self, group: int) -> None:
        self.rows -= self._rows_of(group)
        super().drop_group(group)

    def _rows_of(self, group: int) -> int:
        staged = [entry for entry in self.staged if self.cells.group(entry) == group]
        shadowed = {self.cells.key(entry) for entry in staged}
        stored = (int.from_bytes(v[:8], "big") for k, v in self._heads_of(group) if k not in shadowed)
        return sum(stored) + sum(self._headers[entry].count for entry in staged)

    def abandon(self) -> None:
        super().abandon()
        self._headers = {}

    def _stage_cells(self, changes: Changes) -> None:
        cells = changes.cells
        for entry, delta in self.staged.items():
            header = self._headers[entry]
            if delta is not None or header.end:
                self._stage_spread(changes, header, delta)
            if header.count:
                cells[header.key] = header.cell()
            elif header.stored:
                cells[header.key] = None

    @abstractmethod
    def _stage_spread(self, changes: Changes, header: Header, delta: Any) -> None:
        """Adds the cells after a header. If the header now has all rows (None), removes the cells that exist."""


__all__ = ["FEW", "PER_ROW", "PIECE", "SMALL", "Header", "HeaderedEntries", "header_of"]
