import random
import shutil
from pathlib import Path

import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import (
    DamagedFileError,
    DamagedManifestError,
    JobDefinitionError,
    MissingFileError,
    NothingToRestoreError,
    SavepointError,
    StorageError,
)
from state_engine.inspect import open_job, read_state
from state_engine.log.paths import manifest_path, pin_path
from state_engine.savepoint import (
    dispose_savepoint,
    list_savepoints,
    load_savepoint,
    read_pinned,
    resolve_restore,
    trigger_savepoint,
)
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import load_groups
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def running_job(root: str) -> tuple[JobBuilder, CheckpointPublisher]:
    rng = random.Random(2)
    job = sample_job(root)
    job.epoch(random_changes(rng))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(random_changes(rng), checkpoint_id=1))
    job.adopt(publisher.completed())
    job.epoch(random_changes(rng))
    job.epoch(random_changes(rng), parallelism=3)
    return job, publisher


def assert_pinned(job: JobBuilder, pin_id: str) -> None:
    pin = load_savepoint(job.root, job.job, pin_id)
    pinned = read_pinned(job.storage, pin)
    assert pinned.head.hash == pin.manifest
    for schema in SCHEMAS:
        live = load_groups([pinned.segment], schema, 0, 12)
        expected = job.rows(schema.uid, schema.name, job.log.read(pin.generation, pin.epoch))
        assert model_of(schema, live) == expected


def test_pins_the_newest_epoch_and_lists_it(root: str) -> None:
    job, _ = running_job(root)
    clock = ManualClock(1_700_000_000_000)
    pin = trigger_savepoint(root, job.job, clock=clock, ids=CountingIds(), label="l", note="n", trigger="schedule")
    assert pin.savepoint_id == "sp-20231114T221320-00000001"
    assert (pin.generation, pin.epoch) == (1, 4)
    assert [path for path, _ in pin.manifests] == [manifest_path(1, 3), manifest_path(1, 4)]
    assert list_savepoints(root, job.job) == [pin]
    assert_pinned(job, pin.savepoint_id)
    row = open_job(root, job.job)._rows.rows()[-1]
    assert (row.kind, row.id, row.label, row.note, row.trigger) == ("savepoint", pin.savepoint_id, "l", "n", "schedule")
    assert job.head is not None
    assert open_job(root, job.job).newest() == job.head, "no claim, no epoch"


def test_pins_without_a_base_at_a_base_and_in_the_past(root: str) -> None:
    job, _ = running_job(root)
    for epoch, manifests in ((1, 1), (2, 1), (3, 1), (4, 2)):
        pin = trigger_savepoint(root, job.job, epoch=epoch)
        assert len(pin.manifests) == manifests
        assert (pin.base is None) == (epoch == 1)
        assert_pinned(job, pin.savepoint_id)
    assert len({pin.savepoint_id for pin in list_savepoints(root, job.job)}) == 4


def test_names_are_never_used_twice(root: str) -> None:
    job, _ = running_job(root)
    first = trigger_savepoint(root, job.job, clock=ManualClock(), ids=CountingIds())
    second = trigger_savepoint(root, job.job, clock=ManualClock(), ids=CountingIds())
    assert first.savepoint_id != second.savepoint_id


def test_a_pin_needs_no_delta_version_and_no_table(tmp_path: Path) -> None:
    job, publisher = running_job(str(tmp_path))
    pin = trigger_savepoint(job.root, job.job)
    for checkpoint in (2, 3):
        publisher.begin(job.epoch(random_changes(random.Random(checkpoint)), checkpoint_id=checkpoint))
    assert publisher.failures == 0
    for log in Path(tmp_path).rglob("_delta_log"):
        shutil.rmtree(log)
    assert_pinned(job, pin.savepoint_id)
    live = read_state(job.root, job.job, "aircraft", "count", at=pin.savepoint_id)
    assert model_of(SCHEMAS[0], live) == job.rows("aircraft", "count", job.log.read(1, 4))


def test_a_pin_that_cannot_be_restored_is_removed(root: str) -> None:
    job, _ = running_job(root)
    assert job.head is not None
    handle = next(ack.changes for ack in job.head.manifest.operators["aircraft"].acks if ack.changes)
    job.storage.delete(handle.path)
    with pytest.raises(MissingFileError, match=handle.path):
        trigger_savepoint(root, job.job)
    assert job.storage.list("_savepoints") == []
    assert list_savepoints(root, job.job) == []


def test_a_pin_that_cannot_be_verified_is_removed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = running_job(root)

    def no_answer(*_: object) -> None:
        raise StorageError("simulated: no answer")

    monkeypatch.setattr("state_engine.savepoint.native.verify_handles", no_answer)
    with pytest.raises(StorageError, match="no answer"):
        trigger_savepoint(root, job.job)
    assert job.storage.list("_savepoints") == []


