"""Lists and maps over a database."""

from collections.abc import Iterable, Iterator
from typing import Any

from state_engine.backends.rocksdb.bases import Base, Header, HeaderedBase, Opened
from state_engine.backends.rocksdb.cells import Cells, inner_prefix, number_bytes, prefix_end
from state_engine.backends.rocksdb.ordered import MISFIT, OrderedCodec
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.rocksdb.values import ValueCodec
from state_engine.backends.tables import DELETED, MISSING, ListDelta, MapDelta

_PIECE = 512
_FEW = 32


class ListBase(HeaderedBase):
    """Entry to list. What an epoch appends is one piece, or several: appending reads the header alone."""

    def __init__(self, opened: Opened, cells: Cells, pieces: ValueCodec) -> None:
        super().__init__(opened, cells)
        self._pieces = pieces
        self._read: dict[Any, list[Any]] = {}

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the elements of an entry, or the default where there are none."""
        found = self._read.get(entry)
        if found is None:
            header = self.header(entry)
            if not header.count:
                return default
            self._make_room()
            found = self._read[entry] = self._elements(entry, header)
        return found if found else default

    def __contains__(self, entry: Any) -> bool:
        return self.header(entry).count > 0

    def __getitem__(self, entry: Any) -> list[Any]:
        elements: list[Any] = self.get(entry, [])
        return elements

    def _elements(self, entry: Any, header: Header) -> list[Any]:
        delta = self.staged.get(entry)
        elements: list[Any] = []
        if header.stored and not (delta is not None and delta.cleared):
            prefix = inner_prefix(header.key)
            if header.end <= _FEW:
                pieces: list[Any] = self._stored([prefix + number_bytes(n) for n in range(header.end)])
            else:
                pieces = [piece for _, piece in self._opened.store.scan(prefix, prefix_end(prefix))]
            self._hold(pieces)
            for piece in pieces:
                elements.extend(self._pieces.decode(piece))
        if delta is not None:
            elements.extend(delta.appended)
        return elements

    def piece(self, cell: bytes) -> list[Any]:
        """Returns the elements that a cell has."""
        return list(self._pieces.decode(cell))

    def _read_many(self, entries: list[Any]) -> None:
        self.read_headers(entries)
        wanted: list[Any] = []
        keys: list[bytes] = []
        counts: list[int] = []
        for entry in entries:
            header = self._headers[entry]
            if header.stored and header.end <= _FEW and entry not in self.staged and entry not in self._read:
                prefix = inner_prefix(header.key)
                wanted.append(entry)
                counts.append(header.end)
                keys.extend(prefix + number_bytes(n) for n in range(header.end))
        pieces = self._stored(keys)
        self._hold(pieces)
        found: Iterator[Any] = iter(pieces)
        for entry, count in zip(wanted, counts, strict=True):
            self._read[entry] = [e for _ in range(count) for e in self._pieces.decode(next(found))]

    def extend(self, entry: Any, appended: list[Any]) -> None:
        """Stages elements behind those that are there."""
        header = self.header(entry)
        self._delta(entry).appended.extend(appended)
        self.count(entry, header, len(appended))
        self._read.pop(entry, None)

    def remove(self, entry: Any) -> int:
        """Stages the end of a list; returns how many elements it had."""
        header = self.header(entry)
        before = header.count
        delta = self._delta(entry)
        delta.cleared, delta.appended = True, []
        self.count(entry, header, -before)
        self._read.pop(entry, None)
        return before

    def _delta(self, entry: Any) -> ListDelta:
        delta = self.staged.get(entry)
        if delta is None:
            delta = self.staged[entry] = ListDelta()
        return delta

    def forget_reads(self) -> None:
        super().forget_reads()
        self._read = {}

    def _stage_cells(self, changes: Changes) -> None:
        for entry, delta in self.staged.items():
            header = self._headers[entry]
            prefix = inner_prefix(header.key)
            if delta.cleared:
                if header.end > _FEW:
                    changes.ranges.append((prefix, prefix_end(prefix)))
                else:
                    changes.cells.update((prefix + number_bytes(n), None) for n in range(header.end))
                header.end = 0
            for start in range(0, len(delta.appended), _PIECE):
                piece = self._pieces.encode(delta.appended[start : start + _PIECE])
                changes.cells[prefix + number_bytes(header.end)] = piece
                header.end += 1
            self._stage_header(changes, header)


class MapView:
    """One map, as far as it is asked for: a dict to who reads it."""

    __slots__ = ("_base", "_entry", "_header")

    def __init__(self, base: "MapBase", entry: Any, header: Header) -> None:
        self._base = base
        self._entry = entry
        self._header = header

    def __len__(self) -> int:
        return self._header.count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.copy())

    def copy(self) -> dict[Any, Any]:
        """Returns all of it as a dict of its own."""
        return self._base.content(self._entry, self._header)

    def get(self, user_key: Any, default: Any = None) -> Any:
        """Returns the value under a user key."""
        found = self._base.find(self._entry, user_key)
        return default if found is MISSING else found

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns all entries, in the order in which they were put."""
        return self.copy().items()


