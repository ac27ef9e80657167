"""Lists over a database."""

from collections.abc import Iterator, Mapping
from typing import Any

from state_engine.backends.rocksdb import bases
from state_engine.backends.rocksdb.bases import PER_CELL, Opened
from state_engine.backends.rocksdb.cells import Cells, inner_prefix, number_bytes, prefix_end
from state_engine.backends.rocksdb.headers import FEW, PER_ROW, PIECE, Header, HeaderedEntries, header_of
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.rocksdb.values import ValueCodec
from state_engine.backends.stores.dicts import ListDelta


class ListsInDatabase(HeaderedEntries):
    """Maps an entry to its list. In a spread list, an epoch appends one or more pieces, and reads no other piece."""

    def __init__(self, opened: Opened, cells: Cells, pieces: ValueCodec) -> None:
        super().__init__(opened, cells)
        self._pieces = pieces
        self._spread_misses = 0
        self._reads_pieces = False
        self._spread: dict[Any, list[Any]] = {}  # read from pieces that only the database has
        self._held_spread = 0
        self._held_ahead = 0

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the elements of an entry, or the default if there are none."""
        elements = self._wholes.get(entry) or self._spread.get(entry)
        if elements is not None:
            return elements
        header = self._headers.get(entry) or self.header(entry)
        if not header.count:
            return default
        if header.body is None:
            self._make_room_for_spread()
            elements = self._spread[entry] = self._elements(entry, header)
            self._held_spread += _size(elements)
        else:
            elements = self._elements(entry, header)
            self._remember(entry, elements, header.body)
        return elements

    def __contains__(self, entry: Any) -> bool:
        return self.header(entry).count > 0

    def __getitem__(self, entry: Any) -> list[Any]:
        elements: list[Any] = self.get(entry, [])
        return elements

    def _elements(self, entry: Any, header: Header) -> list[Any]:
        if header.body is not None:
            return self.piece(header.body) if header.body else []
        self._spread_misses += self._is_miss(entry)
        delta = self.staged.get(entry)
        elements: list[Any] = []
        if header.end and not (delta is not None and delta.cleared):
            prefix = inner_prefix(header.key)
            if header.end <= FEW:
                pieces: list[Any] = self._stored([prefix + number_bytes(n) for n in range(header.end)])
            else:
                pieces = [piece for _, piece in self._opened.store.scan(prefix, prefix_end(prefix))]
            for piece in pieces:
                elements.extend(self._pieces.decode(piece))
        if delta is not None:
            elements.extend(delta.appended)
        return elements

    def piece(self, cell: bytes) -> list[Any]:
        """Returns the elements in a cell."""
        return list(self._pieces.decode(cell))

    def small(self, cell: bytes) -> list[Any]:
        """Returns the elements in the cell of a header."""
        body = header_of(b"", cell).body
        return self.piece(body) if body else []

    def prefetch(self, entries: list[Any]) -> None:
        # What was read ahead is counted only after its batch: if it were dropped earlier, it would be read again.
        self._held_spread += self._held_ahead
        self._held_ahead = 0
        self._make_room_for_spread()
        self._reads_pieces = self._reads_pieces or self._has_many_misses(self._spread_misses * 4)
        self._spread_misses = 0
        super().prefetch(entries)

    def forget_reads(self) -> None:
        super().forget_reads()
        self._forget_spread()

    def _make_room_for_spread(self) -> None:
        if self._held_spread > bases.READ_BYTES:
            self._forget_spread()

    def _forget_spread(self) -> None:
        self._spread, self._held_spread, self._held_ahead = {}, 0, 0

    def _read_many(self, entries: list[Any]) -> None:
        self.read_headers(entries)
        if self._reads_pieces:
            self._read_pieces(entries)

    def _read_pieces(self, entries: list[Any]) -> None:
        """Reads, at once, lists that are spread over few cells."""
        wanted: list[Any] = []
        keys: list[bytes] = []
        counts: list[int] = []
        headers, staged, spread = self._headers, self.staged, self._spread
        for entry in entries:
            header = headers[entry]
            if header.end and header.end <= FEW and entry not in staged and entry not in spread:
                prefix = inner_prefix(header.key)
                wanted.append(entry)
                counts.append(header.end)
                keys.extend(prefix + number_bytes(n) for n in range(header.end))
        pieces: Iterator[Any] = iter(self._stored(keys))
        for entry, count in zip(wanted, counts, strict=True):
            elements = spread[entry] = [e for _ in range(count) for e in self._pieces.decode(next(pieces))]
            self._held_ahead += _size(elements)

    def merge(self, deltas: Mapping[Any, ListDelta]) -> None:
        self.read_headers(deltas)
        for entry, delta in deltas.items():
            header, appended = self._headers[entry], delta.appended
            if delta.cleared or header.body is not None:
                if not delta.cleared and header.body:
                    appended = self._elements(entry, header) + appended
                self._replace(entry, header, appended)
                self._count(header, len(appended))
            else:
                staged = self.staged.get(entry)
                if staged is None:
                    staged = self.staged[entry] = ListDelta()
                staged.appended.extend(appended)
                self._count(header, header.count + len(appended))
            self._wholes.pop(entry, None)
            self._spread.pop(entry, None)

    def _body(self, whole: list[Any]) -> bytes:
        return self._pieces.encode(whole) if whole else b""

    def _delta(self, whole: list[Any]) -> ListDelta:
        return ListDelta(cleared=True, appended=whole)

    def _stage_spread(self, changes: Changes, header: Header, delta: ListDelta | None) -> None:
        prefix = inner_prefix(header.key)
        if delta is None or delta.cleared:
            if header.end > FEW:
                changes.ranges.append((prefix, prefix_end(prefix)))
            else:
                changes.cells.update((prefix + number_bytes(n), None) for n in range(header.end))
            header.end = 0
        appended = delta.appended if delta is not None else []
        for start in range(0, len(appended), PIECE):
            piece = self._pieces.encode(appended[start : start + PIECE])
            changes.cells[prefix + number_bytes(header.end)] = piece
            header.end += 1


def _size(elements: list[Any]) -> int:
    return PER_CELL + PER_ROW * len(elements)


__all__ = ["ListsInDatabase"]
