"""Rows of a state, from a base and later change files: of exactly the requested key groups."""

import random
from pathlib import Path

import pytest

from state_engine.checkpoint import plan as planning
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.ports import Mark
from state_engine.errors import DamagedFileError, DamagedManifestError, MissingFileError
from state_engine.log.ops import KEY_GROUP
from state_engine.log.records import BaseReference
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import Segment, history_of, load_groups, read_base
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

GROUPS = 13


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    return sample_job(f"memory://{tmp_path}")


def published(job: JobBuilder, rng: random.Random) -> BaseReference:
    """Seals an epoch that changes all states, and folds a base at it."""
    sealed = job.epoch(random_changes(rng, 60), checkpoint_id=1)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds())
    publisher.begin(sealed, Mark(checkpoint_id=1, full=True, trigger="test"))
    base = publisher.completed()
    assert base is not None
    job.adopt(base)
    return base


def test_any_run_of_key_groups_has_its_rows_and_no_others(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "ROWS_PER_FILE", 4)
    monkeypatch.setattr(planning, "SMALL_ROWS", 1)
    rng = random.Random(3)
    base = read_base(job.storage, published(job, rng))
    assert len(base.files) > len(SCHEMAS), "states have several files, which end at borders of key groups"
    manifests = [job.epoch(random_changes(rng)).manifest for _ in range(2)]
    segments = [Segment(job.storage, base, manifests)]
    for schema in SCHEMAS:
        whole = load_groups(segments, schema, 0, GROUPS - 1)
        rows = whole.to_pylist()
        numbers = whole.column(KEY_GROUP).to_pylist()
        for first in range(GROUPS):
            for last in range(first, GROUPS):
                loaded = load_groups(segments, schema, first, last)
                wanted = [n for n, group in enumerate(numbers) if first <= group <= last]
                assert loaded.to_pylist() == [rows[n] for n in wanted], (schema.name, first, last)


def test_another_base_under_the_name_of_the_one_that_was_meant_is_damage(job: JobBuilder) -> None:
    meant = published(job, random.Random(1))
    other = sample_job(job.root, "other")
    foreign = other.storage.get(published(other, random.Random(2)).path)
    job.storage.delete(meant.path)
    job.storage.put_if_absent(meant.path, foreign)
    with pytest.raises(DamagedFileError, match="expected"):
        read_base(job.storage, meant)


def test_a_base_that_is_gone_is_missed_by_its_path(job: JobBuilder) -> None:
    reference = published(job, random.Random(1))
    job.storage.delete(reference.path)
    with pytest.raises(MissingFileError, match=reference.path):
        read_base(job.storage, reference)


def test_a_fork_whose_first_manifest_does_not_follow_the_base_of_its_origin_is_damage(job: JobBuilder) -> None:
    published(job, random.Random(1))
    skipped = job.epoch(random_changes(random.Random(2)))
    job.epoch()
    fork = job.fork("fork")
    assert fork.head is not None
    chain = [stored.manifest for stored in fork.log.chain(fork.head)]
    assert chain[0] == skipped.manifest
    history_of(None, "fork", chain, lambda name: open_storage(job.root, name))
    with pytest.raises(DamagedManifestError, match="but the base of epoch 1 was folded at"):
        history_of(None, "fork", chain[1:], lambda name: open_storage(job.root, name))
