"""Backends to try, each behind a function that makes an empty one."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning


class WrittenEachEpoch(RocksDBKeyedStateBackend):
    """Writes what was sealed at once, as a worker does."""

    def settle(self) -> None:
        super().settle()
        self.commit("sealed")


@pytest.fixture(params=["heap", "rocksdb", "rocksdb-written"])
def make_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    numbers, opened = count(), []

    def make(*args: Any) -> Any:
        if request.param == "heap":
            return HeapKeyedStateBackend(*args)
        while len(opened) > 3:
            opened.pop(0).close()
        opened.append(LocalDatabase(tmp_path / str(next(numbers)), Tuning()))
        return (RocksDBKeyedStateBackend if request.param == "rocksdb" else WrittenEachEpoch)(*args, opened[-1])

    yield make
    for database in opened:
        database.close()
