"""Maps over a database."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from state_engine.backends.rocksdb.bases import Opened
from state_engine.backends.rocksdb.cells import Cells, inner_prefix, number_bytes, prefix_end
from state_engine.backends.rocksdb.headers import FEW, Header, HeaderedEntries, header_of
from state_engine.backends.rocksdb.ordered import MISFIT, OrderedCodec
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.rocksdb.values import ValueCodec
from state_engine.backends.stores.dicts import DELETED, MISSING, MapDelta
from state_engine.serialization.equality import spelling_in


class MapView:
    """One map that is spread, as far as it is asked for: a dict to who reads it."""

    __slots__ = ("_base", "_entry", "_header")

    def __init__(self, base: "MapsInDatabase", entry: Any, header: Header) -> None:
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

    def spelling(self, user_key: Any) -> Any:
        """Returns a user key as the map spells it; as it is given where the map does not have it."""
        return self._base.spelling_in_spread(self._entry, user_key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns all entries, in the order in which they were put."""
        return self.copy().items()


class MapsInDatabase(HeaderedEntries):
    """Entry to map. One that is spread lies in the order of its user keys, which know their place among the puts.

    Args:
        opened: Whoever holds the database.
        cells: The state's.
        user_keys: User keys in keys of cells.
        values: Values in cells, or pairs: user keys of several spellings as they are spelled, and their values.
        small: Whole maps in headers; None where user keys have several spellings, of which each cell has its own.
    """

    def __init__(
        self, opened: Opened, cells: Cells, user_keys: OrderedCodec, values: ValueCodec, small: ValueCodec | None
    ) -> None:
        super().__init__(opened, cells)
        self._user_keys = user_keys
        self._values = values
        self._small = small
        self._spells = small is None
        self._read: dict[Any, dict[Any, Any]] = {}

    def get(self, entry: Any, default: Any = None) -> Any:
        """Returns the map of an entry, to be read only, or the default where it is empty."""
        found = self._wholes.get(entry)
        if found is not None:
            return found
        header = self._headers.get(entry) or self.header(entry)
        if not header.count:
            return default
        if header.body is None:
            return MapView(self, entry, header)
        found = self._decoded(header.body)
        self._remember(entry, found, header.body)
        return found

    def _decoded(self, body: bytes) -> dict[Any, Any]:
        return self._small.decode(body) if body and self._small is not None else {}

    def small(self, cell: bytes) -> dict[Any, Any]:
        """Returns the entries that lie in the cell of a header."""
        return self._decoded(header_of(b"", cell).body or b"")

    def find(self, entry: Any, user_key: Any) -> Any:
        """Returns the value under a user key of a map that is spread, `MISSING` where there is none."""
        delta = self.staged.get(entry)
        if delta is not None:
            found = delta.entries.get(user_key, MISSING)
            if found is not MISSING or delta.cleared:
                return MISSING if found is DELETED else found
        read = self._read.setdefault(entry, {})
        if user_key not in read:
            self._make_room()
            self.header(entry)  # which may have made room of it
            self._read_pairs([(entry, user_key)])
            read = self._read.get(entry, {})
        return read.get(user_key, MISSING)

    def _read_pairs(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Reads entries at once, of maps that are spread and whose headers are known."""
        wanted: list[tuple[Any, Any]] = []
        keys: list[bytes] = []
        for entry, user_key in pairs:
            delta, header = self.staged.get(entry), self._headers[entry]
            if (delta is not None and delta.cleared) or user_key in self._read.get(entry, ()):
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
            if self._spells and value is not None:
                user_key, found = found
            self._read.setdefault(entry, {})[user_key] = found

    def spelling(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key as the map of an entry spells it; as it is given if the map does not have it."""
        found = self.get(entry)
        return user_key if found is None else found.spelling(user_key)

    def spelling_in_spread(self, entry: Any, user_key: Any) -> Any:
        """As `spelling`, of a map that is spread."""
        if self.find(entry, user_key) is MISSING:
            return user_key
        delta = self.staged.get(entry)
        if delta is not None and user_key in delta.entries:
            return spelling_in(delta.entries, user_key)
        return spelling_in(self._read[entry], user_key)

    def content(self, entry: Any, header: Header) -> dict[Any, Any]:
        """Returns all of a map that is spread, in the order in which its entries were put."""
        delta = self.staged.get(entry)
        content: dict[Any, Any] = {}
        if header.end and not (delta is not None and delta.cleared):
            prefix, found = inner_prefix(header.key), []
            decode_key, decode, start = self._user_keys.decode, self._values.decode, len(prefix)
            for key, value in self._opened.store.scan(prefix, prefix_end(prefix)):
                found.append((value[:8], decode_key(key, start)[0], value))
            found.sort(key=_place)
            if self._spells:
                content = dict(decode(value[8:]) for _, _, value in found)
            else:
                content = {user_key: decode(value[8:]) for _, user_key, value in found}
        if delta is not None:
            _put_all(content, delta.entries)
        return content

    def row(self, key: bytes, rest: int, cell: bytes) -> tuple[Any, Any]:
        """Returns user key and value of a cell; `rest` is where its key goes on behind the map's own."""
        found = self._values.decode(cell[8:])
        return found if self._spells else (self._user_keys.decode(key, rest)[0], found)

    def merge(self, deltas: Mapping[Any, MapDelta]) -> None:
        self.read_headers(deltas)
        headers = self._headers
        spread = [entry for entry, d in deltas.items() if headers[entry].body is None and not d.cleared]
        self._read_pairs((entry, user_key) for entry in spread for user_key in deltas[entry].entries)
        for entry, delta in deltas.items():
            header = headers[entry]
            if delta.cleared or header.body is not None:
                whole = {} if delta.cleared else self._decoded(header.body or b"")
                _put_all(whole, delta.entries)
                self._replace(entry, header, whole)
                self._count(header, len(whole))
            else:
                self._count(header, header.count + self._put_spread(entry, delta.entries))
            self._wholes.pop(entry, None)

    def _put_spread(self, entry: Any, entries: dict[Any, Any]) -> int:
        """Stages entries of a map that is spread; returns how many more there are."""
        delta = self.staged.get(entry)
        if delta is None:
            delta = self.staged[entry] = MapDelta()
        staged, more = delta.entries, 0
        for user_key, value in entries.items():
            more += (value is not DELETED) - (self.find(entry, user_key) is not MISSING)
            staged.pop(user_key, None)
            if value is not DELETED or not delta.cleared:
                staged[user_key] = value  # behind all others of its map
        return more

    def _body(self, whole: dict[Any, Any]) -> bytes | None:
        if not whole:
            return b""
        return self._small.encode(whole) if self._small is not None else None

    def _delta(self, whole: dict[Any, Any]) -> MapDelta:
        return MapDelta(cleared=True, entries=whole)

    def forget_reads(self) -> None:
        super().forget_reads()
        self._read = {}

    def _read_many(self, entries: list[Any]) -> None:
        self.read_headers(entries)

    def _stage_spread(self, changes: Changes, header: Header, delta: MapDelta | None) -> None:
        prefix = inner_prefix(header.key)
        if header.end and (delta is None or delta.cleared):
            self._stage_clear(changes, prefix)
            header.end = 0
        for user_key, value in delta.entries.items() if delta is not None else ():
            key = prefix + self._user_keys.encode(user_key)
            if value is DELETED:
                changes.cells[key] = None
            else:
                stored = (user_key, value) if self._spells else value
                changes.cells[key] = number_bytes(header.end) + self._values.encode(stored)
                header.end += 1

    def _stage_clear(self, changes: Changes, prefix: bytes) -> None:
        """Many range deletes would slow all reads; few entries are deleted one by one."""
        keys = []
        for key, _ in self._opened.store.scan(prefix, prefix_end(prefix)):
            keys.append(key)
            if len(keys) > FEW:
                changes.ranges.append((prefix, prefix_end(prefix)))
                return
        changes.cells.update(dict.fromkeys(keys))


def _place(found: tuple[bytes, Any, bytes]) -> bytes:
    return found[0]


def _put_all(content: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """Puts what is written behind what is there."""
    for user_key, value in entries.items():
        content.pop(user_key, None)
        if value is not DELETED:
            content[user_key] = value


__all__ = ["MapView", "MapsInDatabase"]
