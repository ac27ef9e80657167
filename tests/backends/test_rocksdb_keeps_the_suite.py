"""The conformance suite, for the RocksDB backend."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange
from state_engine.testing.state_suite import StateSuite


class TestRocksDBBackend(StateSuite):
    incremental_cleanup = False

    @pytest.fixture(autouse=True)
    def _folders(self, disk: Path) -> Iterator[None]:
        self.folder = disk
        self.opened: list[LocalDatabase] = []
        yield
        for database in self.opened:
            database.close()

    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> RocksDBKeyedStateBackend:
        database = LocalDatabase(self.folder / str(len(self.opened)), Tuning())
        self.opened.append(database)
        return RocksDBKeyedStateBackend(uid, codec, key_groups, context, time, database)