class MapBase(HeaderedBase):
    """Entry to map. A map's entries lie in the order of their user keys, and know their place in the order of puts."""

    def __init__(self, opened: Opened, cells: Cells, user_keys: OrderedCodec, values: ValueCodec) -> None:
        super().__init__(opened, cells)
        self._user_keys = user_keys
        self._values = values
        self._read: dict[Any, dict[Any, Any]] = {}

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns a view of the map of an entry, or the default where it is empty."""
        header = self.header(entry)
        return MapView(self, entry, header) if header.count else default

    def find(self, entry: Any, user_key: Any) -> Any:
        """Returns the value under a user key, `MISSING` where there is none."""
        delta = self.staged.get(entry)
        if delta is not None:
            found = delta.entries.get(user_key, MISSING)
            if found is not MISSING or delta.cleared:
                return MISSING if found is DELETED else found
        if not self.header(entry).stored:
            return MISSING
        read = self._read.setdefault(entry, {})
        if user_key not in read:
            self.read_entries([(entry, user_key)])
            read = self._read.get(entry, {})
        return read.get(user_key, MISSING)

    def read_entries(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Reads entries of maps at once, of maps that the database has."""
        self._make_room()
        wanted: list[tuple[Any, Any]] = []
        keys: list[bytes] = []
        for entry, user_key in pairs:
            delta, header = self.staged.get(entry), self.header(entry)
            if not header.stored or (delta is not None and delta.cleared) or user_key in self._read.get(entry, ()):
                continue
            try:
                keys.append(inner_prefix(header.key) + self._user_keys.encode(user_key))
            except MISFIT:
                self._read.setdefault(entry, {})[user_key] = MISSING
            else:
                wanted.append((entry, user_key))
        cells = self._stored(keys)
        self._hold(cells)
        for (entry, user_key), value in zip(wanted, cells, strict=True):
            found = MISSING if value is None else self._values.decode(value[8:])
            self._read.setdefault(entry, {})[user_key] = found

    def content(self, entry: Any, header: Header) -> dict[Any, Any]:
        """Returns all of a map, in the order in which its entries were put."""
        delta = self.staged.get(entry)
        found = []
        if header.stored and not (delta is not None and delta.cleared):
            prefix = inner_prefix(header.key)
            decode_key, decode, start = self._user_keys.decode, self._values.decode, len(prefix)
            for key, value in self._opened.store.scan(prefix, prefix_end(prefix)):
                found.append((value[:8], decode_key(key, start)[0], value))
            found.sort(key=_place)
            content = {user_key: decode(value[8:]) for _, user_key, value in found}
        else:
            content = {}
        if delta is not None:
            for user_key, value in delta.entries.items():
                content.pop(user_key, None)
                if value is not DELETED:
                    content[user_key] = value
        return content

    def row(self, key: bytes, rest: int, cell: bytes) -> tuple[Any, Any]:
        """Returns user key and value of a cell; `rest` is where its key goes on behind the map's own."""
        return self._user_keys.decode(key, rest)[0], self._values.decode(cell[8:])

    def put(self, entry: Any, user_key: Any, value: Any) -> int:
        """Stages an entry behind all others of its map, or its end (`DELETED`); returns how many more there are."""
        more = (value is not DELETED) - (self.find(entry, user_key) is not MISSING)
        header = self.header(entry)  # behind `find`, which may make room and so forget it
        delta = self._delta(entry)
        delta.entries.pop(user_key, None)
        if value is not DELETED or (header.stored and not delta.cleared):
            delta.entries[user_key] = value
        self.count(entry, header, more)
        return more

    def remove(self, entry: Any) -> int:
        """Stages the end of a map; returns how many entries it had."""
        header = self.header(entry)
        before = header.count
        delta = self._delta(entry)
        delta.cleared, delta.entries = True, {}
        self.count(entry, header, -before)
        return before

    def _delta(self, entry: Any) -> MapDelta:
        delta = self.staged.get(entry)
        if delta is None:
            delta = self.staged[entry] = MapDelta()
        return delta

    def forget_reads(self) -> None:
        super().forget_reads()
        self._read = {}

    def _read_many(self, entries: list[Any]) -> None:
        self.read_headers(entries)

    def _stage_cells(self, changes: Changes) -> None:
        for entry, delta in self.staged.items():
            header = self._headers[entry]
            prefix = inner_prefix(header.key)
            if delta.cleared and header.stored:
                self._stage_clear(changes, prefix)
            for user_key, value in delta.entries.items():
                key = prefix + self._user_keys.encode(user_key)
                if value is DELETED:
                    changes.cells[key] = None
                else:
                    changes.cells[key] = number_bytes(header.end) + self._values.encode(value)
                    header.end += 1
            self._stage_header(changes, header)

    def _stage_clear(self, changes: Changes, prefix: bytes) -> None:
        """Many range deletes would slow all reads; few entries are deleted one by one."""
        keys = []
        for key, _ in self._opened.store.scan(prefix, prefix_end(prefix)):
            keys.append(key)
            if len(keys) > _FEW:
                changes.ranges.append((prefix, prefix_end(prefix)))
                return
        changes.cells.update(dict.fromkeys(keys))


def _place(found: tuple[bytes, Any, bytes]) -> bytes:
    return found[0]


__all__ = ["Base", "ListBase", "MapBase", "MapView"]
