"""What retention keeps: output that a start still owes, abandoned lines for a while, what is protected meanwhile."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from state_engine.checkpoint.compaction import compact
from state_engine.checkpoint.floors import raise_floor
from state_engine.checkpoint.leases import leased
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_discard, plan_retention
from state_engine.epoch import debts, look
from state_engine.epoch.ports import Mark
from state_engine.epoch.seal import seal
from state_engine.errors import DamagedManifestError, FencedError, MissingFileError
from state_engine.inspect import read_state
from state_engine.log.change_file import checksum_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path, output_path
from state_engine.log.records import Ack, OutputFile
from state_engine.log.retention_records import Floor
from state_engine.savepoint import list_savepoints, trigger_savepoint
from state_engine.storage.manifest_log import ManifestLog
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes

AT_ONCE = RetentionPolicy(grace_ms=0)
STAGED = b"rows"
COUNT = (SCHEMAS[0].uid, SCHEMAS[0].name)


class Staging(JobBuilder):
    """A job whose first operator stages output in each epoch, as for a sink that is a function."""

    def _acks(self, uid: str, epoch: int, changes: object) -> tuple[Ack, ...]:
        first, *others = super()._acks(uid, epoch, changes)  # type: ignore[arg-type]
        if uid != self.schemas[0].uid:
            return (first, *others)
        path = output_path(self._generation, epoch, uid, 0, first.attempt, "main")
        self.storage.put_exclusive(path, STAGED)
        staged = OutputFile(output="sink", path=path, length=len(STAGED), checksum=checksum_of(STAGED), rows=1)
        return (replace(first, outputs=(staged,)), *others)


class Running:
    """A job with a publisher; each third epoch carries a checkpoint."""

    def __init__(self, root: str) -> None:
        self.job = Staging(root, "flights", SCHEMAS)
        self.clock, self.ids = ManualClock(), CountingIds()
        self.publisher = CheckpointPublisher(self.job.storage, self.job.job, clock=self.clock, ids=self.ids)
        self.rng, self.checkpoints = random.Random(7), 0

    def run(self, checkpoints: int) -> StoredManifest:
        for _ in range(checkpoints):
            self.job.epoch(random_changes(self.rng))
            self.job.epoch(random_changes(self.rng))
            self.checkpoints += 1
            sealed = self.job.epoch(random_changes(self.rng), checkpoint_id=self.checkpoints)
            self.clock.advance(60_000)
            self.publisher.begin(sealed, Mark(checkpoint_id=self.checkpoints, full=False, trigger="interval"))
            self.job.adopt(self.publisher.completed())
        return sealed

    def retain(self) -> list[str]:
        plan = plan_retention(self.job.root, self.job.job, AT_ONCE, self.clock.now_ms())
        return apply_retention(plan, clock=self.clock, ids=self.ids).removed


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def outputs_of(stored: StoredManifest) -> list[str]:
    acks = (ack for operator in stored.manifest.operators.values() for ack in operator.acks)
    return [output.path for ack in acks for output in ack.outputs]


def test_output_that_a_start_owes_outlives_a_compaction(root: str) -> None:
    """The driver died between the seal of the newest epoch and its sink's commit; then the job was compacted."""
    running = Running(root)
    running.run(2)
    running.job.epoch(random_changes(running.rng))
    newest = running.job.epoch(random_changes(running.rng))
    assert compact(root, running.job.job, clock=running.clock, ids=running.ids) is not None
    assert running.retain(), "older epochs go"
    log = ManifestLog(running.job.storage, running.job.job)
    head = look.newest(log)
    assert head is not None
    owed = debts.owed(log, head)
    assert owed is not None
    assert owed.hash == newest.hash
    assert [running.job.storage.get(path) for path in outputs_of(owed)] == [STAGED]


def test_an_abandoned_line_can_be_entered_again(root: str) -> None:
    """A restore of a savepoint in an abandoned line gives sinks again the output of its epochs after the common past.

    It also removes the output of the epochs that had replaced them; manifests of the line that it leaves name it.
    """
    running = Running(root)
    running.run(4)
    trigger_savepoint(root, running.job.job, epoch=12)
    running.job.restore(running.job.log.read(1, 4))
    running.run(4)
    assert running.retain(), "epochs go that neither the savepoint nor the newest checkpoint needs"
    log = ManifestLog(running.job.storage, running.job.job)
    head = look.newest(log)
    assert head is not None
    entered = [log.read(1, epoch) for epoch in range(5, 13)]
    given_again = [running.job.storage.get(path) for stored in entered for path in outputs_of(stored)]
    assert given_again == [STAGED] * len(entered)
    abandoned = [log.read(2, epoch) for epoch in range(5, head.manifest.epoch + 1)]
    assert abandoned[-1].hash == head.hash


