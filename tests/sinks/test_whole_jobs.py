"""Sinks of a whole job, without a JVM: drivers that die, damaged files, tables that their owners maintain."""

import os
import random
import shutil
import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from whole_job import BATCH, JOB, WholeJob, ended_at

from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import DamagedFileError, FencedError, MissingFileError, SinkAheadError, SinkRewindError
from state_engine.log.paths import EPOCHS
from state_engine.storage.open import open_storage

RESTORES = int(os.environ.get("LAKESTATE_RESTORES", "1000"))


@pytest.fixture
def job(tmp_path: Path) -> WholeJob:
    return WholeJob(tmp_path)


def numbers(batches: int) -> list[int]:
    return list(range(batches * BATCH))


def optimize_and_vacuum(table: str) -> None:
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def sealed_and_not_committed(job: WholeJob) -> None:
    ended_at(job, CrashPoint.E6_SEALED, 4, lambda driver: driver.steps(3))


def test_after_optimize_and_vacuum_the_job_goes_on(job: WholeJob) -> None:
    job.start().steps(3)
    optimize_and_vacuum(job.table)
    job.start().steps(2)
    assert job.rows() == numbers(5)


def test_after_optimize_and_vacuum_the_newest_epoch_is_restored_and_older_ones_with_keep_output(job: WholeJob) -> None:
    job.start().steps(3)
    optimize_and_vacuum(job.table)
    newest = job.log().read(1, 4)
    job.start(restore=newest, keep_output=True).steps(1)
    with pytest.raises(SinkRewindError, match="compacted"):
        job.start(restore=job.log().read(1, 3))
    job.start(restore=job.log().read(1, 3), keep_output=True).steps(1)
    assert set(job.rows()) == set(numbers(4))


def test_a_table_that_is_gone_with_the_output_of_the_newest_epoch_is_named_and_can_be_given_up(
    job: WholeJob, caplog: pytest.LogCaptureFixture
) -> None:
    job.start().steps(3)
    shutil.rmtree(job.table)
    before = job.log().epochs(1)
    with pytest.raises(MissingFileError, match="keep_output=True"):
        job.start()
    assert job.log().epochs(1) == before, "a start that was refused has written nothing"
    job.start(keep_output=True).steps(1)
    assert "'rows' of job 'job' goes without its output of epoch 4" in caplog.text
    job.start().steps(1)
    assert job.rows() == numbers(5)[3 * BATCH :]


def test_a_restore_of_a_table_that_is_gone_leaves_no_decision_that_cannot_be_carried_out(job: WholeJob) -> None:
    job.start().steps(3)
    shutil.rmtree(job.table)
    job.start(restore=job.log().read(1, 4), keep_output=True).steps(1)
    job.start().steps(1)
    assert job.rows() == numbers(5)[3 * BATCH :]


def test_what_is_owed_and_was_vacuumed_is_named_and_can_be_left_out(job: WholeJob) -> None:
    sealed_and_not_committed(job)
    job.staged(4).unlink()
    with pytest.raises(MissingFileError, match="keep_output=True"):
        job.start()
    job.start(keep_output=True).steps(1)
    job.start().steps(1)
    assert job.rows() == [n for n in numbers(5) if n // BATCH != 2]
    assert job.rows_in_memory() == numbers(5), "the other sink got what it is owed"


@pytest.mark.parametrize("where", ["table", "root"])
def test_a_bit_that_flipped_in_what_is_owed_reaches_no_sink(job: WholeJob, where: str) -> None:
    sealed_and_not_committed(job)
    if where == "table":
        path = job.staged(4)
    else:
        [path] = (Path(job.root) / JOB / EPOCHS / "g000001" / "changes").glob("e0000000004-*-memory.parquet")
    before = job.log().epochs(1)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # pytest shows it if the test fails
    rng = random.Random(seed)
    for place in rng.sample(range(path.stat().st_size), 20):
        data = bytearray(path.read_bytes())
        data[place] ^= 1 << rng.randrange(8)
        sound = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises(DamagedFileError, match=path.name):
            job.start()
        path.write_bytes(sound)
    assert job.log().epochs(1) == before
    job.start().steps(1)
    assert (job.rows(), job.rows_in_memory()) == (numbers(4), numbers(4))


def test_a_bit_that_flipped_in_what_has_to_come_back_stops_the_restore(job: WholeJob) -> None:
    job.start().steps(3)
    job.start(restore=job.log().read(1, 2)).steps(1)
    path = job.staged(4)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    before = job.log().generations()
    with pytest.raises((DamagedFileError, SinkRewindError)):
        job.start(restore=job.log().read(1, 4))
    assert job.log().generations() == before


def test_a_root_that_was_removed_is_refused_until_the_rows_are_adopted(job: WholeJob) -> None:
    job.start().steps(3)
    shutil.rmtree(job.root)
    for _ in range(2):
        with pytest.raises(SinkAheadError, match=r"up to epoch 4 of generation 1"):
            job.start()
        assert not list(open_storage(job.root, JOB).list(EPOCHS))
    job.start(adopt_sinks=True).steps(2)
    job.start().steps(1)
    assert job.rows() == sorted([*numbers(3), *numbers(3)])


@pytest.mark.parametrize("restores", [6, pytest.param(RESTORES, marks=[pytest.mark.long, pytest.mark.timeout(0)])])
def test_a_restore_that_meets_the_commits_of_a_living_driver_doubles_nothing(tmp_path: Path, restores: int) -> None:
    for number in range(restores):
        job = WholeJob(tmp_path / str(number))
        old = job.start().steps(2)
        commit, pauses = old.sinks.commit, [random.uniform(0, 0.05) for _ in range(2)]
        old.sinks.commit = lambda sealed, commit=commit, pauses=pauses: (time.sleep(pauses[0]), commit(sealed))[1]  # type: ignore[assignment]
        ended: list[BaseException] = []

        def live(old=old, ended=ended) -> None:  # type: ignore[no-untyped-def]
            try:
                while True:
                    old.step()
            except FencedError as error:
                ended.append(error)

        thread = threading.Thread(target=live)
        thread.start()
        time.sleep(pauses[1])
        new = job.start(restore=job.log().read(1, 2))
        thread.join()
        new.steps(1)
        assert ended
        assert job.rows() == numbers(new.offset // BATCH)
        shutil.rmtree(tmp_path / str(number))
