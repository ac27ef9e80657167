"""Where states by entry lie in memory: dicts of values, of lists and of maps, as of one manifest.

They are dicts so that a look-up per record costs what a dict costs. RocksDB's stores have the same methods.
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
    """What was done to one list: cleared first or not, and then appended."""

    cleared: bool = False
    appended: list[Any] = []


class MapDelta(msgspec.Struct, gc=False):
    """What was done to one map: cleared first or not, and then entries put or `DELETED`."""

    cleared: bool = False
    entries: dict[Any, Any] = {}


class DictStore(dict[Any, Any], ABC):
    """Entry to what it has.

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
        """Says whether the log may have rows of an entry."""
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
        """Removes an entry, if it is there."""


class DictValues(DictStore):
    """Entry to value."""

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
    """Entry to list."""

    __slots__ = ()

    def merge(self, deltas: Mapping[Any, ListDelta]) -> None:
        """Does what was done to lists; takes the lists of the deltas."""
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
    """Entry to map."""

    __slots__ = ()

    def merge(self, deltas: Mapping[Any, MapDelta]) -> None:
        """Does what was done to maps."""
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
                    inner[user_key] = value  # after all others, as a load from the folded log has it
            self.rows += len(inner) - before
            if not inner:
                del self[entry]

    def remove(self, entry: Any) -> None:
        self.rows -= len(self.pop(entry, ()))

    def spelling(self, entry: Any, user_key: Any) -> Any:
        """Returns a user key as the map of an entry spells it; as it is given if the map does not have it."""
        return spelling_in(self.get(entry, {}), user_key)


__all__ = ["DELETED", "MISSING", "DictLists", "DictMaps", "DictStore", "DictValues", "ListDelta", "MapDelta"]
