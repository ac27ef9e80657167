"""Expired values are removed from a database without being read: a fixed number of rows is checked per epoch."""

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import (
    Duration,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.layout import Layout
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, headers
from state_engine.backends.rocksdb.column_lists import ColumnLists
from state_engine.testing.state_harness import StateHarness

KEYS = 20


DESCRIPTORS: dict[str, Any] = {
    "value": lambda: ValueStateDescriptor("s", Types.LONG()),
    "list": lambda: ListStateDescriptor("s", Types.LONG()),
    "list by columns": lambda: ListStateDescriptor("s", Types.LONG()),
    "map": lambda: MapStateDescriptor("s", Types.LONG(), Types.STRING()),
}


def descriptor(shape: str, size: int | None, *, reads: bool = False) -> StateDescriptor:
    """Returns a state that lives for 100 ms; `size` rows are checked per epoch, none if it is None."""
    config = StateTtlConfig.new_builder(Duration.of_millis(100))
    config = config.disable_cleanup_in_background() if size is None else config.cleanup_in_rocksdb_compact_filter(size)
    made: Any = DESCRIPTORS[shape]()
    made.lies = Layout.COLUMNS if shape == "list by columns" else Layout.ENTRIES
    made.enable_time_to_live((config.update_ttl_on_read_and_write() if reads else config).build())
    return made


class Job:
    """Epochs of one state over one folder, also by one worker after another."""

    def __init__(self, folder: Path, state: Any) -> None:
        self._folder, self._state = folder, state
        self._opened: list[LocalDatabase] = []
        self.harness: Any = self._worker(())

    def _worker(self, epochs: Any) -> Any:
        def backend(*args: Any) -> RocksDBKeyedStateBackend:
            self._opened.append(LocalDatabase(self._folder, Tuning(), wait_s=5))
            return RocksDBKeyedStateBackend(*args, self._opened[-1])

        harness: Any = StateHarness(backend, "k bigint", epochs)
        harness.backend.attach(harness._schemas, harness._load)
        harness.backend.state(self._state, self._state.lies)
        return harness

    def other_worker(self) -> None:
        """Another process takes the database over."""
        now = self.harness.time.processing_time
        self._opened[-1].close()
        self.harness = self._worker(self.harness.epochs)
        self.harness.time.processing_time = now

    def put(self, key: int) -> None:
        state = self.harness.state(self._state, key)
        match self._state:
            case ListStateDescriptor():
                state.add(key)
            case MapStateDescriptor():
                state.put(key, "x")
            case _:
                state.update(key)

    def has(self, key: int) -> bool:
        state = self.harness.state(self._state, key)
        match self._state:
            case ListStateDescriptor():
                return list(state.get()) == [key]
            case MapStateDescriptor():
                return list(state.items()) == [(key, "x")]
        return bool(state.value() == key)

    def seal(self, at: int | None = None) -> None:
        """Ends an epoch, and begins one at another time."""
        self.harness.seal()
        self.harness.backend.commit(f"t{len(self.harness.epochs)}")
        if at is not None:
            self.harness.time.processing_time = at

    @property
    def raw_rows(self) -> int:
        """Returns all rows of the database, visible to functions or not."""
        base = self.harness.backend._in_database["s"]
        if isinstance(base, ColumnLists):
            found, _ = base.cells_from(self.harness.backend.key_groups, b"", 1 << 40)
            return sum(int.from_bytes(cell[:8], "big") for _, cell in found)
        cells = list(base.raw(*base.cells.groups(*self.harness.backend.key_groups)))
        if base.one_cell:
            return len(cells)
        return sum(1 if key[4] else len(base.small(cell)) for key, cell in cells)

    def close(self) -> None:
        for database in self._opened:
            database.close()


@pytest.fixture(params=["small", "spread"])
def make(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param == "spread":
        monkeypatch.setattr(headers, "SMALL", -1)
    jobs: list[Job] = []

    def job(state: StateDescriptor) -> Job:
        jobs.append(Job(tmp_path / "range", state))
        return jobs[-1]

    yield job
    for one in jobs:
        one.close()


def filled(make: Any, state: StateDescriptor) -> Job:
    job: Job = make(state)
    job.harness.time.processing_time = 1_000
    for key in range(KEYS):
        job.put(key)
    job.seal(1_100)
    assert job.raw_rows == KEYS
    return job


@pytest.mark.parametrize("shape", DESCRIPTORS)
@pytest.mark.parametrize("size", [1, 3, 7, 20, 1000])
def test_n_rows_are_gone_after_n_by_k_epochs_without_access(make: Any, shape: str, size: int) -> None:
    job = filled(make, descriptor(shape, size))
    remaining = []
    for _ in range(ceil(KEYS / size)):
        job.seal()
        remaining.append(job.raw_rows)
    assert remaining == [max(0, KEYS - size * (n + 1)) for n in range(len(remaining))]
    [counted] = job.harness.backend.statistics()
    assert (counted.rows, counted.keys) == (0, 0), "the counts know"


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_what_is_removed_is_in_the_log(make: Any, shape: str, tmp_path: Path) -> None:
    job = filled(make, descriptor(shape, 6))
    job.seal()
    job.seal()
    assert job.raw_rows == KEYS - 12
    restored: Any = StateHarness(lambda *args: make_heap(*args), "k bigint", job.harness.epochs)
    restored.backend.attach(restored._schemas, restored._load)
    restored.backend.state(descriptor(shape, 6))
    assert restored.backend.rows == KEYS - 12


def make_heap(*args: Any) -> Any:
    from state_engine.backends.heap import HeapKeyedStateBackend

    return HeapKeyedStateBackend(*args)


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_another_worker_goes_on_where_the_last_one_stood(make: Any, shape: str) -> None:
    job = filled(make, descriptor(shape, 5))
    for expected in (15, 10, 5, 0):
        job.other_worker()
        job.seal()
        assert job.raw_rows == expected


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_what_lives_and_what_the_epoch_wrote_stay(make: Any, shape: str) -> None:
    job: Job = make(descriptor(shape, 1000))
    job.harness.time.processing_time = 1_000
    for key in range(0, KEYS, 2):
        job.put(key)
    job.seal(1_050)
    for key in range(1, KEYS, 2):
        job.put(key)
    job.seal(1_100)
    job.put(4)
    job.seal()
    assert job.raw_rows == KEYS // 2 + 1
    assert [key for key in range(KEYS) if job.has(key)] == sorted([*range(1, KEYS, 2), 4])


@pytest.mark.parametrize("shape", ["list", "list by columns"])
def test_lists_of_which_little_expires_each_epoch_are_seldom_written_anew(make: Any, shape: str) -> None:
    job: Job = make(descriptor(shape, 1000))
    job.harness.time.processing_time = 1_000
    logged = 0
    for epoch in range(120):
        for key in (1, 2):
            job.put(key)
        job.seal(1_000 + 5 * (epoch + 1))
        if epoch >= 40:
            [(_, rows)] = job.harness.epochs[-1]
            logged += rows.num_rows
            assert job.raw_rows <= 2 * 28  # 20 live, and up to a third more
    added = 2 * 80
    assert 2 * added < logged <= 4 * added + 2 * 28


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_at_the_last_ms_it_is_there_and_with_the_next_it_is_not(make: Any, shape: str) -> None:
    job = filled(make, descriptor(shape, 1000))
    job.harness.time.processing_time = 1_099
    job.seal(1_100)
    assert job.raw_rows == KEYS
    job.seal()
    assert job.raw_rows == 0


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_a_round_begins_again_for_what_expires_later(make: Any, shape: str) -> None:
    job = filled(make, descriptor(shape, 8))
    for key in range(KEYS):
        job.put(key)
    job.seal(1_150)
    for _ in range(5):
        job.seal()
    assert job.raw_rows == KEYS, "nothing of it has expired"
    job.harness.time.processing_time = 1_200
    for _ in range(2 * ceil(KEYS / 8)):
        job.seal()
    assert job.raw_rows == 0


@pytest.mark.parametrize("shape", DESCRIPTORS)
def test_without_clean_up_in_the_background_it_stays(make: Any, shape: str) -> None:
    job = filled(make, descriptor(shape, None))
    for _ in range(5):
        job.seal()
    assert job.raw_rows == KEYS
