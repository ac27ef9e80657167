"""A root that is lost with everything in it, recovered as the runbook docs/runbooks/a-broken-savepoint.md says."""

import shutil
from pathlib import Path

import pytest
from whole_job import BATCH, JOB, WholeJob

from state_engine.errors import SinkAheadError
from state_engine.savepoint import trigger_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.spark.sinks.recorded import RecordedSinks


def numbers(batches: int) -> list[int]:
    return list(range(batches * BATCH))


@pytest.fixture
def lost(tmp_path: Path) -> tuple[WholeJob, str]:
    """A lost job: a canonical savepoint of three batches is left, and a table with four."""
    job = WholeJob(tmp_path)
    job.start().steps(3)
    taken = trigger_savepoint(job.root, JOB, kind="canonical", directory=str(tmp_path / "elsewhere"))
    job.start().steps(1)
    shutil.rmtree(job.root)
    return job, f"{tmp_path / 'elsewhere'}/{taken.savepoint_id}"


def restore_of(job: WholeJob, source: str, *, adopt_sinks: bool = False) -> JobRestore:
    return JobRestore(job.root, JOB, source, RecordedSinks, adopt_sinks=adopt_sinks)


def test_the_runbook_as_it_is_written(lost: tuple[WholeJob, str]) -> None:
    job, source = lost
    [refusal] = restore_of(job, source).plan().refusals
    assert refusal.error == "SinkAheadError"
    with pytest.raises(SinkAheadError, match=r"up to epoch \d+ of generation 1.*has no epoch"):
        restore_of(job, source).run()
    assert not [path for path in Path(job.root).rglob("*") if path.is_file()], "a refused start has written nothing"

    assert restore_of(job, source, adopt_sinks=True).plan().refusals == ()
    restore_of(job, source, adopt_sinks=True).run()
    assert job.start().steps(2).generation == 2
    assert job.rows() == sorted([*numbers(4), *numbers(5)[3 * BATCH :]]), "the fourth batch was read again"
    job.start().steps(1)
    assert set(job.rows()) == set(numbers(6))


def test_a_start_with_the_code_of_the_job_says_the_same(lost: tuple[WholeJob, str]) -> None:
    job, _ = lost
    with pytest.raises(SinkAheadError, match="adopt_sinks"):
        job.start()
