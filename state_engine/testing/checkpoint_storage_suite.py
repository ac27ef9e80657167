"""What every checkpoint storage must do: a suite of tests for implementations of `CheckpointStorageAccess`.

Derive a test class, and set the setting that chooses the storage:

```python
class TestMyStorage(CheckpointStorageSuite):
    setting = MyCheckpointStorage()
    name = "filesystem"
```

Jobs publish and read as in production, without Spark. Their state is compared with a plain model. Bytes read from the
job's root are counted.
"""

import random
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from state_engine.api.checkpoint_storage import (
    CheckpointStorage,
    DeltaCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Crash
from state_engine.errors import DamagedFileError, MissingFileError
from state_engine.key_groups import range_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Base, StateFile, StorageName
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.port import CheckpointStorage as Storage
from state_engine.storage.state_files import fetch_state_file, read_state_file
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.changes import EntryKey, model_of
from state_engine.testing.counting import CountingStorage
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

GROUPS = 13
OTHERS: tuple[CheckpointStorage, ...] = (
    DeltaCheckpointStorage(),
    FileSystemCheckpointStorage(file_state_size_threshold=0),
    JobManagerCheckpointStorage(),
)
E9 = [point for point in CrashPoint if point.where == "publisher"]


class Crashed(BaseException):
    """The process died."""


class CrashAt:
    """Ends the process when it first passes a point."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point

    def at(self, point: CrashPoint, epoch: int) -> None:
        """Raises `Crashed` at the point."""
        if point is self._point:
            raise Crashed


class CheckpointStorageSuite:
    """Tests of the port, through jobs that use it.

    A subclass sets `setting`, the storage under test, and `name`, by which bases record it. A fixture `root` may return
    another state root.
    """

    setting: ClassVar[CheckpointStorage]
    name: ClassVar[StorageName]

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        """The state root of the jobs."""
        return str(tmp_path)

    def publisher(
        self, job: JobBuilder, storage: Storage | None = None, *, crash: Crash | None = None
    ) -> CheckpointPublisher:
        """Returns a publisher that uses the storage under test."""
        return CheckpointPublisher(
            storage or job.storage,
            job.job,
            checkpoint_storage=self.setting,
            clock=ManualClock(),
            ids=CountingIds(),
            crash=crash,
        )

    def test_checkpoints_hold_the_state_and_the_base_says_where(self, root: str) -> None:
        rng, job = random.Random(1), sample_job(root)
        running = self.publisher(job)
        for number in range(1, 5):
            job.epoch(random_changes(rng), parallelism=rng.choice([1, 2, 3, 5]))
            sealed = job.epoch(random_changes(rng), checkpoint_id=number)
            base = published(job, running, sealed)
            assert base.storage == self.name
            check(job, base)
            if number == 2:
                job.adopt(running.completed())

    def test_a_subtask_loads_its_key_groups_at_any_parallelism(self, root: str) -> None:
        job, base = self.one_checkpoint(root)
        manifest = job.log.read(base.generation, base.epoch)
        for schema in SCHEMAS:
            for parallelism in (1, 2, 5, GROUPS):
                ranges = [range_of(subtask, parallelism, GROUPS) for subtask in range(parallelism)]
                loaded: dict[EntryKey, Any] = {}
                for owned in ranges:
                    storage = CountingStorage(job.storage)
                    rows = load_groups([Segment(storage, base, ())], schema, owned.first, owned.last)
                    assert set(groups_of(rows)) <= set(range(owned.first, owned.last + 1))
                    files = [file for file in base.files if file.schema_id == schema.schema_id]
                    assert storage.total() == sum(bytes_of(file, owned.first, owned.last) for file in files)
                    loaded |= model_of(schema, rows)
                assert loaded == job.rows(schema.uid, schema.name, manifest)

    def test_a_range_of_key_groups_costs_its_own_bytes(self, root: str) -> None:
        job, base = self.one_checkpoint(root)
        assert base.files
        for file in base.files:
            whole = groups_of(read_state_file(job.storage, file, 0, GROUPS - 1))
            assert len(whole) == file.rows
            for first in range(GROUPS):
                for last in range(first, GROUPS):
                    storage = CountingStorage(job.storage)
                    groups = groups_of(read_state_file(storage, file, first, last))
                    assert groups == [group for group in whole if first <= group <= last]
                    assert storage.total() == bytes_of(file, first, last), (file.path, first, last)

    def test_handles_say_where_every_key_group_lies(self, root: str) -> None:
        job, base = self.one_checkpoint(root)
        for file in base.files:
            data = fetch_state_file(job.storage, file)
            assert len(data) == file.length
            assert sum(rows for _, _, rows in file.row_groups) == file.rows
            if file.format == "stream":
                assert all(first == last for first, last, _ in file.row_groups)
                ends = [offset + length for offset, length in file.spans]
                assert [offset for offset, _ in file.spans[1:]] == ends[:-1], "blocks are not contiguous"
                assert ends[-1] < file.length

    @pytest.mark.parametrize("point", E9)
    def test_a_crash_anywhere_is_finished_by_the_next_driver(self, root: str, point: CrashPoint) -> None:
        rng, job = random.Random(7), sample_job(root)
        first = self.publisher(job)
        published(job, first, job.epoch(random_changes(rng), checkpoint_id=1))
        dying = self.publisher(job, crash=CrashAt(point))
        dying._visible = first.completed()
        sealed = job.epoch(random_changes(rng), checkpoint_id=2)
        passed = False
        try:
            dying.begin(sealed)
        except Crashed:
            passed = True
        assert passed, f"{point} was not passed"
        reference = self.publisher(job).finish(job.epoch(kind="claim"))
        assert reference is not None
        assert reference.epoch == sealed.manifest.epoch
        check(job, read_base(job.storage, reference))

    @pytest.mark.parametrize("path", ["/part-", "/bases/"])
    @pytest.mark.parametrize("kind", ["before", "after"])
    def test_a_checkpoint_that_fails_is_covered_by_the_next(self, root: str, kind: str, path: str) -> None:
        rng, job = random.Random(3), sample_job(root)
        storage = FaultyStorage(job.storage)
        running = self.publisher(job, storage)
        for operation in ("open_exclusive", "write", "close", "put_exclusive", "put_if_absent"):
            # whatever a storage writes with, ten new names included
            storage.faults.append(Fault(kind, operation, path, times=None))  # type: ignore[arg-type]
        running.begin(job.epoch(random_changes(rng), checkpoint_id=1))
        assert kind == "after" or running.completed() is None
        storage.faults.clear()
        check(job, published(job, running, job.epoch(random_changes(rng), checkpoint_id=2)))

    @pytest.mark.parametrize("other", OTHERS, ids=lambda one: type(one).__name__)
    def test_a_job_may_come_from_another_storage(self, root: str, other: CheckpointStorage) -> None:
        rng, job = random.Random(5), sample_job(root)
        before = CheckpointPublisher(job.storage, job.job, checkpoint_storage=other, clock=ManualClock())
        for number in (1, 2):
            before.begin(job.epoch(random_changes(rng), checkpoint_id=number))
        job.adopt(before.completed())
        job.epoch(random_changes(rng))
        running = self.publisher(job)
        running.finish(job.epoch(kind="claim"))
        former = read_base(job.storage, before.completed()).storage  # type: ignore[arg-type]
        base = published(job, running, job.epoch(random_changes(rng), checkpoint_id=3))
        assert base.full or former == self.name
        check(job, base)
        check(job, published(job, running, job.epoch(random_changes(rng), checkpoint_id=4)))

    def test_savepoints_of_both_kinds_stand_on_it(self, root: str) -> None:
        job, base = self.one_checkpoint(root)
        pin = trigger_savepoint(root, job.job)
        paths = {path for path, _ in pin.handles}
        assert paths >= {file.path for file in base.files if file.inlined is None}
        assert not paths & {file.path for file in base.files if file.inlined is not None}
        for savepoint in (pin, trigger_savepoint(root, job.job, kind="canonical")):
            report = validate_savepoint(root, job.job, savepoint.savepoint_id)
            assert report.ok, report.findings

    def test_damage_is_found_and_named(self, root: str) -> None:
        job, base = self.one_checkpoint(root)
        for file in base.files:
            if file.inlined is not None:
                continue  # part of the base itself, which its hash protects
            good = job.storage.get(file.path)
            for n in range(0, len(good), 97):
                put_again(job.storage, file.path, good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :])
                with pytest.raises(DamagedFileError, match=file.path):
                    read_state_file(job.storage, file, 0, GROUPS - 1)
            job.storage.delete(file.path)
            with pytest.raises(MissingFileError, match=file.path):
                read_state_file(job.storage, file, 0, GROUPS - 1)
            with pytest.raises(MissingFileError, match=file.path):
                read_state_file(job.storage, file, file.first, file.first)
            put_again(job.storage, file.path, good)

    def one_checkpoint(self, root: str) -> tuple[JobBuilder, Base]:
        """Returns a job with one checkpoint, at its newest epoch, and the base of this checkpoint."""
        rng, job = random.Random(11), sample_job(root)
        for _ in range(3):
            job.epoch(random_changes(rng, 40))
        running = self.publisher(job)
        return job, published(job, running, job.epoch(random_changes(rng, 40), checkpoint_id=1))


def published(job: JobBuilder, publisher: CheckpointPublisher, sealed: StoredManifest) -> Base:
    """Publishes an epoch and returns its base."""
    publisher.begin(sealed)
    reference = publisher.completed()
    assert reference is not None, publisher._world.rows.rows()[-1].failure
    assert reference.epoch == sealed.manifest.epoch, publisher._world.rows.rows()[-1].failure
    return read_base(job.storage, reference)


def check(job: JobBuilder, base: Base) -> None:
    """Asserts that the files of a base fold to the model's state as of its epoch."""
    manifest = job.log.read(base.generation, base.epoch)
    for schema in SCHEMAS:
        live = load_groups([Segment(job.storage, base, ())], schema, 0, GROUPS - 1)
        assert model_of(schema, live) == job.rows(schema.uid, schema.name, manifest), schema.name


def groups_of(rows: pa.Table | None) -> list[int]:
    """Returns the key group of each row."""
    return [] if rows is None else [int(group) for group in rows.column("key_group").to_numpy()]


def bytes_of(file: StateFile, first: int, last: int) -> int:
    """Returns the exact number of bytes that a read of a range of key groups must fetch."""
    needed = [n for n, (low, high, _) in enumerate(file.row_groups) if low <= last and high >= first]
    if not needed or file.inlined is not None:
        return 0
    if file.format == "parquet":  # one row group: these files are small
        return file.length
    if len(needed) == len(file.spans):
        return file.length
    return file.spans[0][0] + sum(file.spans[n][1] for n in needed)


def put_again(storage: Storage, path: str, data: bytes) -> None:
    """Replaces an object, which only damage does in practice."""
    storage.delete(path)
    storage.put_if_absent(path, data)


__all__ = ["CheckpointStorageSuite", "CrashAt", "Crashed"]
