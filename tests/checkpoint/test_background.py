import random
import threading
from pathlib import Path

import pytest

from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.checkpoint.publish import CheckpointPublisher, PublishEvent
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import StorageError
from state_engine.inspect import read_state
from state_engine.storage.background import OneThread
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.port import Data
from state_engine.storage.tables import PlainTables
from state_engine.testing.changes import model_of
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import COUNT, random_changes, sample_job


def id_at(coordinator: CheckpointCoordinator, epoch: int) -> int | None:
    mark = coordinator.checkpoint_at(epoch, 0)
    return mark and mark.checkpoint_id


def test_one_thread_runs_tasks_in_order_and_ends() -> None:
    background, seen = OneThread("fold"), []
    gate = threading.Event()
    background.submit(lambda: (gate.wait(10), seen.append(1))[1])
    background.submit(lambda: seen.append(2))
    assert not background.wait(0.01)
    gate.set()
    assert background.wait(10)
    assert seen == [1, 2]
    background.submit(lambda: seen.append(threading.current_thread().name))
    assert background.wait(10)
    assert seen[-1] == "fold"


def test_epochs_go_on_while_a_checkpoint_is_folded(tmp_path: Path) -> None:
    rng = random.Random(1)
    job = sample_job(f"memory://{tmp_path}")
    coordinator = CheckpointCoordinator()
    gate = threading.Event()

    class Slow:
        def at(self, point: CrashPoint, epoch: int) -> None:
            if point is CrashPoint.E9_FILES_WRITTEN and epoch == 1:
                gate.wait(10)

    def tell(event: PublishEvent) -> None:
        assert threading.current_thread() is threading.main_thread()
        assert event.base is not None
        coordinator.completed(event.checkpoint_id, 0)

    background = OneThread("fold")
    running = CheckpointPublisher(
        job.storage, job.job, clock=ManualClock(), crash=Slow(), background=background, on_end=tell
    )
    coordinator.request()
    running.begin(job.epoch(random_changes(rng), checkpoint_id=id_at(coordinator, 1)))
    coordinator.request()
    job.epoch(random_changes(rng), checkpoint_id=id_at(coordinator, 2))
    assert running.completed() is None
    assert job.head is not None
    assert job.head.manifest.checkpoint_id is None, "one at a time"
    gate.set()
    assert running.wait(10)
    first = running.completed()
    assert first is not None
    assert first.epoch == 1
    job.adopt(first)
    sealed = job.epoch(random_changes(rng), checkpoint_id=id_at(coordinator, 3))
    assert sealed.manifest.checkpoint_id == 2
    running.begin(sealed)
    assert running.wait(10)
    second = running.completed()
    assert second is not None
    assert second.epoch == 3
    live = read_state(job.root, job.job, "aircraft", "count", at="checkpoint:2")
    assert model_of(COUNT, live) == job.rows("aircraft", "count")


class Unreliable:
    """Every n-th put fails: with its effect, or without, in turns."""

    def __init__(self, inner: MemoryStorage, every: int) -> None:
        self._inner, self._every, self._puts = inner, every, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: Data) -> None:
        self._put(lambda: self._inner.put_if_absent(path, data))

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self._put(lambda: self._inner.put_exclusive(path, *buffers))

    def _put(self, put) -> None:
        self._puts += 1
        if self._puts % self._every:
            return put()
        if self._puts % (2 * self._every):
            put()
        raise StorageError("simulated: no answer")


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_storage_without_answers_delays_checkpoints_and_doubles_nothing(tmp_path: Path, every: int) -> None:
    rng = random.Random(every)
    job = sample_job(f"memory://{tmp_path}")
    assert isinstance(job.storage, MemoryStorage)
    storage = Unreliable(job.storage, every)
    tables = PlainTables(storage)
    running = CheckpointPublisher(storage, job.job, tables=tables, clock=ManualClock())
    for checkpoint in range(1, 9):
        running.begin(job.epoch(random_changes(rng, 4), checkpoint_id=checkpoint))
        base = running.completed()
        for schema in job.schemas if base is not None else ():
            at = job.log.read(base.generation, base.epoch)
            live = read_state(job.root, job.job, schema.uid, schema.name, at=at)
            assert model_of(schema, live) == job.rows(schema.uid, schema.name, at)
    assert running.failures > 0
    sound = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    sound.begin(job.epoch(random_changes(rng, 4), checkpoint_id=9))
    live = read_state(job.root, job.job, "aircraft", "count", at="checkpoint:9")
    assert model_of(COUNT, live) == job.rows("aircraft", "count")
