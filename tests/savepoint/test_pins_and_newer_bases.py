"""A newer base becomes visible while a savepoint is written: what it lists is kept, or it is refused."""

import random
from pathlib import Path

import pytest

from state_engine.checkpoint.fold_inputs import newest_fold_inputs
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.ports import Mark
from state_engine.errors import CondemnedError
from state_engine.log.paths import SAVEPOINTS, condemned_path
from state_engine.log.retention_records import Condemned, CondemnedFile, encode_condemned
from state_engine.savepoint.native import draft_pin, write_pin
from state_engine.storage.open_access import open_tables
from state_engine.storage.state_reader import read_base
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import random_changes, sample_job


def test_files_of_the_older_base_may_not_be_condemned(tmp_path: Path) -> None:
    job, rng = sample_job(f"memory://{tmp_path}"), random.Random(5)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds())
    first = job.epoch(random_changes(rng), checkpoint_id=1)
    publisher.begin(first, Mark(checkpoint_id=1, full=True, trigger="test"))
    older = publisher.completed()
    assert older is not None
    second = job.epoch(random_changes(rng), checkpoint_id=2)
    head = job.epoch(random_changes(rng))
    chain_after = newest_fold_inputs(job.storage, job.log, CheckpointTable(job.storage, open_tables(job.storage)), head)
    draft = draft_pin(job.storage, head, chain_after)
    assert draft.base == older
    publisher.begin(second, Mark(checkpoint_id=2, full=True, trigger="test"))
    assert publisher.completed() not in (None, older)
    file = next(file.path for file in read_base(job.storage, older).files if file.inlined is None)
    condemned = CondemnedFile(path=file, bytes=1, reason="a newer base covers it")
    going = Condemned(list_id="a", job=job.job, condemned_at=0, grace_ms=0, files=(condemned,))
    job.storage.put_if_absent(condemned_path("a"), encode_condemned(going))
    with pytest.raises(CondemnedError, match=Path(file).name):
        write_pin(job.root, job.storage, CountingIds(), draft, head)
    assert job.storage.list(SAVEPOINTS) == []