def test_one_that_may_not_be_listed_is_named(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = running_job(root)

    def no_answer(*_: object, **__: object) -> None:
        raise StorageError("simulated: no answer")

    monkeypatch.setattr("state_engine.savepoint.trigger.CheckpointTable.append", no_answer)
    with pytest.raises(SavepointError, match="is complete, but it may not be listed: simulated: no answer") as caught:
        trigger_savepoint(root, job.job)
    assert list_savepoints(root, job.job) == []
    [savepoint_id] = job.storage.folders("_savepoints")
    assert savepoint_id in caught.value.message
    assert_pinned(job, savepoint_id)
    assert dispose_savepoint(root, job.job, savepoint_id)


def test_what_became_of_the_files_is_seen_when_it_is_loaded(tmp_path: Path) -> None:
    job, _ = running_job(str(tmp_path))
    pin = trigger_savepoint(job.root, job.job)
    path, length = next(handle for handle in pin.handles if handle[0].endswith(".parquet"))
    file = Path(tmp_path, "flights", path)
    file.chmod(0o644)
    with file.open("ab") as grown:
        grown.write(b"x")
    with pytest.raises(DamagedFileError, match=f"has {length + 1} bytes, expected {length}"):
        load_savepoint(job.root, job.job, pin.savepoint_id)
    file.unlink()
    with pytest.raises(MissingFileError, match=pin.savepoint_id):
        load_savepoint(job.root, job.job, pin.savepoint_id)


def test_a_pin_that_is_not_listed_can_be_loaded_but_is_not_shown(root: str) -> None:
    job, _ = running_job(root)
    pin = trigger_savepoint(root, job.job)
    data = job.storage.get(pin_path(pin.savepoint_id))
    job.storage.put_if_absent(pin_path("sp-crashed"), data)
    assert list_savepoints(root, job.job) == [pin]
    assert load_savepoint(root, job.job, "sp-crashed").epoch == 4


def test_restore_targets(root: str) -> None:
    job, _ = running_job(root)
    pin = trigger_savepoint(root, job.job, epoch=3)
    places = {
        "latest": (4, None),
        "checkpoint:1": (2, None),
        "epoch:1/3": (3, None),
        pin.savepoint_id: (3, pin.savepoint_id),
        f"flights/{pin.savepoint_id}": (3, pin.savepoint_id),
    }
    for what, expected in places.items():
        target = resolve_restore(root, "flights", what)
        assert (target.stored.manifest.epoch, target.savepoint_id) == expected, what
    other = resolve_restore(root, "fork", f"flights/{pin.savepoint_id}")
    assert other.stored.manifest.job == "flights"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("sp-none", "no savepoint 'sp-none'; it has sp-"),
        ("checkpoint:9", "no completed checkpoint '9'; it has 1"),
        ("epoch:1/99", "its epochs 1 to 4 are sealed"),
        ("epoch:1", "names nothing"),
        ("table:3", "names nothing"),
        ("nobody/sp-none", "Job 'nobody' has no savepoint 'sp-none'; it has none"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(root: str, what: str, message: str) -> None:
    job, _ = running_job(root)
    trigger_savepoint(root, job.job)
    with pytest.raises(NothingToRestoreError, match=message):
        resolve_restore(root, job.job, what)


def test_names_do_not_leave_the_root(root: str) -> None:
    job, _ = running_job(root)
    for what in ("..", "../../x/y", "a/../b"):
        with pytest.raises(JobDefinitionError):
            resolve_restore(root, job.job, what)


def test_a_fork_is_pinned_from_its_first_checkpoint_on(root: str) -> None:
    job, _ = running_job(root)
    fork = job.fork("fork")
    fork.epoch(random_changes(random.Random(7)))
    with pytest.raises(SavepointError, match="of job 'fork' still needs files of job 'flights'") as caught:
        trigger_savepoint(root, "fork")
    assert "checkpoint_interval_ms" in caught.value.action
    assert "restore epoch 4 of job 'flights'" in caught.value.action
    assert list_savepoints(root, "fork") == []
    publisher = CheckpointPublisher(
        fork.storage, "fork", clock=ManualClock(), open_job=lambda other: open_storage(root, other)
    )
    publisher.begin(fork.epoch(checkpoint_id=1))
    assert_pinned(fork, trigger_savepoint(root, "fork").savepoint_id)


def test_an_epoch_off_the_lineage_is_refused(root: str) -> None:
    job, _ = running_job(root)
    pin = trigger_savepoint(root, job.job)
    job.restore(job.log.read(1, 3))
    with pytest.raises(NothingToRestoreError, match="not on the current lineage"):
        trigger_savepoint(root, job.job, epoch=9)
    assert_pinned(job, pin.savepoint_id)  # its epoch is abandoned, but it still exists
    assert trigger_savepoint(root, job.job).generation == 2


def test_a_job_without_epochs_has_nothing(root: str) -> None:
    with pytest.raises(NothingToRestoreError, match="no sealed epoch"):
        trigger_savepoint(root, "flights")


def test_a_checkpoint_of_another_manifest_is_damage(root: str) -> None:
    job, _ = running_job(root)
    stored = job.log.read(1, 2)
    job.storage.delete(manifest_path(1, 2))
    from msgspec.structs import replace

    from state_engine.log.manifest import encode_manifest

    job.storage.put_if_absent(manifest_path(1, 2), encode_manifest(replace(stored.manifest, processing_time=1))[0])
    with pytest.raises(DamagedManifestError, match="checkpoint 1 was made of"):
        resolve_restore(root, job.job, "checkpoint:1")
