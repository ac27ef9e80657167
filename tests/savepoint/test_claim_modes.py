"""Whether a savepoint belongs to the job after a restore, and is deleted with it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import NoSinks
from rekey_jobs import assert_state, files_below, job_of, start_rewritten

from state_engine.errors import RestoreError
from state_engine.savepoint import list_savepoints, trigger_savepoint
from state_engine.savepoint.restore import JobRestore


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def restore(root: str, job: str, source: str, **options: Any) -> None:
    JobRestore(root, job, source, lambda *_: NoSinks(), **options).run()


@pytest.mark.parametrize("kind", ["native", "canonical"])
@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
@pytest.mark.parametrize("groups", [None, 128])
def test_a_claimed_savepoint_goes_with_the_restore(root: str, kind: Any, mode: Any, groups: int | None) -> None:
    job = job_of(root)
    savepoint = trigger_savepoint(root, "flights", kind=kind, epoch=3)
    restore(root, "flights", savepoint.savepoint_id, claim_mode=mode, max_parallelism=groups)
    assert [one.savepoint_id for one in list_savepoints(root, "flights")] == (
        [savepoint.savepoint_id] if mode == "NO_CLAIM" else []
    )
    assert_state(root, "flights", job.models[1, 3], groups or 13)
    start_rewritten(root, "flights", None, groups=groups)


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_one_that_was_moved_is_removed_at_its_new_place(root: str, tmp_path: Path, mode: Any) -> None:
    expected = job_of(root).models[1, 4]
    savepoint = trigger_savepoint(root, "flights", kind="canonical")
    folder = shutil.move(Path(root, "flights", "_savepoints", savepoint.savepoint_id), tmp_path / "moved")
    Path(folder, "a file of mine").write_text("stays")
    before = files_below(str(folder))
    restore(str(tmp_path / "new"), "copy", str(folder), claim_mode=mode)
    left = files_below(str(folder))
    assert left == before if mode == "NO_CLAIM" else [Path(path).name for path in left] == ["a file of mine"]
    assert_state(str(tmp_path / "new"), "copy", expected, 13)


def test_a_native_one_of_another_job_is_not_to_be_had(root: str) -> None:
    job_of(root)
    pin = trigger_savepoint(root, "flights")
    before = files_below(root)
    with pytest.raises(RestoreError, match=r"cannot be claimed by job 'copy'.*NO_CLAIM"):
        restore(root, "copy", f"flights/{pin.savepoint_id}", claim_mode="CLAIM")
    assert files_below(root) == before
    restore(root, "copy", f"flights/{pin.savepoint_id}", claim_mode="CLAIM", max_parallelism=7)  # copied: may go
    assert list_savepoints(root, "flights") == []


def test_a_mode_that_is_none_is_refused(root: str) -> None:
    job_of(root)
    with pytest.raises(RestoreError, match=r"'LEGACY'.*NO_CLAIM, CLAIM"):
        restore(root, "flights", "latest", claim_mode="LEGACY")


def test_checkpoints_and_epochs_are_the_jobs_own_anyway(root: str) -> None:
    job = job_of(root)
    pin = trigger_savepoint(root, "flights")
    for source in ("checkpoint:2", "epoch:1/3", "latest"):
        restore(root, "flights", source, claim_mode="CLAIM")
    assert [one.savepoint_id for one in list_savepoints(root, "flights")] == [pin.savepoint_id]
    assert_state(root, "flights", job.models[1, 3], 13)
