"""Makes the stores of tables in a database, from the type of what a state stores."""

from state_engine.api.types import MapType
from state_engine.backends.entry_index import ByNamespace
from state_engine.backends.keys import KeyCodec
from state_engine.backends.rocksdb.bases import Opened, ValuesInDatabase
from state_engine.backends.rocksdb.cells import Cells
from state_engine.backends.rocksdb.column_lists import ColumnLists
from state_engine.backends.rocksdb.list_cells import ListCells
from state_engine.backends.rocksdb.lists import ListsInDatabase
from state_engine.backends.rocksdb.maps import MapsInDatabase
from state_engine.backends.rocksdb.ordered import ordered_codec
from state_engine.backends.rocksdb.values import list_codec, spelled_codec, value_codec
from state_engine.backends.shapes.maps import UserKeys
from state_engine.backends.stored_type import StoredType


class RocksDBStores:
    """Makes stores in a database; only lists can be stored by columns, too.

    Args:
        opened: The owner of the database.
        codec: Of the keys.
    """

    def __init__(self, opened: Opened, codec: KeyCodec) -> None:
        self._opened = opened
        self._codec = codec

    def cells(self) -> Cells:
        """Returns keys of cells for a state that has no number yet."""
        return Cells(0, self._codec)

    def values(self, stored: StoredType) -> ValuesInDatabase:
        """Returns a store of values by entry."""
        return ValuesInDatabase(self._opened, self.cells(), value_codec(stored.info))

    def lists(self, stored: StoredType) -> ListsInDatabase:
        """Returns a store of lists by entry."""
        return ListsInDatabase(self._opened, self.cells(), list_codec(stored.info))

    def maps(self, user_keys: UserKeys, stored: StoredType) -> MapsInDatabase:
        """Returns a store of maps by entry."""
        keys, cells, ordered = user_keys.info, self.cells(), ordered_codec(user_keys.info)
        if user_keys.spells is not None:
            return MapsInDatabase(self._opened, cells, ordered, spelled_codec(keys, stored.info), None)
        small = value_codec(MapType(keys, stored.info))
        return MapsInDatabase(self._opened, cells, ordered, value_codec(stored.info), small)

    def column_values(self, stored: StoredType) -> None:
        """Returns None: values are stored by entry."""

    def column_lists(self, stored: StoredType, addressing: ByNamespace) -> ColumnLists:
        """Returns a store of lists by columns."""
        return ColumnLists(self._opened, self.cells(), addressing, ListCells(stored.arrow))

    def column_maps(self, stored: StoredType) -> None:
        """Returns None: maps are stored by entry."""


__all__ = ["RocksDBStores"]
