"""A worker that dies in front of any write to its database: what is left stands for the epoch that the token names."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Rdict

from state_engine.api import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.timers import TimeDomain
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning, backend, store
from state_engine.backends.schemas import TIMERS
from state_engine.testing.state_harness import StateHarness

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.LONG())
ROUTES = MapStateDescriptor("routes", Types.LONG(), Types.LONG())
TOTAL = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
ALL: list[StateDescriptor] = [COUNT, TAGS, ROUTES, TOTAL]
KEYS = range(12)
WRITES = ("write", "put", "__setitem__", "delete", "__delitem__", "delete_range", "merge", "ingest_external_file")

Model = dict[int, dict[str, Any]]


class Died(BaseException):
    """The process is no more. No `except Exception` sees it, as none sees SIGKILL."""


class Life:
    """Counts the writes of one process, and ends it in front of one of them."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def open(self, *args: Any) -> "Mortal":
        return Mortal(Rdict(*args), self)

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died


class Mortal:
    """An open database, each write to which costs something of a life."""

    def __init__(self, database: Rdict, life: Life) -> None:
        self._database = database
        self._life = life

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            self._life.spend()
        return getattr(self._database, name)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._life.spend()
        self._database[key] = value

    def __delitem__(self, key: bytes) -> None:
        self._life.spend()
        del self._database[key]