def test_epochs_that_were_just_abandoned_can_still_be_restored(root: str) -> None:
    """Also those after the last checkpoint of the abandoned line: so a restore that was a mistake can be undone."""
    running = Running(root)
    running.run(3)
    running.job.epoch(random_changes(running.rng))
    abandoned = running.job.epoch(random_changes(running.rng))
    running.job.restore(running.job.log.read(1, 9))
    running.retain()
    assert_whole(root, running.job, abandoned)
    running.run(1)
    running.retain()
    assert not running.job.storage.exists(manifest_path(1, 11))


def test_a_savepoint_between_planning_and_condemning_is_spared(root: str) -> None:
    running = Running(root)
    running.run(3)
    plan = plan_retention(root, running.job.job, AT_ONCE, running.clock.now_ms())
    assert manifest_path(1, 4) in {removal.path for removal in plan.removals}
    pinned = running.job.log.read(1, 4)
    trigger_savepoint(root, running.job.job, epoch=4)
    report = apply_retention(plan, clock=running.clock, ids=running.ids)
    assert manifest_path(1, 4) in report.spared
    assert_whole(root, running.job, pinned)


def test_an_epoch_whose_way_back_is_gone_can_be_read_and_neither_pinned_nor_restored(root: str) -> None:
    """The first manifest of a job stays for ever. Those after it, which record the output to sinks, do not."""
    running = Running(root)
    first = running.job.epoch({})  # as a claim: it has no changes, so nothing that it needs can go
    running.run(3)
    running.retain()
    assert ManifestLog(running.job.storage, running.job.job).read(1, 1) == first
    assert read_state(root, running.job.job, *COUNT, at="epoch:1/1").num_rows == 0
    with pytest.raises(MissingFileError, match=r"needs _epochs/g000001/e0000000002\.json, which is gone"):
        trigger_savepoint(root, running.job.job, epoch=1)
    assert list_savepoints(root, running.job.job) == []
    with pytest.raises(MissingFileError, match="e0000000002"), leased(root, first, "restore"):
        pass
    with leased(root, first, "restore", way=False):
        pass


def test_a_manifest_at_a_freed_number_to_which_no_hash_leads_is_not_restored(root: str) -> None:
    running = Running(root)
    running.run(1)
    phantom = replace(running.job.log.read(1, 2).manifest, incarnation="another", operators={})
    raise_floor(running.job.storage, Floor(job="flights", generation=1, epoch=2, checkpoint_id=1, raised_at=0))
    running.job.storage.delete(manifest_path(1, 2))
    with pytest.raises(FencedError):
        seal(ManifestLog(running.job.storage, running.job.job), phantom, 3)
    with pytest.raises(DamagedManifestError, match="is not the one that epoch 3 of generation 1 goes on from"):
        trigger_savepoint(root, running.job.job, epoch=2)
    assert list_savepoints(root, running.job.job) == []


def test_the_id_of_an_unpublished_checkpoint_of_a_deleted_job_is_not_used_again(root: str) -> None:
    running = Running(root)
    running.run(1)
    running.job.epoch(random_changes(running.rng), checkpoint_id=2)  # its driver died before it published anything
    assert running.publisher.next_checkpoint_id() == 3
    apply_retention(plan_discard(root, running.job.job, running.clock.now_ms()), clock=running.clock)
    assert not running.job.storage.exists(manifest_path(1, 4))
    assert running.publisher.next_checkpoint_id() == 3


def assert_whole(root: str, job: JobBuilder, stored: StoredManifest) -> None:
    """Asserts that all states of an epoch can be read unchanged."""
    place = f"epoch:{stored.manifest.generation}/{stored.manifest.epoch}"
    for schema in SCHEMAS:
        live = read_state(root, job.job, schema.uid, schema.name, at=place)
        assert model_of(schema, live) == job.rows(schema.uid, schema.name, stored), schema.name
