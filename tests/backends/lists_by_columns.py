"""A RocksDB backend for tests that accesses lists by columns, as that of a function over batches does."""

from typing import Any

from state_engine.api.descriptors import StateDescriptor
from state_engine.backends.layout import Layout
from state_engine.backends.rocksdb import RocksDBKeyedStateBackend


class ListsByColumns(RocksDBKeyedStateBackend):
    """The backend. It drops the numbers of keys after each epoch, even if there are only a few."""

    def commit(self, token: str) -> None:
        self._index.keys.limit = 0
        super().commit(token)

    def state(self, descriptor: StateDescriptor, layout: Layout = Layout.ENTRIES) -> Any:
        return super().state(descriptor, Layout.COLUMNS)
