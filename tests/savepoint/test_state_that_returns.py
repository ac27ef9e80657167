"""An operator that was dropped comes back: its old state is resumed, or discarded."""

from pathlib import Path

import pytest
from canonical_jobs import NoSinks
from rekey_jobs import SCHEMAS, assert_state, job_of, start_rewritten

from state_engine.errors import StateReturnsError, UnknownOperatorError
from state_engine.inspect import open_job, read_state
from state_engine.log.records import Manifest
from state_engine.savepoint.restore import JobRestore
from state_engine.testing.jobs import JobBuilder

WITHOUT = tuple(schema for schema in SCHEMAS if schema.uid != "carrier")


def head_of(job: JobBuilder) -> Manifest:
    newest_epoch = open_job(job.root, job.job).newest()
    assert newest_epoch is not None
    return newest_epoch.manifest


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Ran a release without `carrier` after one in which `carrier` had state."""
    job = job_of(str(tmp_path))
    start_rewritten(job.root, job.job, None, schemas=WITHOUT, allow_non_restored_state=True)
    assert head_of(job).operators["carrier"].left_at == 5
    return job


def test_it_is_refused_without_a_word(job: JobBuilder) -> None:
    with pytest.raises(StateReturnsError, match="'carrier' is back"):
        start_rewritten(job.root, job.job, None)


def test_it_resumes_all_of_it(job: JobBuilder) -> None:
    start_rewritten(job.root, job.job, None, resume_state=("carrier",))
    assert_state(job.root, job.job, job.models[1, 4], 13)


def test_it_begins_without_any_and_the_others_keep_theirs(job: JobBuilder) -> None:
    start_rewritten(job.root, job.job, "latest", discard_state=("carrier",))
    expected = {name: ({} if name[0] == "carrier" else entries) for name, entries in job.models[1, 4].items()}
    for schema in SCHEMAS:
        rows = read_state(job.root, job.job, schema.uid, schema.name)
        assert bool(rows.num_rows) == bool(expected[schema.uid, schema.name])
    head = head_of(job)
    assert head.operators["carrier"].unwritten
    assert head.timers.get("carrier") is None


def test_what_is_asked_for_again_discards_nothing_again(job: JobBuilder) -> None:
    start_rewritten(job.root, job.job, None, resume_state=("carrier",))
    start_rewritten(job.root, job.job, "latest", discard_state=("carrier",))
    assert_state(job.root, job.job, job.models[1, 4], 13)


def test_a_restore_without_the_code_leaves_it_as_it_is(job: JobBuilder) -> None:
    JobRestore(job.root, job.job, "latest", lambda *_: NoSinks()).run()
    assert head_of(job).operators["carrier"].left_at == 5
    start_rewritten(job.root, job.job, None, schemas=WITHOUT, allow_non_restored_state=True)


def test_an_operator_that_the_job_does_not_have_is_named(job: JobBuilder) -> None:
    with pytest.raises(UnknownOperatorError, match=r"'carier' is to be discarded.*carrier"):
        start_rewritten(job.root, job.job, "latest", discard_state=("carier",))
