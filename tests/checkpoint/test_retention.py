"""Retention of jobs with a directly built log; every state is compared with a plain model."""

import random
from pathlib import Path

import pytest
from dead_processes import die_holding
from msgspec.structs import replace

from state_engine.checkpoint.kept import ensure_kept
from state_engine.checkpoint.leases import LEASE_MS, files_kept, leased
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import HOUR_MS, Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import (
    DELETING_MS,
    RetentionPlan,
    RetentionReport,
    apply_retention,
    plan_discard,
    plan_retention,
)
from state_engine.epoch import look
from state_engine.epoch.ports import Mark
from state_engine.epoch.seal import seal
from state_engine.errors import CondemnedError, DamagedFileError, FencedError, NothingToRestoreError
from state_engine.inspect import open_job, read_state
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import condemned_path, manifest_path, pin_path
from state_engine.log.records import BaseReference, Pin
from state_engine.log.retention_records import Condemned, CondemnedFile, encode_condemned
from state_engine.savepoint import list_savepoints, load_savepoint, resolve_restore, trigger_savepoint
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

AT_ONCE = RetentionPolicy(grace_ms=0)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


class Running:
    """A job with a publisher and a clock."""

    def __init__(self, root: str, *, lag: int = 0) -> None:
        self.lag, self.bases = lag, list[BaseReference | None]()
        self.job = sample_job(root)
        self.clock, self.ids = ManualClock(), CountingIds()
        self.publisher = CheckpointPublisher(self.job.storage, self.job.job, clock=self.clock, ids=self.ids)
        self.rng, self.checkpoints = random.Random(7), 0

    def run(self, checkpoints: int, *, full: bool = False) -> StoredManifest:
        """Seals three epochs per checkpoint; the last of them carries it."""
        for _ in range(checkpoints):
            for _ in range(2):
                self.job.epoch(random_changes(self.rng))
            self.checkpoints += 1
            sealed = self.job.epoch(random_changes(self.rng), checkpoint_id=self.checkpoints)
            self.clock.advance(60_000)
            self.publisher.begin(sealed, Mark(checkpoint_id=self.checkpoints, full=full, trigger="interval"))
            self.bases.append(self.publisher.completed())
            if len(self.bases) > self.lag:
                self.job.adopt(self.bases[-1 - self.lag])
        assert self.job.head is not None
        return self.job.head

    def plan(self, policy: RetentionPolicy = AT_ONCE) -> RetentionPlan:
        return plan_retention(self.job.root, self.job.job, policy, self.clock.now_ms())

    def retain(self, policy: RetentionPolicy = AT_ONCE) -> RetentionReport:
        return apply_retention(self.plan(policy), clock=self.clock, ids=self.ids)

    def files(self) -> set[str]:
        return {info.path for info in self.job.storage.list("")}


def assert_reads(job: JobBuilder, at: str, stored: StoredManifest) -> None:
    for schema in SCHEMAS:
        live = read_state(job.root, job.job, schema.uid, schema.name, at=at)
        assert model_of(schema, live) == job.rows(schema.uid, schema.name, stored), (at, schema.name)


def assert_whole(job: JobBuilder) -> None:
    """The newest epoch, all savepoints, and all checkpoints that a plan would keep can be read unchanged."""
    head = look.newest(ManifestLog(job.storage, job.job))
    assert head is not None
    assert_reads(job, "latest", head if head.manifest.kind != "closing" else job.log.read(*place_before(head)))
    for pin in list_savepoints(job.root, job.job):
        load_savepoint(job.root, job.job, pin.savepoint_id)
        assert_reads(job, pin.savepoint_id, job.log.read(pin.generation, pin.epoch))
    ManifestLog(job.storage, job.job).chain(head)


def place_before(head: StoredManifest) -> tuple[int, int]:
    return head.manifest.generation, head.manifest.epoch - 1


def test_nothing_goes_before_there_is_a_checkpoint(root: str) -> None:
    running = Running(root)
    assert running.plan().removals == ()
    running.job.epoch(random_changes(running.rng))
    assert running.plan().removals == ()
    assert running.plan().oldest_epoch is None


