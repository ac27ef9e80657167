"""The stores of states by entry in memory: dicts of values, of lists and of maps, as of one manifest.

They are dicts, so that a look-up per record costs no more than that of a dict. RocksDB's stores have the same methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from state_engine.backends.keys import KeyCodec
from state_engine.serialization.equality import spelling_in

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
DELETED: Any = type("Deleted", (), {"__repr__": lambda self: "DELETED"})()


class ListDelta(msgspec.Struct, gc=False):
    """The changes of one list: whether it is cleared first, and what is appended then."""

    cleared: bool = False
    appended: list[Any] = []


class MapDelta(msgspec.Struct, gc=False):
    """The changes of one map: whether it is cleared first, and the entries that are put or `DELETED` then."""

    cleared: bool = False
    entries: dict[Any, Any] = {}


class DictStore(dict[Any, Any], ABC):
    """Maps an entry to its content.

    Args:
        codec: Of the keys.

    Attributes:
        rows: Live rows, as the log would have them.
    """

    __slots__ = ("_codec", "rows")

    def __init__(self, codec: KeyCodec) -> None:
        super().__init__()
        self._codec = codec
        self.rows = 0

    def may_hold(self, entry: Any) -> bool:
        """Returns whether the log may have rows of an entry."""
        return entry in self

    def prefetch(self, entries: list[Any]) -> None:
        """Does nothing: everything is in memory."""

    def drop_group(self, group: int) -> None:
        """Removes all entries of a key group."""
        group_of = self._codec.group_of
        for entry in [entry for entry in self if group_of(entry) == group]:
            self.remove(entry)

    @abstractmethod
    def remove(self, entry: Any) -> None:
        """Removes an entry, if it exists."""


class DictValues(DictStore):
    """Maps an entry to its value."""

    __slots__ = ()

    def merge(self, values: "Mapping[Any, Any] | Iterable[tuple[Any, Any]]", removed: Iterable[Any] = ()) -> None:
        """Sets values, and then removes those of some entries."""
        self.update(values)
        for entry in removed:
            self.pop(entry, None)
        self.rows = len(self)

    def remove(self, entry: Any) -> None:
        self.pop(entry, None)
        self.rows = len(self)


class DictLists(DictStore):
    """Maps an entry to its list."""

    __slots__ = ()

    def merge(self, deltas: Mapping[Any, ListDelta]) -> None:
        """Applies changes of lists; takes over the lists of the deltas."""
        for entry, delta in deltas.items():
            if delta.cleared:
                self.remove(entry)
            if delta.appended:
                held = self.get(entry)
                if held is None:
                    self[entry] = delta.appended
                else:
                    held.extend(delta.appended)
                self.rows += len(delta.appended)

    def remove(self, entry: Any) -> None:
        self.rows -= len(self.pop(entry, ()))


class DictMaps(DictStore):
    """Maps an entry to its map."""

    __slots__ = ()

    def merge(self, deltas: Mapping[Any, MapDelta]) -> None:
        """Applies changes of maps."""
        for entry, delta in deltas.items():
            if delta.cleared:
                self.remove(entry)
            inner = self.get(entry)
            if inner is None:
                inner = {user_key: value for user_key, value in delta.entries.items() if value is not DELETED}
                if inner:
                    self[entry] = inner
                    self.rows += len(inner)
                continue
            before = len(inner)
            for user_key, value in delta.entries.items():
                inner.pop(user_key, None)
                if value is not DELETED:
                    inner[user_key] = value  # after all others, as a load from the folded log orders them
            self.rows += len(inner) - before
            if not inner:
                del self[entry]

    def remove(self, entry: Any) -> None:
        self.rows -= len(self.pop(entry, ()))

    def spelling(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key as the map of an entry spells it; as given if the map does not have it."""
        return spelling_in(self.get(entry, {}), user_key)


__all__ = ["DELETED", "MISSING", "DictLists", "DictMaps", "DictStore", "DictValues", "ListDelta", "MapDelta"]
