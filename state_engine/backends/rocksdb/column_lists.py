"""Lists by columns in a database: they are accessed for many keys at once, and no element is a Python object.

They are stored as other lists are (`headers.py`): in one cell while they are small, in pieces once they have grown.
`list_cells.py` describes the content of a cell. Changes of an epoch are staged as the cells that the next `write` puts;
until then reads see the staged cells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np

from state_engine.api.keys import Numbers
from state_engine.backends.ascending import Flags, distinct, positions_of
from state_engine.backends.batch_keys import namespaced_keys
from state_engine.backends.entry_index import ByNamespace, Part, Segment
from state_engine.backends.rocksdb import bases, headers
from state_engine.backends.rocksdb.bases import PER_CELL, Opened, StateInDatabase
from state_engine.backends.rocksdb.cells import (
    Cells,
    group_of,
    head_range,
    inner_prefix,
    is_head,
    number_bytes,
    prefix_end,
)
from state_engine.backends.rocksdb.headers import Header
from state_engine.backends.rocksdb.list_cells import HEAD, ListCells, numbers_of
from state_engine.backends.rocksdb.store import Changes, StateMeta
from state_engine.backends.stores.list_runs import Elements, ListChange, joined
from state_engine.key_groups import KeyGroupRange

AT_ONCE = 50_000
"""How many keys, or pieces, are read and put together at once."""


class Asked(NamedTuple):
    """The lists that are accessed.

    Attributes:
        namespaces: All namespaces.
        spaces: For each list, the number of its namespace.
        numbers: For each list, the number of its key.
    """

    namespaces: Sequence[str | None]
    spaces: Numbers
    numbers: Numbers

    @classmethod
    def of(cls, parts: Sequence[tuple[str | None, Numbers]]) -> "Asked":
        """Returns the lists of some keys in each namespace, one namespace after the other."""
        lengths = [len(numbers) for _, numbers in parts]
        numbers = np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in parts)])
        return cls([namespace for namespace, _ in parts], np.repeat(np.arange(len(parts)), lengths), numbers)

    def parts(self) -> "Iterator[Asked]":
        """Yields them in parts that are read at once."""
        for start in range(0, len(self.numbers), AT_ONCE):
            end = start + AT_ONCE
            yield Asked(self.namespaces, self.spaces[start:end], self.numbers[start:end])


class ColumnLists(StateInDatabase):
    """The store of a table of lists by columns.

    Args:
        opened: The owner of the database.
        cells: Keys of the state's cells.
        addressing: Numbers the operator's keys. No number is needed longer than until the next `write`.
        elements: Encodes and decodes the content of cells.

    Attributes:
        rows: Live elements.
        staged: Cells to put into the database, by key; None is a delete.
    """

    form = "columns"

    def __init__(self, opened: Opened, cells: Cells, addressing: ByNamespace, elements: ListCells) -> None:
        super().__init__(opened, cells)
        self.rows = 0
        self.staged: dict[bytes, bytes | None] = {}
        self._live = 0
        self._addressing = addressing
        self._numbers = addressing.index.keys
        self._elements = elements
        self._ranges: list[tuple[bytes, bytes]] = []
        self._reset: set[int] = set()
        self._read: dict[bytes, bytes | None] = {}  # headers
        self._held = 0

    def take(self, found: StateMeta) -> None:
        self.abandon()
        self._live, self.rows = found.keys, found.rows

    def empty(self) -> None:
        self.abandon()
        self._live = self.rows = 0

    @property
    def keys(self) -> int:
        """How many lists have elements."""
        return self._live

    def numbers(self) -> tuple[Numbers, ...]:
        """Returns no numbers: cells contain keys instead."""
        return ()

    def renumber(self, new: Any) -> None:
        """Does nothing: cells contain keys instead of numbers."""

    def may_hold(self, segment: Segment, numbers: Numbers) -> Flags:
        """Returns that the log may have rows of every list: a look-up costs more than a row that removes nothing."""
        return np.ones(len(numbers), bool)

    # Reading ----------------------------------------------------------------------------------------------------------

    def lists_at(self, parts: Sequence[Part]) -> Iterator[Flags]:
        """Returns, for each part, which of its entries' lists have elements."""
        headers = [self._headers(self._keys(some)) for some in _asked(parts).parts()]
        exist = np.concatenate([np.zeros(0, bool), *map(_are_there, headers)])
        ends = np.cumsum([0, *(len(part.numbers) for part in parts)])
        return (exist[start:end] for start, end in pairwise(ends.tolist()))

    def elements(self, parts: Sequence[Part]) -> Iterator[Elements]:
        """Yields the elements of lists; their numbers are the `positions` of the parts."""
        positions = np.concatenate([np.empty(0, np.int64), *(part.positions for part in parts)])
        for elements in self._of(_asked(parts)):
            yield Elements(positions[elements.numbers], elements.values)

    def _of(self, asked: Asked) -> Iterator[Elements]:
        """Yields the elements of lists; their numbers are the positions of the lists."""
        before = 0
        for part in asked.parts():
            keys = self._keys(part)
            cells = self._headers(keys)
            positions = np.flatnonzero(_are_there(cells))
            existing = list(filter(None, cells))
            small = np.fromiter(map(len, existing), np.int64, len(existing)) > HEAD
            yield self._decoded(positions[small] + before, list(compress(existing, small)))
            spread = positions[~small]
            if len(spread):
                ends = _numbers_in(list(compress(existing, ~small)))[:, 1]
                yield from self._of_pieces(spread + before, [keys[n] for n in spread.tolist()], ends)
            before += len(keys)

    def _decoded(self, numbers: Numbers, cells: Sequence[bytes]) -> Elements:
        """Returns the elements of cells; those of a cell get the number at its position in `numbers`."""
        counts, values = self._elements.elements(cells)
        return Elements(np.repeat(numbers, counts), values)

    def _of_pieces(self, numbers: Numbers, keys: Sequence[bytes], ends: Numbers) -> Iterator[Elements]:
        """Yields the elements of lists that are spread, many pieces at once."""
        whole = np.cumsum(ends) // AT_ONCE
        for part in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(whole)) + 1):
            wanted = [piece for n in part.tolist() for piece in _pieces_of(keys[n], 0, int(ends[n]))]
            yield self._decoded(np.repeat(numbers[part], ends[part]), self._pieces(wanted))

    def _keys(self, asked: Asked) -> list[bytes]:
        """Returns the keys of headers."""
        groups, columns = self._numbers.groups[asked.numbers], self._numbers.columns(asked.numbers)
        return self.cells.keys_of(groups, columns, asked.namespaces, asked.spaces)

    def _headers(self, keys: list[bytes]) -> list[bytes | None]:
        """Returns headers; those that are not cached are read at once."""
        if self._held > bases.READ_BYTES:
            self.forget_reads()
        cached, staged = self._read, self.staged
        missing = [key for key in keys if key not in cached and key not in staged]
        if missing:
            cells = self._in_database(missing)
            cached.update(zip(missing, cells, strict=True))
            self._held += PER_CELL * len(cells) + sum(map(len, filter(None, cells)))
        return [staged[key] if key in staged else cached[key] for key in keys]

    def _in_database(self, keys: list[bytes]) -> list[bytes | None]:
        cells = self._opened.store.get_many(keys)
        if self._reset:
            return [None if group_of(key) in self._reset else cell for key, cell in zip(keys, cells, strict=True)]
        return cells

    def _pieces(self, keys: list[bytes]) -> list[bytes]:
        """Returns pieces; all of them exist, staged or in the database."""
        staged = self.staged
        cells: Iterator[Any] = iter(self._in_database([key for key in keys if key not in staged]))
        return [staged[key] or b"" if key in staged else next(cells) for key in keys]

    # Cell by cell -----------------------------------------------------------------------------------------------------

    def cells_from(
        self, key_groups: KeyGroupRange, cursor: bytes, size: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Returns the next cells of the database that have elements, and where to continue after them.

        Args:
            key_groups: Of the state in this database.
            cursor: Where to begin; empty is the first cell.
            size: After how many elements to stop.

        Returns:
            Keys and cells; and the key of the next cell, empty after the last one.
        """
        begin, end = self.cells.groups(*key_groups)
        cells: list[tuple[bytes, bytes]] = []
        for key, cell in self._opened.store.scan(max(begin, cursor), end):
            if size <= 0:
                return cells, key
            if len(cell) > HEAD and group_of(key) not in self._reset:
                cells.append((key, cell))
                size -= int.from_bytes(cell[:8], "big")
        return cells, b""

    def entries_with(self, cells: list[tuple[bytes, bytes]], wanted: Callable[[Any], Flags]) -> list[Any]:
        """Returns the entries of the cells with a wanted element; `wanted` flags elements by their values."""
        counts, values = self._elements.elements([cell for _, cell in cells])
        of_cells = np.repeat(np.arange(len(cells)), counts)[wanted(values)]
        return list(dict.fromkeys(self.cells.entry(cells[n][0])[0] for n in np.unique(of_cells).tolist()))

    def parts_with(self, entries: list[Any]) -> list[Part]:
        """Returns entries, each given once, by their numbers."""
        return self._addressing.parts(namespaced_keys(entries, self._numbers.codec.write)) if entries else []

    def keep_elements(self, kept: Callable[[Any], Flags]) -> None:
        """Keeps the elements that `kept` flags."""
        every, cursor = KeyGroupRange(0, self._numbers.codec.max_parallelism - 1), b""
        while True:
            cells, cursor = self.cells_from(every, cursor, AT_ONCE)
            for segment, _, numbers in self.parts_with(self.entries_with(cells, lambda values: ~kept(values))):
                wanted = [Part(segment, np.arange(len(numbers)), numbers)]
                whole = joined([*self.elements(wanted)] or [self._decoded(np.empty(0, np.int64), [])])
                is_kept = kept(whole.values)
                # False for a list that an earlier piece has changed already.
                changed = np.bincount(whole.numbers[~is_kept], minlength=len(numbers)) > 0
                rewritten = whole.where(is_kept & changed[whole.numbers])
                change = ListChange(numbers[changed], Elements(numbers[rewritten.numbers], rewritten.values))
                self.change({segment: change})
            if not cursor:
                return

    def forget_reads(self) -> None:
        """Drops what was read."""
        self._read, self._held = {}, 0

    # Changing ---------------------------------------------------------------------------------------------------------

    def change(self, changes: Mapping[Segment, ListChange]) -> None:
        """Stages changes of lists: some are cleared, and then some are appended to."""
        size, every = len(self._numbers), list(changes.values())
        cleared = np.concatenate([one.cleared + n * size for n, one in enumerate(every)])
        added = joined([Elements(one.appended.numbers + n * size, one.appended.values) for n, one in enumerate(every)])
        touched = np.union1d(cleared, distinct(added.numbers))
        for part in Asked(list(changes), touched // size, touched % size).parts():
            numbers, touched = touched[: len(part.numbers)], touched[len(part.numbers) :]
            first, end = np.searchsorted(added.numbers, [numbers[0], numbers[-1] + 1])
            emptied = cleared[slice(*np.searchsorted(cleared, [numbers[0], numbers[-1] + 1]))]
            positions = np.searchsorted(numbers, added.numbers[first:end])
            appended = Elements(positions, added.values.slice(first, end - first))
            self._change(part, positions_of(numbers, emptied) >= 0, appended)

    def _change(self, asked: Asked, cleared: Flags, added: Elements) -> None:
        """Does the same as `change`, for some lists; the numbers in `added` are the positions of the lists."""
        keys = self._keys(asked)
        cells = self._headers(keys)
        exist, (before, ends) = _are_there(cells), _numbers_in([cell or bytes(HEAD) for cell in cells]).T
        counts = np.where(cleared, 0, before) + np.bincount(added.numbers, minlength=len(keys))
        is_rewritten = cleared | (ends == 0)
        kept = np.flatnonzero(is_rewritten & exist & ~cleared)
        whole = joined([self._decoded(kept, [cells[n] or b"" for n in kept.tolist()]), added])
        small = self._stage_small(keys, np.where(is_rewritten, counts, 0), whole)
        for n in np.flatnonzero(is_rewritten & (ends > 0)).tolist():
            self._stage_clear(keys[n], int(ends[n]))
        self._stage_pieces(keys, counts, np.where(is_rewritten, 0, ends), whole.where(~small[whole.numbers]))
        for n in np.flatnonzero(exist & (counts == 0)).tolist():
            self.staged[keys[n]] = None
        self._live += int((counts > 0).sum()) - int(exist.sum())
        self.rows += int(counts.sum() - before.sum())

    def _stage_small(self, keys: list[bytes], counts: Numbers, whole: Elements) -> Flags:
        """Stages those lists that have room in a header; returns which they are.

        Args:
            keys: Of the headers.
            counts: How many elements each list has; 0 if it must not be stored in a header, whatever it has.
            whole: The elements of all lists, each with the position of its list.
        """
        small = (counts > 0) & (counts <= headers.SMALL)  # an element takes a byte at least
        positions = np.flatnonzero(small)
        cells = self._elements.cells(whole.where(small[whole.numbers]).values, counts[positions])
        for n, cell in zip(positions.tolist(), cells, strict=True):
            if len(cell) <= HEAD + headers.SMALL:
                self.staged[keys[n]] = cell
            else:
                small[n] = False
        return small

    def _stage_pieces(self, keys: list[bytes], counts: Numbers, ends: Numbers, added: Elements) -> None:
        """Stages elements as further pieces of their lists, and the headers of these.

        Args:
            keys: Of the headers.
            counts: How many elements each list has, with the added ones.
            ends: The numbers of the next pieces.
            added: In the order of their lists' positions.
        """
        sizes = np.bincount(added.numbers, minlength=1)
        positions = np.flatnonzero(sizes)
        pieces = -(-sizes[positions] // headers.PIECE)
        of_each = np.full(int(pieces.sum()), headers.PIECE)
        of_each[np.cumsum(pieces) - 1] = sizes[positions] - (pieces - 1) * headers.PIECE  # the last one has the rest
        cells = iter(self._elements.cells(added.values, of_each))
        for n, many in zip(positions.tolist(), pieces.tolist(), strict=True):
            key, first = keys[n], int(ends[n])
            self.staged.update(zip(_pieces_of(key, first, first + many), cells, strict=False))
            self.staged[key] = Header(key, int(counts[n]), first + many, None).cell()

    def _stage_clear(self, key: bytes, end: int) -> None:
        """Stages the removal of the pieces of a list."""
        if end <= headers.FEW:
            self.staged.update(dict.fromkeys(_pieces_of(key, 0, end)))
            return
        prefix = inner_prefix(key)
        self._ranges.append((prefix, prefix_end(prefix)))
        for piece in _pieces_of(key, 0, end):
            self.staged.pop(piece, None)  # ranges are deleted before cells are put

    def write(self, changes: Changes) -> None:
        changes.ranges.extend(self.cells.groups(group, group) for group in sorted(self._reset))
        changes.ranges.extend(self._ranges)
        changes.cells.update(self.staged)
        self.abandon()

    def abandon(self) -> None:
        """Drops the staged cells, because the database is to be read anew."""
        self.staged, self._ranges, self._reset = {}, [], set()
        self.forget_reads()

    # Key groups -------------------------------------------------------------------------------------------------------

    def drop_group(self, group: int, kept: Any) -> None:
        """Removes all lists of a key group.

        Args:
            group: The key group.
            kept: Not used here.
        """
        staged_keys = [key for key in self.staged if group_of(key) == group]
        cells: dict[bytes, bytes | None] = {}
        if group not in self._reset:
            cells.update(self._opened.store.scan(*head_range(self.cells.number, group)))
        cells.update((key, self.staged[key]) for key in staged_keys if is_head(key))
        removed = list(filter(None, cells.values()))
        for key in staged_keys:
            del self.staged[key]
        self._reset.add(group)
        self._live -= len(removed)
        self.rows -= int(_numbers_in(removed)[:, 0].sum())
        self.forget_reads()


def _asked(parts: Sequence[Part]) -> Asked:
    return Asked.of([(part.segment, part.numbers) for part in parts])


def _are_there(cells: Sequence[bytes | None]) -> Flags:
    return np.fromiter((cell is not None for cell in cells), bool, len(cells))


def _numbers_in(cells: Sequence[bytes]) -> Numbers:
    """Returns count and end of each header."""
    data = b"".join([cell[:HEAD] for cell in cells])
    return numbers_of(np.frombuffer(data, np.uint8).reshape(-1, HEAD))


def _pieces_of(key: bytes, first: int, end: int) -> list[bytes]:
    """Returns the keys of pieces, given the key of their header."""
    prefix = inner_prefix(key)
    return [prefix + number_bytes(n) for n in range(first, end)]


__all__ = ["AT_ONCE", "Asked", "ColumnLists"]
