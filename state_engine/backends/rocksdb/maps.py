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
    """One map that is spread, read only as far as it is requested. Readers use it as a dict."""

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
        value = self._base.find(self._entry, user_key)
        return default if value is MISSING else value

    def spelling(self, user_key: Any) -> Any:
        """Returns a user key as the map spells it; as given if the map does not have it."""
        return self._base.spelling_in_spread(self._entry, user_key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns all entries, in the order in which they were put."""
        return self.copy().items()


class MapsInDatabase(HeaderedEntries):
    """Maps an entry to its map. A spread map is sorted by user key; each cell has the place of its entry by put order.

    Args:
        opened: The owner of the database.
        cells: Keys of the state's cells.
        user_keys: Codec of user keys in keys of cells.
        values: Codec of values in cells. If user keys have several spellings: of pairs of a user key, as it is spelled,
            and its value.
        small: Codec of whole maps in headers. None if user keys have several spellings, because each cell has its own.
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
        """Returns the map of an entry, only for reading, or the default if it is empty."""
        content = self._wholes.get(entry)
        if content is not None:
            return content
        header = self._headers.get(entry) or self.header(entry)
        if not header.count:
            return default
        if header.body is None:
            return MapView(self, entry, header)
        content = self._decoded(header.body)
        self._remember(entry, content, header.body)
        return content

    def _decoded(self, body: bytes) -> dict[Any, Any]:
        return self._small.decode(body) if body and self._small is not None else {}

    def small(self, cell: bytes) -> dict[Any, Any]:
        """Returns the entries in the cell of a header."""
        return self._decoded(header_of(b"", cell).body or b"")

    def find(self, entry: Any, user_key: Any) -> Any:
        """Returns the value under a user key of a map that is spread, `MISSING` if there is no such value."""
        delta = self.staged.get(entry)
        if delta is not None:
            value = delta.entries.get(user_key, MISSING)
            if value is not MISSING or delta.cleared:
                return MISSING if value is DELETED else value
        read = self._read.setdefault(entry, {})
        if user_key not in read:
            self._make_room()
            self.header(entry)  # this may have dropped `read` to make room
            self._read_pairs([(entry, user_key)])
            read = self._read.get(entry, {})
        return read.get(user_key, MISSING)

    def _read_pairs(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Reads, at once, entries of maps that are spread and have cached headers."""
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
            decoded = MISSING if value is None else self._values.decode(value[8:])
            if self._spells and value is not None:
                user_key, decoded = decoded
            self._read.setdefault(entry, {})[user_key] = decoded

    def spelling(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key as the map of an entry spells it; as given if the map does not have it."""
        content = self.get(entry)
        return user_key if content is None else content.spelling(user_key)

    def spelling_in_spread(self, entry: Any, user_key: Any) -> Any:
        """Does the same as `spelling`, for a map that is spread."""
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
            prefix, cells = inner_prefix(header.key), []
            decode_key, decode, start = self._user_keys.decode, self._values.decode, len(prefix)
            for key, value in self._opened.store.scan(prefix, prefix_end(prefix)):
                cells.append((value[:8], decode_key(key, start)[0], value))
            cells.sort(key=_place)
            if self._spells:
                content = dict(decode(value[8:]) for _, _, value in cells)
            else:
                content = {user_key: decode(value[8:]) for _, user_key, value in cells}
        if delta is not None:
            _put_all(content, delta.entries)
        return content

    def row(self, key: bytes, rest: int, cell: bytes) -> tuple[Any, Any]:
        """Returns user key and value of a cell; in its key, `rest` is the offset after the map's own key."""
        decoded = self._values.decode(cell[8:])
        return decoded if self._spells else (self._user_keys.decode(key, rest)[0], decoded)

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
        """Stages entries of a map that is spread; returns by how many entries the map grew."""
        delta = self.staged.get(entry)
        if delta is None:
            delta = self.staged[entry] = MapDelta()
        staged, more = delta.entries, 0
        for user_key, value in entries.items():
            more += (value is not DELETED) - (self.find(entry, user_key) is not MISSING)
            staged.pop(user_key, None)
            if value is not DELETED or not delta.cleared:
                staged[user_key] = value  # after all others of its map
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
        """Stages the removal of all entries. Few are deleted one by one: many range deletes would slow all reads."""
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
    """Puts written entries after the existing ones."""
    for user_key, value in entries.items():
        content.pop(user_key, None)
        if value is not DELETED:
            content[user_key] = value


__all__ = ["MapView", "MapsInDatabase"]