@pytest.mark.parametrize(("last", "lag"), [(1, 0), (2, 2), (5, 1)])
def test_every_epoch_from_the_oldest_kept_checkpoint_on_can_be_restored(root: str, last: int, lag: int) -> None:
    running = Running(root, lag=lag)
    running.run(6)
    running.job.epoch(random_changes(running.rng))
    policy = RetentionPolicy(checkpoints=Keep(last=last), grace_ms=0)
    plan = running.plan(policy)
    oldest = 3 * (7 - last)
    assert plan.oldest_epoch == (1, oldest)
    assert plan.checkpoints == tuple(str(n) for n in range(7 - last, 7))
    report = running.retain(policy)
    assert sorted(report.removed) == [removal.path for removal in plan.removals]
    assert report.bytes == plan.bytes
    assert (report.bytes > 0) == (last + lag < 6)
    for epoch in range(oldest, 20):
        ensure_kept(root, running.job.log.read(1, epoch), "a restore")
    for epoch in range(oldest, 20, 4):
        assert_reads(running.job, f"epoch:1/{epoch}", running.job.log.read(1, epoch))
    for checkpoint in plan.checkpoints:
        assert_reads(running.job, f"checkpoint:{checkpoint}", running.job.log.read(1, 3 * int(checkpoint)))
    assert_whole(running.job)
    assert running.plan(policy).removals == (), "a second run finds nothing"


def test_what_is_gone_is_said_to_be_gone(root: str) -> None:
    running = Running(root)
    running.run(5)
    running.retain()
    with pytest.raises(NothingToRestoreError, match="retention has removed"):
        resolve_restore(root, running.job.job, "epoch:1/2")
    with pytest.raises(NothingToRestoreError, match="removed by retention, which has removed epochs up to"):
        trigger_savepoint(root, running.job.job, epoch=2)
    with pytest.raises(NothingToRestoreError):
        resolve_restore(root, running.job.job, "checkpoint:1")
    assert next(stored.manifest.epoch for stored in open_job(root, running.job.job).epochs()) == 15


def test_storage_does_not_grow_with_the_age_of_the_job(root: str) -> None:
    running = Running(root)
    running.run(4)
    sizes = []
    for _ in range(12):
        running.run(2, full=True)
        running.retain()
        own = [path for path in running.files() if not path.startswith("_checkpoints/")]
        sizes.append(len([path for path in own if "_plain_log" not in path]))
    assert max(sizes[2:]) <= sizes[1] + 4, sizes
    assert_whole(running.job)


def test_grace_time_then_a_second_look(root: str) -> None:
    running = Running(root)
    running.run(3)
    policy = RetentionPolicy(grace_ms=HOUR_MS)
    before = running.files()
    report = running.retain(policy)
    assert report.condemned == report.waiting > 0
    assert report.removed == []
    assert before < running.files(), "only a list was added"
    assert running.retain(policy).condemned == 0, "the same files are not condemned twice"
    running.clock.advance(HOUR_MS)
    report = running.retain(policy)
    assert report.removed
    assert not [path for path in running.files() if path.startswith("_retention/condemned")]
    assert_whole(running.job)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [1, 2, 3, 24, 7 * 24])
def test_calls_that_come_rarely_delete_what_the_one_before_condemned(root: str, hours: int) -> None:
    running = Running(root)
    policy = RetentionPolicy()
    removed, condemned = [], []
    for _ in range(6):
        running.run(2)
        goes = {removal.path for removal in running.plan(policy).removals}
        report = running.retain(policy)
        assert report.waiting == report.condemned, "what waits is what was condemned now, whatever the others wait for"
        assert goes >= set(report.removed)
        assert len(goes) == len(report.removed) + report.condemned
        removed.append(len(report.removed))
        condemned.append(report.condemned)
        assert_whole(running.job)
        running.clock.advance(hours * HOUR_MS)
    assert removed[1:] == condemned[:-1], "each call deletes what the call before it condemned"
    assert min(condemned) > 0
    assert len([path for path in running.files() if path.startswith("_retention/condemned")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "compaction_at"), [(24, 1), (24, 8), (24, 23), pytest.param(7 * 24, 8, marks=pytest.mark.long)]
)
def test_retention_and_compaction_finish_what_each_of_them_began(root: str, every: int, compaction_at: int) -> None:
    """Retention here removes no strays, compaction only strays; both run daily, or compaction weekly."""
    running = Running(root)
    compaction = RetentionPolicy(checkpoints=None, strays=True)
    by_retention, by_compaction, strays = set[str](), set[str](), list[str]()
    for hour in range(4 * every):
        if hour % 24 == 0:
            running.run(2)
            report = running.retain(RetentionPolicy())
            assert not report.spared
            by_retention |= set(report.removed)
        if hour % every == compaction_at:
            report = running.retain(compaction)
            assert not report.spared
            by_compaction |= set(report.removed)
            strays.append(f"_epochs/g000001/changes/e{running.checkpoints * 3:010d}-aircraft-0-{'f' * 32}.arrow")
            running.job.storage.put_if_absent(strays[-1], b"x")
        running.clock.advance(HOUR_MS)
    assert_whole(running.job)
    assert manifest_path(1, 3) in by_retention, "the manifest of the first checkpoint went"
    assert by_compaction | by_retention >= set(strays[:2]), (
        "each goes with the second compaction after it at the latest"
    )
    assert len([path for path in running.files() if path.startswith("_retention/condemned")]) <= 2


