"""What lists and maps have in common: a cell of each is its header, and all of it as long as it is small.

A small one is read, changed and written as one cell. A larger one is *spread*: its rows lie in cells of their own
behind the header, so that nobody reads or writes all of it for the sake of one row.
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
"""Bytes that a list or map takes at most to lie in its header: about what the keys of a few cells take."""

FEW = 32
"""Cells of one entry that are still read, or deleted, one by one."""

PIECE = 512
"""Elements of a list that is spread in one cell at most."""

PER_ROW = 40
"""Bytes that a row takes in memory, about: a number in a list."""

_PER_BYTE = 16

_NUMBERS = struct.Struct(">QQ")


class Header(msgspec.Struct, gc=False):
    """What is known of one list or map without reading further cells.

    Attributes:
        key: Its own key.
        count: Its live rows.
        end: The number of its next piece, or place; 0 if the database has no cells of it but this one.
        body: All of it, empty without rows; None if it is spread.
        stored: Whether the database has a cell of it.
    """

    key: bytes
    count: int = 0
    end: int = 0
    body: bytes | None = b""
    stored: bool = False

    def cell(self) -> bytes:
        """Returns what the database is to have under its key."""
        if self.body is None:
            return _NUMBERS.pack(self.count, self.end)
        return _NUMBERS.pack(self.count, 0) + self.body


def header_of(key: bytes, cell: bytes | None) -> Header:
    """Returns the header under a key; one without rows where there is no cell."""
    if cell is None:
        return Header(key)
    count, end = _NUMBERS.unpack_from(cell)
    return Header(key, count, end, None if end else cell[16:], True)


class HeaderedEntries(EntriesInDatabase):
    """Entry to many rows, with a header. Staged of small ones is None: their header has all of it."""

    reads_ahead_from = 64  # what is changed needs its header in the end, asked for or not

    def __init__(self, opened: Opened, cells: Cells) -> None:
        super().__init__(opened, cells)
        self._headers: dict[Any, Header] = {}
        self._wholes: dict[Any, Any] = {}
        self._held_wholes = 0

    @abstractmethod
    def merge(self, deltas: Mapping[Any, Any]) -> None:
        """Stages what was done to lists or maps."""

    @abstractmethod
    def _body(self, whole: Any) -> bytes | None:
        """Returns all rows of a list or map as bytes, none for none; None if they may not lie in a header."""

    @abstractmethod
    def _delta(self, whole: Any) -> Any:
        """Returns what makes these all rows of a list or map."""

    def _replace(self, entry: Any, header: Header, whole: Any) -> None:
        """Stages all rows of a list or map."""
        body = self._body(whole) if len(whole) <= SMALL else None  # a row takes a byte at least
        small = body is not None and len(body) <= SMALL
        header.body = body if small else None
        self.staged[entry] = None if small else self._delta(whole)

    def header(self, entry: Any) -> Header:
        """Returns the header of an entry, of one without rows where there is none."""
        found = self._headers.get(entry)
        if found is None:
            self._misses += self._is_miss(entry)
            self._make_room()
            self.read_headers([entry])
            found = self._headers[entry]
        return found

    def read_headers(self, entries: Iterable[Any]) -> None:
        """Reads headers at once, of those that are not known; no entry comes twice."""
        headers = self._headers
        unknown = [entry for entry in entries if entry not in headers]
        keys = self.cells.keys(unknown)
        found = self._stored(keys)
        self._hold(found)
        headers.update(zip(unknown, map(header_of, keys, found), strict=True))

    def _remember(self, entry: Any, whole: Any, body: bytes) -> None:
        """Keeps all of a list or map that lies in its header for who asks again."""
        if self._held + self._held_wholes > bases.READ_BYTES:
            self._forget_wholes()
        # A row may have many small objects in it: the bytes tell of those.
        self._held_wholes += PER_CELL + max(PER_ROW * len(whole), _PER_BYTE * len(body))
        self._wholes[entry] = whole

    def _make_room(self) -> None:
        if self._held + self._held_wholes > bases.READ_BYTES:
            self._forget_wholes()  # to decode them again costs less than to read them again
        super()._make_room()

    def _forget_wholes(self) -> None:
        self._wholes, self._held_wholes = {}, 0

    def _count(self, header: Header, count: int) -> None:
        """Takes the rows that an entry has now into the counts."""
        self.rows += count - header.count
        self.live += (count > 0) - (header.count > 0)
        header.count = count

    def forget_reads(self) -> None:
        super().forget_reads()
        self._headers = {entry: h for entry, h in self._headers.items() if entry in self.staged} if self.staged else {}
        self._forget_wholes()

    def _drop(self, group: int, staged: list[Any]) -> None:
        shadowed = {self.cells.key(entry) for entry in staged}
        gone = sum(key not in shadowed for key, _ in self._heads_of(group))
        for entry in staged:
            gone += self._headers[entry].count > 0
            del self.staged[entry]
        self.live -= gone

    def drop_group(self, group: int) -> None:
        self.rows -= self._rows_of(group)
        super().drop_group(group)

    def _rows_of(self, group: int) -> int:
        own = [entry for entry in self.staged if self.cells.group(entry) == group]
        shadowed = {self.cells.key(entry) for entry in own}
        stored = (int.from_bytes(v[:8], "big") for k, v in self._heads_of(group) if k not in shadowed)
        return sum(stored) + sum(self._headers[entry].count for entry in own)

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
        """Adds the cells behind a header; those that are there go if all of it lies in the header now (None)."""


__all__ = ["FEW", "PER_ROW", "PIECE", "SMALL", "Header", "HeaderedEntries", "header_of"]