class Worker:
    """Workers that share a folder, one after the other, and the log that outlives them.

    Attributes:
        log: What each sealed epoch changed.
        models: What the state is behind each epoch; the first one is that of a new job.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: list[Any] = []
        self.models: list[Model] = [{}]

    def live(self, epochs: Sequence[int], writes: int) -> int:
        """Runs epochs in a process that dies in front of a write; returns how many of its writes were left to it."""
        life = Life(writes)
        database = LocalDatabase(self.folder, Tuning(), wait_s=5)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "Rdict", life.open)
            try:
                harness = self.taken_over(database)
                for number in epochs:
                    self.run_epoch(harness, number)
            except Died:
                pass
            finally:
                database.close()
        return life.left

    def taken_over(self, database: LocalDatabase) -> StateHarness:
        """Returns an instance at the newest epoch, as a worker's cache makes it; checks what it found on its way."""
        harness = StateHarness(lambda *args: RocksDBKeyedStateBackend(*args, database), "k bigint")
        own: Any = harness.backend
        found = own.resume()
        if found is None:
            own.start(f"t{len(self.log)}")
            self.attach(harness, len(self.log))
        else:
            epoch = int(found[1:])
            for descriptor in ALL:
                own.state(descriptor)
            own.timers(TimeDomain.EVENT_TIME)
            self.check(harness, epoch, loaded=False)
            for number, changes in enumerate(self.log[epoch:], epoch + 1):
                for schema, rows in changes:
                    own.apply(schema.name, rows)
                own.commit(f"t{number}")
            self.attach(harness, len(self.log))
        self.check(harness, len(self.log), loaded=True)
        return harness

    def attach(self, harness: StateHarness, epoch: int) -> None:
        harness.epochs = self.log[:epoch]
        schemas = {schema.name: schema for changes in harness.epochs for schema, _ in changes}

        def load(schema: Any) -> Iterable[Any]:
            return harness.tables(schema)

        harness.backend.attach(list(schemas.values()), load)

    def check(self, harness: StateHarness, epoch: int, *, loaded: bool) -> None:
        """Compares all that is there with the model of an epoch; states that wait to be loaded are not there."""
        own: Any = harness.backend
        for key in KEYS:
            model = self.models[epoch].get(key, {})
            if loaded or not own.lacks("count"):
                assert harness.state(COUNT, key).value() == model.get("count"), (epoch, key)
            if loaded or not own.lacks("tags"):
                assert list(harness.state(TAGS, key).get()) == model.get("tags", []), (epoch, key)
            if loaded or not own.lacks("routes"):
                assert dict(harness.state(ROUTES, key).items()) == model.get("routes", {}), (epoch, key)
            if loaded or not own.lacks("total"):
                assert harness.state(TOTAL, key).get() == model.get("total"), (epoch, key)
        times = [of_key["timer"] for of_key in self.models[epoch].values() if "timer" in of_key]
        if loaded or not own.lacks(TIMERS[TimeDomain.EVENT_TIME]):
            assert own.timers(TimeDomain.EVENT_TIME).earliest() == min(times, default=None), epoch

    def run_epoch(self, harness: StateHarness, number: int) -> None:
        """Changes some keys, seals the epoch, and writes it down as the first step of the next epoch does."""
        own: Any = harness.backend
        model = deepcopy(self.models[-1])
        timers = own.timers(TimeDomain.EVENT_TIME)
        for key in KEYS:
            if (key + number) % 3 == 0:
                continue
            of_key = model.setdefault(key, {})
            harness.state(COUNT, key).update(number)
            harness.state(TAGS, key).add(number)
            harness.state(ROUTES, key).put(number % 4, number)
            harness.state(TOTAL, key).add(number)
            if "timer" in of_key:
                timers.delete(key, of_key["timer"])
            timers.register(key, 100 * number + key)
            of_key |= {"count": number, "total": of_key.get("total", 0) + number, "timer": 100 * number + key}
            of_key["tags"] = [*of_key.get("tags", []), number]
            of_key["routes"] = {**of_key.get("routes", {}), number % 4: number}
            if (key + number) % 5 == 0:
                for descriptor in ALL:
                    harness.state(descriptor, key).clear()
                timers.delete(key, 100 * number + key)
                del model[key]
        changes = own.freeze(0)
        self.log.append(changes)
        self.models.append(model)
        own.settle()
        own.commit(f"t{len(self.log)}")

    def cells(self) -> int:
        """Returns how many cells there are in the database, named or not, besides the token's."""
        database = LocalDatabase(self.folder, Tuning(), wait_s=5)
        database.acquire()
        found = sum(1 for _ in database.store.scan(b"\x00\x01", b"\xff" * 8))
        database.close()
        return found


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads come in many pieces, the larger ones of which are ingested as files."""
    monkeypatch.setattr(backend, "_LOAD_ROWS", 20)
    monkeypatch.setattr(store, "_WORTH_A_FILE", 8)


@pytest.fixture
def folders(disk: Path) -> Iterator[Path]:
    return (disk / str(n) for n in count())


def test_death_before_any_write_leaves_the_epoch_that_the_token_names(folders: Iterator[Path]) -> None:
    for writes in count():
        worker = Worker(next(folders))
        left = worker.live(range(1, 5), writes)
        worker.live(range(5, 7), 1_000)
        worker.live((), 1_000)
        if left >= 0:
            break
    assert writes > 4  # each epoch has one write at least


def test_death_before_any_write_of_a_load_leaves_nothing_that_counts(folders: Iterator[Path]) -> None:
    first = Worker(next(folders))
    first.live(range(1, 5), 1_000)
    cells: set[int] = set()
    for writes in count():
        worker = Worker(next(folders))  # on another machine: it has to load all states
        worker.log, worker.models = list(first.log), list(first.models)
        left = worker.live((), writes)
        worker.live((), 1_000)
        cells.add(worker.cells())
        worker.live((5, 6), 1_000)
        worker.live((), 1_000)
        if left >= 0:
            break
    assert writes > 12  # four states and timers, in pieces
    assert len(cells) == 1  # no cell is left of a load that was cut off


@settings(max_examples=settings.default.max_examples // 8)
@given(deaths=st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_workers_die_again_and_again(deaths: list[int]) -> None:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        worker = Worker(Path(folder))
        for writes in [*deaths, 1_000]:
            number = len(worker.log) + 1
            worker.live(range(number, number + 3), writes)
        assert len(worker.log) >= 3
