"""The conformance suite, for the RocksDB backend: as a load leaves it, and as it reads what it wrote."""

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
    """What is nearly always in one cell, in many."""

    @pytest.fixture(autouse=True)
    def _spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(headers, "SMALL", -1)


class TestRocksDBBackendThatReadsItsDatabase(
    _OnRocksDB, ValueStateSuite, ListStateSuite, MapStateSuite, FoldingStateSuite, MergingStateSuite, EdgeSuite
):
    """Each sealed epoch is written before the next one begins, as in a worker, and nothing that was read is kept."""

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
    """As a function over batches has them."""

    kind = ListsByColumns


class TestRocksDBBackendThatReadsListsThatAreColumns(TestRocksDBBackendThatReadsItsDatabase):
    """Likewise, from the database, where they are spread."""

    kind = ListsByColumns

    @pytest.fixture(autouse=True)
    def _spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(headers, "SMALL", -1)
