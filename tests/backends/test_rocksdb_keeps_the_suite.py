"""The conformance suite, for the RocksDB backend: with state as it was loaded, and as it reads its own writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lists_by_columns import ListsByColumns

from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, bases, headers
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange
from state_engine.testing.state_edge_suite import EdgeSuite
from state_engine.testing.state_folding_suite import FoldingStateSuite
from state_engine.testing.state_merging_suite import MergingStateSuite
from state_engine.testing.state_suite import ListStateSuite, MapStateSuite, StateSuite, ValueStateSuite


class _OnRocksDB:
    incremental_cleanup = False

    @pytest.fixture(autouse=True)
    def _folders(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.opened: list[LocalDatabase] = []
        yield
        for database in self.opened:
            database.close()

    kind = RocksDBKeyedStateBackend

    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> RocksDBKeyedStateBackend:
        database = LocalDatabase(self.folder / str(len(self.opened)), Tuning())
        self.opened.append(database)
        return self.kind(uid, codec, key_groups, context, time, database)


class TestRocksDBBackend(_OnRocksDB, StateSuite):
    pass


class TestRocksDBBackendWhoseListsAndMapsAreSpread(_OnRocksDB, ListStateSuite, MapStateSuite):
    """Stores lists and maps in many cells that are nearly always in one."""

    @pytest.fixture(autouse=True)
    def _spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(headers, "SMALL", -1)


class TestRocksDBBackendThatReadsItsDatabase(
    _OnRocksDB, ValueStateSuite, ListStateSuite, MapStateSuite, FoldingStateSuite, MergingStateSuite, EdgeSuite
):
    """Writes each sealed epoch before the next one begins, as in a worker, and keeps nothing that was read."""

    @pytest.fixture(autouse=True)
    def _forgetful(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bases, "READ_BYTES", -1)

    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> RocksDBKeyedStateBackend:
        backend = super().make_backend(uid, codec, key_groups, context, time)
        settle = backend.settle

        def settle_and_write() -> None:
            settle()
            backend.commit("sealed")

        backend.settle = settle_and_write  # type: ignore[method-assign]
        return backend


class TestRocksDBBackendWhoseListsAreColumns(_OnRocksDB, StateSuite):
    """Has lists as columns, as a function over batches has."""

    kind = ListsByColumns


class TestRocksDBBackendThatReadsListsThatAreColumns(TestRocksDBBackendThatReadsItsDatabase):
    """Has lists as columns, and reads them from the database, where they are in many cells."""

    kind = ListsByColumns

    @pytest.fixture(autouse=True)
    def _spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(headers, "SMALL", -1)
