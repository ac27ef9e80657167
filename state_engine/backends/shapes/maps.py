"""The table of maps by entry, and the types of user keys."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from state_engine.api.keys import Keys, Numbers, indices, latest_of
from state_engine.api.types import TypeInformation
from state_engine.backends.ascending import Flags
from state_engine.backends.delta import Delta, entry_of_rows
from state_engine.backends.entry_index import Segment
from state_engine.backends.shapes.table import CollectionTable, Expired
from state_engine.backends.stored_type import StoredType, written
from state_engine.backends.stores.dicts import DELETED, MISSING, MapDelta
from state_engine.log.ops import Op
from state_engine.serialization.convert import key_reader, writer
from state_engine.serialization.equality import spells
from state_engine.serialization.finished import finished_key_type, is_immutable
from state_engine.serialization.mutability import key_conformer


class UserKeys:
    """The type of the user keys of a state.

    Args:
        user_key: As the author declared it.

    Attributes:
        info: As given.
        conform: Converts a user key to one that finds its entry.
        finished: The class of the user keys that need no `conform`, such as str for strings; None if there is none.
        spells: Returns whether keys equal to such a user key may have other spellings; None if no key has several.
        reads_alike: Whether user keys that went through `conform` are read back from Arrow as they were written.
        read: Converts an array to Python values.
        write: The inverse.
    """

    def __init__(self, user_key: TypeInformation) -> None:
        self.info = user_key
        self.conform = key_conformer(user_key)
        self.finished = finished_key_type(user_key)
        self.spells = spells(user_key)
        self.reads_alike = is_immutable(user_key)
        self.read = key_reader(user_key)
        self.write = writer(user_key)


class Asked(NamedTuple):
    """The entries of maps that the records of a batch access, each once.

    Attributes:
        entries: For a table by entry: the entry and the user key of each. For a table by columns: their numbers, by
            segment, ascending in each.
        of_record: The position of each record's entry.
        last: For each entry, the position of its last record.
        times: Event time of each record, null if it has none; None if no record has one.
    """

    entries: list[tuple[Any, Any]] | list[tuple[Segment, Numbers]]
    of_record: Numbers
    last: Numbers
    times: Any

    @property
    def first(self) -> Numbers:
        """For each entry, the position of its first record."""
        first = np.empty(len(self.last), np.int64)
        first[self.of_record[::-1]] = np.arange(len(self.of_record) - 1, -1, -1)
        return first

    def spread(self, values: Any) -> Any:
        """Returns, for each record, the value of its entry."""
        return values.take(indices(self.of_record))

    @property
    def latest_times(self) -> Any:
        """For each entry, the latest event time of its records, null if none has one; None if `times` is."""
        return None if self.times is None else latest_of(self.of_record, self.times, len(self.last))


class MapTable(CollectionTable):
    """Maps by entry.

    Args:
        user_keys: Their user keys.
        stored: See `EntryTable`.
        base: See `EntryTable`.
    """

    def __init__(self, user_keys: UserKeys, stored: StoredType, base: Any) -> None:
        super().__init__(stored, base)
        self.user_keys = user_keys

    def freeze(self) -> Delta | None:
        overlay = self.overlay
        if not overlay:
            return None
        rows = rows_of(overlay, self.user_keys, self.stored, self._may_hold)
        self.overlay, self._pending = {}, (overlay, rows)
        return rows if len(rows) else None

    def settle(self) -> None:
        if self._pending is None:
            return
        overlay, rows = self._pending
        self._pending = None
        if not (self.user_keys.reads_alike and self.stored.reads_alike):
            read = iter(zip(self.user_keys.read(rows.user_keys), self.stored.read(rows.values), strict=True))
            for delta in overlay.values():
                if delta.cleared:
                    next(read)
                entries, delta.entries = delta.entries, {}
                for value in entries.values():
                    put_key, put_value = next(read)
                    delta.entries.pop(put_key, None)  # two keys may be one in the log
                    delta.entries[put_key] = DELETED if value is DELETED else put_value
        self._merge_deltas(overlay)

    def merge(self, delta: Delta) -> None:
        deltas: dict[Any, MapDelta] = {}
        user_keys, values = self.user_keys.read(delta.user_keys), self.stored.read(delta.values)
        for entry, op, user_key, value in zip(delta.entries, delta.ops.tolist(), user_keys, values, strict=True):
            of_entry = deltas.get(entry)
            if of_entry is None:
                of_entry = deltas[entry] = MapDelta()
            if op == Op.CLEAR:
                of_entry.cleared = True
            else:
                of_entry.entries.pop(user_key, None)
                of_entry.entries[user_key] = value if op == Op.PUT else DELETED
        self._merge_deltas(deltas)

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""
        deltas = {}
        for entry, inner in self.base.items():
            expired_keys = [user_key for user_key, stamped in inner.items() if expired(stamped[1])]
            if expired_keys:
                deltas[entry] = MapDelta(entries=dict.fromkeys(expired_keys, DELETED))
        self.base.merge(deltas)

    def values_in(self, delta: MapDelta) -> list[Any]:
        return [value for value in delta.entries.values() if value is not DELETED]

    def clean_entry(self, entry: Any, expiry: float, seen: int | None) -> float:
        oldest = math.inf
        delta = self.overlay.get(entry)
        if delta is not None and delta.cleared:
            return oldest
        written = {} if delta is None else delta.entries
        changes: dict[Any, Any] = {}
        for user_key, (value, time) in self.base.get(entry, {}).items():
            if time is None:
                if seen is None:
                    oldest = -math.inf  # a later round checks again
                elif user_key not in written:
                    changes[user_key] = (value, seen)
            elif time <= expiry:
                if user_key not in written:
                    changes[user_key] = DELETED
            elif time < oldest:
                oldest = time
        if changes:
            self.delta(entry).entries.update(changes)
        return oldest

    def delta(self, entry: Any) -> MapDelta:
        """Returns the epoch's changes of the map of an entry, to which more can be added."""
        delta = self.overlay.get(entry)
        if delta is None:
            delta = self.overlay[entry] = MapDelta()
        return delta

    def spelled(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key of several spellings in the spelling for the log: an entry keeps its first spelling."""
        delta = self.overlay.get(entry)
        if delta is not None:
            if delta.entries.get(user_key) is DELETED:
                del delta.entries[user_key]  # and the spelling that it had
                return user_key
            if delta.cleared or user_key in delta.entries:
                return user_key  # a dict keeps the first spelling by itself
        return self.base.spelling(entry, user_key)

    # By columns -------------------------------------------------------------------------------------------------------

    def asked(self, keys: Keys, user_keys: Any) -> Asked:
        """Returns the entries that records access.

        Args:
            keys: Of the records.
            user_keys: A user key for each, as an array of their type.
        """
        pairs = Keys([indices(keys.codes), user_keys], lambda _: [])
        distinct, entries = pairs.distinct, keys.entries
        codes: Any = distinct.columns[0]
        read = self.user_keys.read(distinct.columns[1])
        self.base.prefetch(entries)
        pairs_of_entries = [(entries[code], user_key) for code, user_key in zip(codes.to_pylist(), read, strict=True)]
        return Asked(pairs_of_entries, pairs.codes, pairs.last, keys.times)

    def get_many(self, asked: Asked) -> Any:
        """Returns the value of each entry, null if it does not exist."""
        entries = [self._entry(*one) for one in asked.entries]
        values = [None if value is MISSING else value for value in entries]
        return self.stored.write(values, lambda at: asked.entries[at][0])

    def has(self, asked: Asked) -> Flags:
        """Returns which entries exist."""
        return np.fromiter((self._entry(*one) is not MISSING for one in asked.entries), bool, len(asked.entries))

    def put_many(self, asked: Asked, values: Any, gone: Flags, changed: Flags | None = None) -> None:
        """Sets entries, or removes them.

        Args:
            asked: The entries.
            values: One for each.
            gone: Which entries are removed.
            changed: Which entries are changed at all; None for all.
        """
        of_each = zip(asked.entries, self.stored.read(values), gone.tolist(), strict=True)
        flags = np.ones(len(gone), bool) if changed is None else changed
        for ((entry, user_key), value, is_gone), is_changed in zip(of_each, flags.tolist(), strict=True):
            if not is_changed:
                continue
            if not is_gone and self.user_keys.spells is not None and self.user_keys.spells(user_key):
                user_key = self.spelled(entry, user_key)
            self.delta(entry).entries[user_key] = DELETED if is_gone else value

    def items(self, keys: Keys) -> tuple[Numbers, Any, Any]:
        """Returns all entries of the distinct keys' maps, map by map, each in the order in which it was put.

        Returns:
            For each entry, the position of its key, its user key, and its value.
        """
        self.base.prefetch(keys.entries)
        maps = list(map(self.whole, keys.entries))
        of_keys = np.repeat(np.arange(len(maps)), np.fromiter(map(len, maps), np.int64, len(maps)))
        user_keys = self.user_keys.write([user_key for of_entry in maps for user_key in of_entry])
        values = [value for of_entry in maps for value in of_entry.values()]
        return of_keys, user_keys, self.stored.write(values, lambda at: keys.entries[of_keys[at]])

    def clear(self, keys: Keys) -> None:
        """Clears the maps of the distinct keys."""
        self.overlay.update((entry, MapDelta(cleared=True)) for entry in keys.entries)

    def whole(self, entry: Any) -> dict[Any, Any]:
        """Returns the map of an entry as a new dict, in the order in which it was put."""
        return merged(self.base.get(entry), self.overlay.get(entry))

    def _entry(self, entry: Any, user_key: Any) -> Any:
        delta = self.overlay.get(entry)
        if delta is not None:
            value = delta.entries.get(user_key, MISSING)
            if value is not MISSING or delta.cleared:
                return MISSING if value is DELETED else value
        inner = self.base.get(entry)
        return MISSING if inner is None else inner.get(user_key, MISSING)


def merged(stored: Any, delta: MapDelta | None) -> dict[Any, Any]:
    """Returns a map as a new dict: what is stored (None for nothing), with its changes since."""
    if delta is None:
        return {} if stored is None else stored.copy()
    done = delta.entries
    kept = {} if delta.cleared or stored is None else {k: v for k, v in stored.items() if k not in done}
    kept.update((user_key, value) for user_key, value in done.items() if value is not DELETED)
    return kept


def rows_of(
    overlay: Mapping[Any, MapDelta], user_keys: UserKeys, stored: StoredType, may_hold: Callable[[Any], bool]
) -> Delta:
    """Returns the changes of maps by entry as rows.

    A map is cleared in the log only if it `may_hold` something there.
    """
    counts: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    clears: list[int] = []
    for entry, delta in overlay.items():
        delta.cleared = delta.cleared and may_hold(entry)
        if delta.cleared:
            clears.append(len(keys))
            keys.append(None)
            values.append(DELETED)
        keys.extend(delta.entries)
        values.extend(delta.entries.values())
        counts.append(delta.cleared + len(delta.entries))
    deleted = [value is DELETED for value in values]
    ops = np.where(deleted, np.int8(Op.DELETE), np.int8(Op.PUT))
    ops[clears] = Op.CLEAR
    values = [None if value is DELETED else value for value in values] if any(deleted) else values
    entries, entry_at = list(overlay), entry_of_rows(overlay, counts)
    of_keys = written(user_keys.write, keys, entry_at)
    return Delta(ops, stored.write(values, entry_at), of_keys, entries=entries, counts=counts)


__all__ = ["Asked", "MapTable", "UserKeys", "merged", "rows_of"]
