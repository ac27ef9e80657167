"""Leftovers of savepoints after a crash: tables elsewhere go, complete savepoints without a row are reported."""

import random
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import model, running_job, state_of

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.leftovers import SETTLED_MS, Abandoned
from state_engine.checkpoint.retention.policy import DAY_MS, RetentionPolicy
from state_engine.checkpoint.table import CheckpointTable
from state_engine.errors import SavepointError, StorageError
from state_engine.log.paths import METADATA, pin_path
from state_engine.savepoint import SavepointKind, dispose_savepoint, list_savepoints, retain, trigger, trigger_savepoint
from state_engine.storage.open import open_root
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import random_changes

AT_ONCE = RetentionPolicy(grace_ms=0)


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Five epochs; checkpoints at the second and the fifth, so that nothing needs the first one."""
    job = running_job(str(tmp_path / "root"))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(random_changes(random.Random(9)), checkpoint_id=2))
    job.adopt(publisher.completed())
    return job


class Killed(BaseException):
    """The process has died."""


def killed_while_writing(job: JobBuilder, directory: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> str:
    """Begins a canonical savepoint of epoch 1 in another folder, and dies after one file; returns its id."""
    left: list[tuple[str, bytes]] = []

    def write(_root: str, draft: Any, *_: Any) -> None:
        assert draft.directory is not None
        open_root(draft.directory).put_if_absent("aircraft/count/part-x.parquet", b"half")
        left.append((draft.savepoint_id, job.storage.get(pin_path(draft.savepoint_id))))
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(trigger, "write_canonical", write)
        with pytest.raises(Killed):
            trigger_savepoint(job.root, job.job, kind="canonical", directory=str(directory), epoch=1, clock=clock)
    [(name, pin)] = left
    job.storage.put_if_absent(pin_path(name), pin)  # a killed process cleans nothing up
    return name


def test_what_a_dead_writer_left_in_another_folder_goes_after_a_day(
    job: JobBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    name = killed_while_writing(job, tmp_path / "backup", clock, monkeypatch)
    folder = tmp_path / "backup" / name
    clock.advance(DAY_MS - 1)
    assert retain(job.root, job.job, AT_ONCE, clock=clock).plan.abandoned == ()
    clock.advance(1)
    dry = retain(job.root, job.job, AT_ONCE, dry_run=True, clock=clock).plan
    assert dry.abandoned == (Abandoned(name, str(folder), 1, 4),)
    assert dry.bytes == 4 + sum(removal.bytes for removal in dry.removals)
    assert len(open_root(str(folder)).list("")) == 1, "a dry run changes nothing"
    assert retain(job.root, job.job, AT_ONCE, clock=clock).cleared == (str(folder),)
    assert open_root(str(folder)).list("") == []
    assert job.storage.exists(pin_path(name)), "the pin names the folder until that is empty"
    assert retain(job.root, job.job, AT_ONCE, clock=clock).cleared == ()
    assert not job.storage.exists(pin_path(name))
    assert state_of(job.root, job.job) == model(job, 5)


def test_what_was_finished_in_another_folder_stays(
    job: JobBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    name = killed_while_writing(job, tmp_path / "backup", clock, monkeypatch)
    there = open_root(str(tmp_path / "backup" / name))
    there.put_if_absent(METADATA, b"{}")
    clock.advance(DAY_MS)
    done = retain(job.root, job.job, AT_ONCE, clock=clock)
    assert (done.plan.abandoned, done.cleared) == ((), ())
    assert len(there.list("")) == 2
    assert not job.storage.exists(pin_path(name))


@pytest.mark.parametrize("kind", ["native", "canonical"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_complete_savepoint_without_a_row_is_reported_and_stays(
    job: JobBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SavepointKind, elsewhere: bool
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("The network is down.")

    directory, clock = str(tmp_path / "backup") if elsewhere else None, ManualClock()
    listed = trigger_savepoint(job.root, job.job, clock=clock)
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointTable, "append", refuse)
        with pytest.raises(SavepointError, match="may not be listed"):
            trigger_savepoint(job.root, job.job, kind=kind, directory=directory, epoch=1, clock=clock)
    assert list_savepoints(job.root, job.job) == [listed]
    clock.advance(SETTLED_MS - 1)
    assert retain(job.root, job.job, AT_ONCE, dry_run=True, clock=clock).plan.unlisted == ()
    clock.advance(DAY_MS)
    [found] = retain(job.root, job.job, AT_ONCE, clock=clock).plan.unlisted
    assert (found.kind, found.bytes > 0) == (kind, True)
    assert found.directory == (f"{directory}/{found.savepoint_id}" if elsewhere else None)
    assert state_of(job.root, job.job, found.savepoint_id) == model(job, 1)
    assert dispose_savepoint(job.root, job.job, found.savepoint_id)
    assert retain(job.root, job.job, AT_ONCE, clock=clock).plan.unlisted == ()
