"""What a job has done lately, and how its state is distributed over key groups."""

from pathlib import Path

import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import NothingToRestoreError
from state_engine.inspect import activity_of, open_job
from state_engine.inspect.scan import ReadKeyGroups, row_groups_of
from state_engine.key_groups import key_group_of
from state_engine.storage.state_reader import read_base
from state_engine.testing.changes import put
from state_engine.testing.sample_jobs import sample_job

COUNT = ("aircraft", "count")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def test_rates_are_over_epochs_that_have_ended(root: str) -> None:
    job = sample_job(root)  # an epoch each second
    for records in (3, 5, 100):
        job.epoch({COUNT: [put(f"N{n}", n) for n in range(records)]})
    activity = activity_of(open_job(root, "flights"))
    aircraft, carrier = activity.operators
    assert aircraft.records == (3, 5, 100)
    assert aircraft.records_per_s == pytest.approx(4.0)
    assert carrier.records_per_s == 0
    assert activity.epochs_per_s == pytest.approx(1.0)
    assert activity_of(open_job(root, "flights"), epochs=2).operators[0].records == (5, 100)


def test_one_epoch_has_no_rate(root: str) -> None:
    sample_job(root).epoch()
    activity = activity_of(open_job(root, "flights"))
    assert (activity.epochs_per_s, activity.operators[0].records_per_s) == (None, None)


def test_claims_do_not_count_as_epochs(root: str) -> None:
    job = sample_job(root)
    job.epoch(kind="claim")
    job.epoch({COUNT: [put("N1", 1)]})
    assert activity_of(open_job(root, "flights")).operators[0].records == (1,)


def test_a_hot_key_group_is_seen_with_and_without_a_checkpoint(root: str) -> None:
    job = sample_job(root)
    hot = key_group_of(("N1",), ["string"], 13)
    sealed = job.epoch({COUNT: [put("N1", n) for n in range(40)]}, checkpoint_id=1)
    [count, legs, seen] = activity_of(open_job(root, "flights")).groups
    assert count.rows == tuple(40.0 if group == hot else 0.0 for group in range(13))
    assert count.skew == pytest.approx(13)
    assert (legs.skew, seen.skew) == (None, None)
    publisher = CheckpointPublisher(job.storage, job.job)
    publisher.begin(sealed)
    job.adopt(publisher.completed())
    job.epoch({COUNT: [put("N1", 1)]})
    [count, _, _] = activity_of(open_job(root, "flights")).groups
    assert count.rows[hot] == 2  # the base has folded 40 rows to one


def test_key_groups_that_share_a_row_group_are_counted_separately(root: str) -> None:
    job = sample_job(root)
    keys = [f"N{n}" for n in range(60)]
    publisher = CheckpointPublisher(job.storage, job.job)
    publisher.begin(job.epoch({COUNT: [put(key, 1) for key in keys]}, checkpoint_id=1))
    job.adopt(publisher.completed())
    wanted = [0.0] * 13
    for key in keys:
        wanted[key_group_of((key,), ["string"], 13)] += 1
    view = open_job(root, "flights")
    assert activity_of(view).groups[0].rows == tuple(wanted)
    for info in job.storage.list("aircraft/count", recursive=False):
        job.storage.delete(info.path)
    assert view.key_groups()[0][2] == wanted  # a file is read once


def test_for_large_files_the_base_has_enough_information(root: str) -> None:
    job = sample_job(root)
    publisher = CheckpointPublisher(job.storage, job.job)
    publisher.begin(job.epoch({COUNT: [put(f"N{n}", 1) for n in range(60)]}, checkpoint_id=1))
    base = read_base(job.storage, publisher.completed())
    [file] = [file for file in base.files if file.schema_id == "aircraft.count.1"]
    assert ReadKeyGroups(largest=0)(job.storage, file) == row_groups_of(job.storage, file)
    assert sum(rows for _, _, rows in ReadKeyGroups()(job.storage, file)) == 60


def test_a_job_that_never_ran_has_no_activity(root: str) -> None:
    with pytest.raises(NothingToRestoreError, match="no sealed epoch"):
        activity_of(open_job(root, "flights"))
    assert open_job(root, "flights").key_groups() == []
