"""A RocksDB backend for tests that asks lists by columns, as that of a function over batches does."""

from copy import copy
from typing import Any

from state_engine.api.descriptors import ListStateDescriptor, StateDescriptor
from state_engine.backends.rocksdb import RocksDBKeyedStateBackend


class ListsByColumns(RocksDBKeyedStateBackend):
    """The backend. It forgets the numbers of keys after each epoch, however few there are."""

    def commit(self, token: str) -> None:
        self._numbers.limit = 0
        super().commit(token)

    def state(self, descriptor: StateDescriptor) -> Any:
        if isinstance(descriptor, ListStateDescriptor):
            descriptor = copy(descriptor)
            descriptor.by_namespace = True
        return super().state(descriptor)
