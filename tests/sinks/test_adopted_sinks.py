"""Sinks that a job adopts: with an unfinished restore, with owed epochs, with other sinks, in a fork."""

import shutil
from pathlib import Path

import pytest
from whole_job import BATCH, Died, Driver, WholeJob

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import TableFence
from state_engine.epoch.sink_moves import transaction_version
from state_engine.epoch.table_fences import foreign_or_ahead
from state_engine.errors import SinkAheadError, SinkError
from state_engine.log.birth import birth_number
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage


def numbers(batches: int) -> list[int]:
    return list(range(batches * BATCH))


@pytest.fixture
def job(tmp_path: Path) -> WholeJob:
    return WholeJob(tmp_path)


def keep(job: WholeJob) -> str:
    return shutil.copytree(job.root, f"{job.root}-kept")


def put_back(job: WholeJob, kept: str) -> None:
    shutil.rmtree(job.root)
    shutil.copytree(kept, job.root)


def refused_at_its_commit(job: WholeJob, other: WholeJob) -> None:
    """Leaves `job` with a sealed epoch that its table refused, since `other` had written to it."""
    one, two = job.start(), other.start()
    two.step()
    with pytest.raises(SinkAheadError, match="another job"):
        one.step()


def test_a_generation_that_tables_have_left_is_passed_over(job: WholeJob) -> None:
    job.start().steps(3)
    with pytest.raises(Died):
        job.start(restore=job.log().read(1, 3), dies_at=CrashPoint.S2_CLOSED, epoch=5)
    kept = keep(job)
    job.start().steps(1)
    third = job.start(restore=job.log().read(2, 5)).steps(1)
    assert third.generation == 3
    put_back(job, kept)
    with pytest.raises(SinkAheadError):
        job.start()
    adopted = job.start(adopt_sinks=True)
    before = job.rows()
    adopted.steps(2)
    assert adopted.generation == 4
    assert job.rows() == sorted([*before, *range(adopted.offset - 2 * BATCH, adopted.offset)])
    job.start().steps(1)
    assert len(job.rows()) == len(before) + 3 * BATCH


def test_what_a_table_refused_is_there_once_it_is_adopted(job: WholeJob, tmp_path: Path) -> None:
    refused_at_its_commit(job, WholeJob(tmp_path, root="other"))
    job.start(adopt_sinks=True).steps(1)
    assert job.rows() == sorted([*numbers(1), *numbers(2)])
    assert job.rows_in_memory() == numbers(2)


def test_what_a_table_refused_is_not_forgotten_when_the_sink_moves(job: WholeJob, tmp_path: Path) -> None:
    refused_at_its_commit(job, WholeJob(tmp_path, root="other"))
    job.table = str(tmp_path / "moved")
    with pytest.raises(SinkError, match="may still owe its output"):
        job.start()


def test_no_sink_is_rewound_in_a_start_that_adopts_one(job: WholeJob) -> None:
    job.start().steps(1)
    kept = keep(job)
    job.start().steps(2)
    put_back(job, kept)
    target = job.log().read(1, 2)
    with pytest.raises(SinkAheadError, match="no sink is rewound"):
        job.start(restore=target, adopt_sinks=True)
    assert job.start(restore=target, adopt_sinks=True, keep_output=True).steps(1).generation == 2
    assert job.rows() == sorted([*numbers(3), *numbers(2)[BATCH:]])


def test_a_fork_that_is_always_started_from_its_savepoint_is_adopted_too(job: WholeJob, tmp_path: Path) -> None:
    job.start().steps(1)
    fork, target = WholeJob(tmp_path, name="fork"), job.log().read(1, 2)
    fork.table = str(tmp_path / "of the fork")

    def start(**options: bool) -> Driver:
        return fork.start(restore=target, **options)

    start().steps(1)
    kept = keep(fork)
    start().steps(2)
    put_back(fork, kept)
    with pytest.raises(SinkAheadError):
        start()
    before = fork.rows()
    start(adopt_sinks=True).steps(1)
    assert len(fork.rows()) == len(before) + BATCH


def test_a_restore_to_before_what_was_left_out_misses_nothing(job: WholeJob) -> None:
    with pytest.raises(Died):
        job.start(dies_at=CrashPoint.E6_SEALED, epoch=3).steps(2)
    job.staged(3).unlink()
    job.start(keep_output=True).steps(2)
    job.start(restore=job.log().read(1, 2)).steps(1)
    assert job.rows() == numbers(2)


def test_a_restore_that_was_under_way_when_all_was_deleted_stops_no_start() -> None:
    birth = "ab" * 16
    log = ManifestLog(MemoryStorage(), "flights")
    log.create_birth_id(birth, 0)
    fenced = TableFence(uid="x", table="t", fence=transaction_version(2, 0), birth=birth_number(birth))
    assert foreign_or_ahead([fenced], log, None, {1: 9}) == []
    further = TableFence(uid="x", table="t", fence=transaction_version(2, 1), birth=birth_number(birth))
    assert foreign_or_ahead([further], log, None, {1: 9}) == [further]
