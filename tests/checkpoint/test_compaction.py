"""Compaction of a stopped job, and of files that nothing names; every state is compared with a plain model."""

import random
from pathlib import Path

import pytest

from state_engine.checkpoint.compaction import compact, plan_compaction
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import RetentionPlan, apply_retention, plan_retention
from state_engine.epoch import carry, look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import AlreadyExistsError, FencedError, NothingToRestoreError, RestoreError
from state_engine.inspect import open_job, read_state
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

STRAYS = RetentionPolicy(checkpoints=None, strays=True, grace_ms=0)


class Died(BaseException):
    """The process ends here."""


class DieAt:
    """Ends the process at a crash point."""

    def __init__(self, point: CrashPoint) -> None:
        self.point = point

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self.point:
            raise Died


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Three incremental checkpoints, and two epochs after them."""
    builder, rng = sample_job(f"memory://{tmp_path}"), random.Random(11)
    publisher = CheckpointPublisher(builder.storage, builder.job, clock=ManualClock(), ids=CountingIds())
    for number in (1, 2, 3):
        builder.epoch(random_changes(rng))
        publisher.begin(builder.epoch(random_changes(rng), checkpoint_id=number))
        builder.adopt(publisher.completed())
    builder.epoch(random_changes(rng))
    builder.epoch(random_changes(rng))
    return builder


def assert_reads(job: JobBuilder, at: str, stored: StoredManifest | None = None) -> None:
    for schema in SCHEMAS:
        live = read_state(job.root, job.job, schema.uid, schema.name, at=at)
        assert model_of(schema, live) == job.rows(schema.uid, schema.name, stored), (at, schema.name)


def newest(job: JobBuilder) -> StoredManifest:
    head = look.newest(ManifestLog(job.storage, job.job))
    assert head is not None
    return head


def clear(job: JobBuilder) -> RetentionPlan:
    plan = plan_retention(job.root, job.job, STRAYS, 0)
    apply_retention(plan, clock=ManualClock(), ids=CountingIds())
    return plan


def test_the_state_is_one_layer_afterwards_and_nothing_is_lost(job: JobBuilder) -> None:
    before = plan_compaction(job.root, job.job)
    assert before.needed
    assert (before.epoch, before.epochs) == (8, 2)
    assert max(state.layers for state in before.states) == 3
    row = compact(job.root, job.job)
    assert row is not None
    assert (row.id, row.type, row.trigger, row.epoch) == ("4", "FULL", "compaction", 9)
    after = plan_compaction(job.root, job.job)
    assert (after.needed, after.epochs) == (False, 0)
    assert {state.layers for state in after.states} == {1}
    assert sum(state.log_rows for state in after.states) < sum(state.log_rows for state in before.states)
    for at in ("latest", "checkpoint:4"):
        assert_reads(job, at)
    for number in (1, 2, 3):
        assert_reads(job, f"checkpoint:{number}", job.log.read(1, 2 * number))


def test_a_second_one_finds_nothing_to_do(job: JobBuilder) -> None:
    compact(job.root, job.job)
    head = newest(job)
    assert compact(job.root, job.job) is None
    assert newest(job).hash == head.hash, "it is not even claimed"


def test_a_driver_that_still_runs_is_fenced(job: JobBuilder) -> None:
    compact(job.root, job.job)
    with pytest.raises(AlreadyExistsError):
        job.epoch(random_changes(random.Random(2)))


def test_a_driver_that_starts_meanwhile_wins(job: JobBuilder) -> None:
    class Start:
        """Another driver claims the job between the look at the newest epoch and the claim."""

        def at(self, point: CrashPoint, epoch: int) -> None:
            if point is CrashPoint.S2_BEFORE_CLAIM:
                claim = carry.carried(newest(job), "claim", incarnation="f" * 32, number=5, now_ms=0)
                ManifestLog(job.storage, job.job).put(claim)

    with pytest.raises(FencedError, match="Incarnation 5"):
        compact(job.root, job.job, crash=Start())
    assert [row.id for row in open_job(job.root, job.job).checkpoints()] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.S2_BEFORE_CLAIM,
        CrashPoint.S2_CLAIMED,
        CrashPoint.E9_FILES_WRITTEN,
        CrashPoint.E9_TABLE_COMMITTED,
        CrashPoint.E9_BASE_WRITTEN,
        CrashPoint.E9_VISIBLE,
    ],
)
def test_one_that_dies_is_done_again(job: JobBuilder, point: CrashPoint) -> None:
    with pytest.raises(Died):
        compact(job.root, job.job, crash=DieAt(point))
    assert_reads(job, "latest")
    row = compact(job.root, job.job)
    assert (row is None) == (point is CrashPoint.E9_VISIBLE)
    assert not plan_compaction(job.root, job.job).needed
    assert_reads(job, "latest")
    clear(job)
    assert_reads(job, "latest")


def test_what_it_cannot_fold(job: JobBuilder) -> None:
    with pytest.raises(NothingToRestoreError, match="has no sealed epoch"):
        compact(job.root, "nobody")
    restored = job.restore(job.log.read(1, 4))
    job.storage.delete(manifest_path(2, restored.manifest.epoch))  # it died after the closing manifest
    with pytest.raises(RestoreError, match="begun and not finished"):
        compact(job.root, job.job)


# Strays -------------------------------------------------------------------------------------------------------------


def stray(epoch: int, name: str = "aircraft-0", extension: str = "arrow") -> str:
    return f"_epochs/g000001/changes/e{epoch:010d}-{name}-{'f' * 32}.{extension}"


def test_files_that_nothing_names_go_and_no_epoch_does(job: JobBuilder) -> None:
    removed = [
        stray(2),
        stray(7),
        stray(8, extension="parquet"),
        f"_epochs/g000001/bases/e0000000004-{'f' * 32}.json",
        "aircraft/count/part-g000001-e0000000004-from-e0000000003-00000-00012.parquet",
    ]
    kept = [
        stray(9),
        f"_epochs/g000001/bases/e0000000007-{'f' * 32}.json",  # a publish that may be under way
        "aircraft/count/part-g000001-e0000000008-from-e0000000007-00000-00012.parquet",
        "aircraft/count/notes.txt",
    ]
    removed = [path for path in removed if not job.storage.exists(path)]
    before = {info.path for info in job.storage.list("")}
    for path in (*removed, *kept):
        job.storage.put_if_absent(path, b"x")
    plan = clear(job)
    assert sorted(removed) == [removal.path for removal in plan.removals]
    assert {removal.reason for removal in plan.removals} == {"no manifest references it", "no checkpoint references it"}
    assert before | set(kept) == {info.path for info in job.storage.list("")}
    for epoch in range(1, 9):
        assert_reads(job, f"epoch:1/{epoch}", job.log.read(1, epoch))


def test_strays_go_with_a_policy_too_if_it_says_so(job: JobBuilder) -> None:
    job.storage.put_if_absent(stray(8), b"x")
    for wanted in (False, True):
        plan = plan_retention(job.root, job.job, RetentionPolicy(strays=wanted), 0)
        assert (stray(8) in [removal.path for removal in plan.removals]) == wanted


def test_an_epoch_that_is_sealed_after_the_listing_keeps_its_files(
    job: JobBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = type(job.storage).list
    sealed = []

    def listing(storage: object, prefix: str, *, recursive: bool = True) -> object:
        infos = listed(job.storage, prefix, recursive=recursive)
        if prefix == "" and not sealed:
            sealed.append(job.epoch(random_changes(random.Random(3))))
            infos = [info for info in listed(job.storage, "") if info.path != manifest_path(1, 9)]
        return infos

    monkeypatch.setattr(type(job.storage), "list", listing)
    assert plan_retention(job.root, job.job, STRAYS, 0).removals == ()
    assert sealed