@pytest.mark.parametrize(("rule", "hours"), [("checkpoints", 3), ("", 3), ("strays", 3), ("strays", 40 * 24 + 1)])
def test_a_list_is_forgotten_by_those_who_would_find_its_files_again(root: str, rule: str, hours: int) -> None:
    running = Running(root)
    running.run(1)
    files = (CondemnedFile(path=manifest_path(1, 3), bytes=1, reason="somebody needs it after all"),)
    listed = Condemned(list_id="a", job=running.job.job, condemned_at=running.clock.now_ms(), grace_ms=0, files=files)
    path = condemned_path("a")
    running.job.storage.put_if_absent(path, encode_condemned(replace(listed, rule=rule)))
    running.clock.advance(2 * DELETING_MS)
    running.retain()
    assert running.job.storage.exists(path)
    running.clock.advance((hours - 2) * HOUR_MS)
    running.retain()
    assert running.job.storage.exists(path) == ((rule, hours) == ("strays", 3))
    assert running.job.storage.exists(manifest_path(1, 3))
    assert_whole(running.job)


def pinned_while_condemned(running: Running, policy: RetentionPolicy) -> Pin:
    """Makes three checkpoints, and a savepoint of epoch 4 after the plan to remove that, before files are condemned."""
    running.run(3)
    plan = running.plan(policy)
    pin = trigger_savepoint(running.job.root, running.job.job, epoch=4, clock=running.clock)
    apply_retention(plan, clock=running.clock, ids=running.ids)
    return pin


def test_what_was_condemned_long_ago_is_spared_if_it_is_needed_now(root: str) -> None:
    running, policy = Running(root), RetentionPolicy(grace_ms=HOUR_MS)
    pin = pinned_while_condemned(running, policy)
    running.clock.advance(24 * HOUR_MS)
    with pytest.raises(CondemnedError):  # the list does not expire
        trigger_savepoint(root, running.job.job, epoch=2, clock=running.clock)
    report = running.retain(policy)
    assert report.removed
    assert not running.job.storage.exists(manifest_path(1, 2))
    assert_whole(running.job)
    assert_reads(running.job, pin.savepoint_id, running.job.log.read(1, 4))
    assert not [path for path in running.files() if path.startswith("_retention/condemned")]


def test_a_savepoint_between_condemning_and_deleting_is_refused_and_one_before_is_spared(root: str) -> None:
    running, policy = Running(root), RetentionPolicy(grace_ms=HOUR_MS)
    pin = pinned_while_condemned(running, policy)
    with pytest.raises(CondemnedError, match="which retention is removing"):
        trigger_savepoint(root, running.job.job, epoch=2, clock=running.clock)
    assert [p.savepoint_id for p in list_savepoints(root, running.job.job)] == [pin.savepoint_id]
    running.clock.advance(HOUR_MS)
    report = running.retain(policy)
    assert report.spared
    assert_whole(running.job)
    assert_reads(running.job, pin.savepoint_id, running.job.log.read(1, 4))
    running.clock.advance(2 * DELETING_MS + 1)
    running.retain(policy)
    assert not [path for path in running.files() if path.startswith("_retention/condemned")], "lists do not stay"


def test_savepoints_keep_what_they_list_and_the_way_back_to_them(root: str) -> None:
    running = Running(root)
    running.run(2)
    old = trigger_savepoint(root, running.job.job, epoch=2)
    new = trigger_savepoint(root, running.job.job, epoch=5)
    running.run(5)
    running.retain()
    assert_whole(running.job)
    assert {p.savepoint_id for p in list_savepoints(root, running.job.job)} == {old.savepoint_id, new.savepoint_id}
    for epoch in range(2, 22):
        assert running.job.storage.exists(manifest_path(1, epoch)), "a restore rewinds sinks by these"
    running.job.storage.delete(pin_path(old.savepoint_id))
    running.job.storage.delete(pin_path(new.savepoint_id))
    assert running.retain().removed
    assert not running.job.storage.exists(manifest_path(1, 5))


