"""The backends under test, each as a function that makes an empty one."""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, bases

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from suites_and_layouts import FAMILIES, chosen, of_item  # noqa: E402


class WrittenEachEpoch(RocksDBKeyedStateBackend):
    """Writes sealed changes at once, as a worker does."""

    def settle(self) -> None:
        super().settle()
        self.commit("sealed")


ON_ROCKSDB = ["rocksdb", "rocksdb-written", "rocksdb-forgetful", "rocksdb-by-columns"]


@pytest.fixture(params=["heap", "heap-by-namespace", *ON_ROCKSDB])
def make_backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes backends; the forgetful one drops its cached reads at every opportunity, as one with large values does."""
    numbers, opened = count(), []
    if request.param == "rocksdb-forgetful":
        monkeypatch.setattr(bases, "READ_BYTES", -1)

    def make(*args: Any) -> Any:
        if request.param == "heap":
            return HeapKeyedStateBackend(*args)
        if request.param == "heap-by-namespace":
            from values_by_namespace import ByNamespace

            return ByNamespace(*args)
        while len(opened) > 3:
            opened.pop(0).close()
        opened.append(LocalDatabase(tmp_path / str(next(numbers)), Tuning()))
        if request.param == "rocksdb-by-columns":
            from lists_by_columns import ListsByColumns

            return ListsByColumns(*args, opened[-1])
        return (RocksDBKeyedStateBackend if request.param == "rocksdb" else WrittenEachEpoch)(*args, opened[-1])

    yield make
    for database in opened:
        database.close()


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks `long` the tests that `make test` omits from the product of the conformance suite and the layouts."""
    cases = {item: of_item(item) for item in items if item.path.parent == HERE and item.path.stem in FAMILIES}
    wanted = chosen(set(cases.values()))
    for item, case in cases.items():
        if case not in wanted:
            item.add_marker(pytest.mark.long)