def test_policies_remove_their_own_savepoints_and_what_only_these_kept(root: str) -> None:
    running = Running(root)
    running.run(2)
    made = trigger_savepoint(root, running.job.job, epoch=2, trigger="policy:nightly", clock=running.clock)
    mine = trigger_savepoint(root, running.job.job, epoch=4, clock=running.clock)
    running.run(3)
    policy = RetentionPolicy(savepoints=Keep(last=0), grace_ms=0)
    assert running.plan(policy).savepoints == (made.savepoint_id,)
    assert running.plan().savepoints == ()
    running.retain(policy)
    assert [pin.savepoint_id for pin in list_savepoints(root, running.job.job)] == [mine.savepoint_id]
    with pytest.raises(NothingToRestoreError):
        load_savepoint(root, running.job.job, made.savepoint_id)
    assert not running.job.storage.exists(manifest_path(1, 2))
    assert_whole(running.job)


def test_a_lease_keeps_an_epoch_until_it_is_given_back_or_expires(root: str) -> None:
    running = Running(root)
    running.run(2)
    target = running.job.log.read(1, 2)
    with leased(root, target, "a test", clock=running.clock, ids=running.ids, for_ms=HOUR_MS):
        running.run(3)
        running.retain()
        assert_reads(running.job, "epoch:1/2", target)
        running.clock.advance(HOUR_MS)
        assert manifest_path(1, 2) in [removal.path for removal in running.plan().removals]
    running.retain()
    assert not running.job.storage.exists(manifest_path(1, 2))
    with pytest.raises(Exception, match="gone"), leased(root, target, "too late", clock=running.clock):
        pass
    assert not [path for path in running.files() if path.startswith("_retention/leases")]


def test_a_checkpoint_that_died_keeps_a_savepoint_of_its_epoch_until_its_lease_expires(root: str) -> None:
    running = Running(root)
    sealed = running.run(2)
    made = trigger_savepoint(root, running.job.job, trigger="policy:often", clock=running.clock)
    policy = RetentionPolicy(savepoints=Keep(last=0), grace_ms=0)
    die_holding(files_kept(running.job.storage, sealed, (), "checkpoint", running.clock, running.ids))
    running.run(2)
    running.clock.advance(LEASE_MS - 1 - 2 * 60_000)
    running.retain(policy)
    assert [pin.savepoint_id for pin in list_savepoints(root, running.job.job)] == [made.savepoint_id]
    running.clock.advance(1)
    running.retain(policy)
    assert list_savepoints(root, running.job.job) == []
    assert_whole(running.job)


def test_the_target_of_a_restore_that_was_decided_is_kept(root: str) -> None:
    running = Running(root)
    running.run(1)
    target = running.job.log.read(1, 2)
    running.run(3)
    restored = running.job.restore(target)
    running.job.storage.delete(manifest_path(2, restored.manifest.epoch))  # it died after the closing manifest
    running.retain()
    assert_reads(running.job, "epoch:1/2", target)


def test_what_a_restore_abandoned_goes_when_newer_checkpoints_completed(root: str) -> None:
    running = Running(root)
    running.run(4)
    running.job.restore(running.job.log.read(1, 11))
    running.retain()
    assert_reads(running.job, "checkpoint:4", running.job.log.read(1, 12))
    running.run(1)
    running.retain()
    assert not running.job.storage.exists(manifest_path(1, 12))
    assert running.job.log.floors()[1] >= 12
    assert running.publisher.next_checkpoint_id() == 6
    assert_whole(running.job)


def test_an_epoch_that_another_job_began_with_is_kept(root: str) -> None:
    running = Running(root)
    running.run(2)
    fork = running.job.fork("fork")
    fork.epoch(random_changes(running.rng))
    expected = {(s.uid, s.name): fork.rows(s.uid, s.name) for s in SCHEMAS}
    running.run(4)
    running.retain()
    for schema in SCHEMAS:
        live = read_state(root, "fork", schema.uid, schema.name)
        assert model_of(schema, live) == expected[schema.uid, schema.name]
    assert_whole(running.job)


def test_a_zombie_cannot_seal_a_number_that_was_freed(root: str) -> None:
    running = Running(root)
    running.run(4)
    old = running.job.log.read(1, 4).manifest
    running.retain()
    assert not running.job.storage.exists(manifest_path(1, 4))
    with pytest.raises(FencedError, match="the generation's floor is"):
        seal(ManifestLog(running.job.storage, running.job.job), old, 3)
    assert_whole(running.job)
    running.run(1)
    running.retain()
    assert not running.job.storage.exists(manifest_path(1, 4)), "the next retention takes it away"


def test_a_publish_of_freed_epochs_never_becomes_visible(root: str) -> None:
    running = Running(root)
    running.run(2)
    late = running.job.log.read(1, 6)
    running.job.restore(running.job.log.read(1, 5))
    running.checkpoints = 7
    running.run(3)
    running.retain()
    rows = [row for row in open_job(root, running.job.job).checkpoints() if row.status == "completed"]
    zombie = CheckpointPublisher(running.job.storage, running.job.job, clock=running.clock)
    zombie.begin(late)
    assert [r for r in open_job(root, running.job.job).checkpoints() if r.status == "completed"] == rows
    assert_whole(running.job)


def test_files_of_dead_attempts_go_with_their_epoch_and_foreign_files_stay(root: str) -> None:
    running = Running(root)
    running.run(2)
    stray = f"_epochs/g000001/changes/e0000000002-aircraft-0-{'f' * 32}.arrow"
    staged = f"_epochs/g000001/changes/e0000000002-aircraft-0-{'f' * 32}-sink.parquet"
    coming = f"_epochs/g000001/changes/e0000000099-aircraft-0-{'f' * 32}.arrow"
    foreign = ["aircraft/count/notes.txt", "_epochs/g000001/readme", "_spark/x/metadata", "mine.parquet"]
    for path in (stray, staged, coming, *foreign):
        running.job.storage.put_if_absent(path, b"x")
    running.run(2)
    running.retain()
    files = running.files()
    assert not {stray, staged} & files
    assert {coming, *foreign} <= files


def test_damage_stops_retention_before_it_deletes(root: str) -> None:
    running = Running(root)
    running.run(3)
    running.job.storage.put_if_absent(pin_path("sp-broken"), b"{}")
    before = running.files()
    with pytest.raises(DamagedFileError, match="sp-broken"):
        running.retain()
    assert running.files() == before


def test_on_disk_with_delta_tables(tmp_path: Path) -> None:
    running = Running(str(tmp_path))
    running.run(3)
    running.run(1, full=True)
    pin = trigger_savepoint(running.job.root, running.job.job, epoch=10)
    running.run(1)
    running.run(1, full=True)
    running.run(1, full=True)
    running.retain()
    running.run(2)
    report = running.retain()
    assert {path.rpartition(".")[2] for path in report.removed} == {"json", "arrow", "parquet"}
    assert_whole(running.job)
    assert_reads(running.job, pin.savepoint_id, running.job.log.read(1, 10))
    for schema in SCHEMAS:
        from deltalake import DeltaTable

        DeltaTable(str(tmp_path / running.job.job / schema.uid / schema.name)).to_pyarrow_table()


def test_deleting_a_job_leaves_its_savepoints_and_never_its_numbers(root: str) -> None:
    running = Running(root)
    running.run(3)
    pin = trigger_savepoint(root, running.job.job, epoch=5)
    apply_retention(plan_discard(root, running.job.job, running.clock.now_ms()), clock=running.clock)
    log = ManifestLog(running.job.storage, running.job.job)
    assert look.newest(log) is None, "a start begins from nothing"
    load_savepoint(root, running.job.job, pin.savepoint_id)
    assert_reads(running.job, pin.savepoint_id, running.job.log.read(1, 5))
    assert not running.job.storage.exists(manifest_path(1, 9))
    assert running.publisher.next_checkpoint_id() == 4
    assert running.job.head is not None
    with pytest.raises(FencedError):
        seal(log, running.job.head.manifest, 3)
    assert running.plan().removals == ()


def test_a_job_that_runs_again_is_not_deleted(root: str) -> None:
    running = Running(root)
    running.run(2)
    plan = plan_discard(root, running.job.job, running.clock.now_ms())
    running.job.epoch(random_changes(running.rng))
    report = apply_retention(plan, clock=running.clock)
    assert report.removed == []
    assert_whole(running.job)
