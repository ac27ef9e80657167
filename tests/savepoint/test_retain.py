"""Retention of savepoint files: canonical ones of policies, unfinished ones, copies; and files in use by readers."""

import random
from pathlib import Path

import pytest
from canonical_jobs import checkpoint, model, running_job, start, state_of
from msgspec.structs import replace

from state_engine.checkpoint.fold_inputs import newest_fold_inputs
from state_engine.checkpoint.leases import leased, leased_folder
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.needs import changes_of
from state_engine.checkpoint.retention.policy import DAY_MS, HOUR_MS, Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.carry import carried
from state_engine.errors import CondemnedError, MissingFileError, SavepointError
from state_engine.inspect import open_job, read_state, reading
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import IN_USE, RESTORED, metadata_path, pin_path, savepoint_folder
from state_engine.savepoint import (
    adopt,
    dispose_savepoint,
    list_savepoints,
    load_savepoint,
    resolve_restore,
    restore_key_groups,
    retain,
    trigger_savepoint,
)
from state_engine.savepoint.native import draft_pin, write_pin
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import random_changes

AT_ONCE = RetentionPolicy(grace_ms=0)
NONE_OF_POLICIES = RetentionPolicy(savepoints=Keep(last=0), grace_ms=0)


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    """Five epochs; checkpoints at the second and the fifth, so that nothing needs the first one."""
    job = running_job(str(tmp_path / "root"))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(random_changes(random.Random(9)), checkpoint_id=2))
    job.adopt(publisher.completed())
    return job


def ids_of(job: JobBuilder) -> set[str]:
    return {savepoint.savepoint_id for savepoint in list_savepoints(job.root, job.job)}


def first_is_there(job: JobBuilder) -> bool:
    """Whether the state of epoch 1 can be read; its manifest stays, as the first manifest of every job does."""
    return all(job.storage.exists(path) for path in changes_of(job.log.read(1, 1).manifest))


def files(job: JobBuilder, folder: str = "") -> list[str]:
    return [info.path for info in open_storage(job.root, job.job).list(folder)]


# Canonical savepoints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_policy_disposes_of_the_canonical_savepoints_that_a_policy_made(
    job: JobBuilder, tmp_path: Path, elsewhere: bool
) -> None:
    directory = str(tmp_path / "backup") if elsewhere else None
    clock = ManualClock()
    made = []
    for trigger in ("policy:weekly", "policy:weekly", "user"):
        clock.advance(HOUR_MS)
        taken = trigger_savepoint(
            job.root, job.job, kind="canonical", directory=directory, trigger=trigger, clock=clock
        )
        made.append(taken.savepoint_id)
    policy = RetentionPolicy(savepoints=Keep(last=1), grace_ms=0)
    dry = retain(job.root, job.job, policy, dry_run=True, clock=clock)
    assert [one.savepoint_id for one in dry.plan.disposals] == [made[0]]
    assert dry.plan.bytes == dry.plan.disposals[0].bytes + sum(removal.bytes for removal in dry.plan.removals)
    assert dry.plan.disposals[0].bytes > 0
    apply_retention(dry.plan, clock=clock)
    assert ids_of(job) == set(made), "the lower layer of the library leaves them alone"
    done = retain(job.root, job.job, policy, clock=clock)
    assert done.disposed == (made[0],)
    assert ids_of(job) == set(made[1:])
    folder = Path(directory or f"{job.root}/{job.job}/_savepoints", made[0])
    assert not [path for path in folder.rglob("*") if path.is_file()]
    assert retain(job.root, job.job, policy, clock=clock).disposed == ()


def test_one_that_a_restore_reads_stays_and_it_is_said(job: JobBuilder) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical", trigger="policy:weekly")
    job.storage.put_if_absent(f"{savepoint_folder(taken.savepoint_id)}/{IN_USE}/x", b"job other since 5")
    done = retain(job.root, job.job, NONE_OF_POLICIES)
    assert done.disposed == ()
    assert "in use: job other since 5" in done.in_use[0]
    assert ids_of(job) == {taken.savepoint_id}


def test_native_and_canonical_ones_are_counted_together(job: JobBuilder) -> None:
    clock, made = ManualClock(), []
    for kind in ("native", "canonical", "native"):
        clock.advance(HOUR_MS)
        made.append(trigger_savepoint(job.root, job.job, kind=kind, trigger="policy:x", clock=clock).savepoint_id)
    done = retain(job.root, job.job, RetentionPolicy(savepoints=Keep(last=1), grace_ms=0), clock=clock)
    assert (done.plan.savepoints, done.disposed) == ((made[0],), (made[1],))
    assert ids_of(job) == {made[2]}


def unfinished(job: JobBuilder, clock: ManualClock) -> str:
    """Leaves the files of a process that died while it wrote a canonical savepoint of epoch 1."""
    storage = open_storage(job.root, job.job)
    log, head = ManifestLog(storage, job.job), job.log.read(1, 1)
    chain_after = newest_fold_inputs(storage, log, CheckpointTable(storage, open_tables(storage)), head)
    draft = replace(draft_pin(storage, head, chain_after), created_at=clock.now_ms(), folds=True)
    name = write_pin(job.root, storage, CountingIds(), draft, head).savepoint_id
    storage.put_if_absent(f"{savepoint_folder(name)}/aircraft/count/part-x.parquet", b"half")
    return name


def test_what_a_dead_writer_left_goes_after_a_day(job: JobBuilder) -> None:
    clock = ManualClock()
    name = unfinished(job, clock)
    clock.advance(DAY_MS - 1)
    retain(job.root, job.job, AT_ONCE, clock=clock)
    assert len(files(job, savepoint_folder(name))) == 2
    assert first_is_there(job), "it may still be written"
    clock.advance(1)
    done = retain(job.root, job.job, AT_ONCE, clock=clock)
    assert {removal.reason for removal in done.plan.removals if name in removal.path} == {
        f"savepoint {name} was not written within a day, and nobody lists it"
    }
    assert files(job, savepoint_folder(name)) == []
    assert not first_is_there(job), "nothing else kept it"
    assert state_of(job.root, job.job) == model(job, 5)


def test_of_one_that_was_written_only_the_pin_goes(job: JobBuilder) -> None:
    clock = ManualClock()
    taken = trigger_savepoint(job.root, job.job, kind="canonical", epoch=1, clock=clock)
    name = unfinished(job, clock)
    data = job.storage.get(pin_path(name))
    job.storage.put_if_absent(pin_path(taken.savepoint_id), data)  # as a crash after `_metadata` leaves it
    before = files(job, savepoint_folder(taken.savepoint_id))
    clock.advance(DAY_MS)
    retain(job.root, job.job, AT_ONCE, clock=clock)
    assert job.storage.exists(metadata_path(taken.savepoint_id))
    assert set(before) - set(files(job, savepoint_folder(taken.savepoint_id))) == {pin_path(taken.savepoint_id)}
    load_savepoint(job.root, job.job, taken.savepoint_id)


def test_a_pin_of_a_person_never_ages(job: JobBuilder) -> None:
    clock = ManualClock()
    taken = trigger_savepoint(job.root, job.job, epoch=1, clock=clock)
    clock.advance(1000 * DAY_MS)
    retain(job.root, job.job, NONE_OF_POLICIES, clock=clock)
    assert state_of(job.root, job.job, taken.savepoint_id) == model(job, 1)


def adopted_and_checkpointed(job: JobBuilder, head: StoredManifest, number: int) -> StoredManifest:
    """Seals an epoch that adopts the newest base, as a driver does, and one that carries a checkpoint."""
    row = open_job(job.root, job.job).newest_checkpoint()
    assert row is not None
    manifest = head.manifest
    idle = carried(head, "idle", incarnation=manifest.incarnation, number=manifest.incarnation_number, now_ms=0)
    sealed = ManifestLog(open_storage(job.root, job.job), job.job).put(replace(idle, base=row.base))
    return checkpoint(job.root, job.job, sealed, number)


# Copies that restores made ------------------------------------------------------------------------------------------


def test_a_copy_goes_when_no_epoch_that_stays_began_with_it(job: JobBuilder) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical", epoch=3)
    head = start(job.root, job.job, taken.savepoint_id).stored
    copies = files(job, RESTORED)
    assert copies
    retain(job.root, job.job, AT_ONCE)
    assert files(job, RESTORED) == copies, "the job depends on them"
    head = checkpoint(job.root, job.job, head, 3)
    head = checkpoint(job.root, job.job, head, 4)
    retain(job.root, job.job, RetentionPolicy(checkpoints=Keep(last=2), grace_ms=0))
    assert files(job, RESTORED) == copies, "epochs that stay name it"
    head = adopted_and_checkpointed(job, head, 5)
    done = retain(job.root, job.job, AT_ONCE)
    gone = [removal for removal in done.plan.removals if removal.kind == "restored"]
    assert sorted(removal.path for removal in gone) == copies
    assert {removal.reason for removal in gone} == {"no epoch that stays began with this copy of a savepoint"}
    assert files(job, RESTORED) == []
    assert state_of(job.root, job.job) == model(job, 3)
    assert state_of(job.root, job.job, taken.savepoint_id) == model(job, 3), "the savepoint itself stays"
    again = start(job.root, job.job, taken.savepoint_id).stored
    assert again.manifest.generation == head.manifest.generation + 1
    assert state_of(job.root, job.job) == model(job, 3)


def test_a_savepoint_keeps_the_copy_that_its_epoch_is_based_on(job: JobBuilder) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical", epoch=3)
    head = start(job.root, job.job, taken.savepoint_id).stored
    pin = trigger_savepoint(job.root, job.job)
    head = checkpoint(job.root, job.job, head, 3)
    adopted_and_checkpointed(job, head, 4)
    retain(job.root, job.job, AT_ONCE)
    load_savepoint(job.root, job.job, pin.savepoint_id)
    assert state_of(job.root, job.job, pin.savepoint_id) == model(job, 3)
    dispose_savepoint(job.root, job.job, pin.savepoint_id)
    retain(job.root, job.job, AT_ONCE)
    assert files(job, RESTORED) == []


def test_a_copy_that_is_being_made_stays(job: JobBuilder) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical", epoch=3)
    target = resolve_restore(job.root, job.job, taken.savepoint_id)
    policy = RetentionPolicy(grace_ms=HOUR_MS)
    clock = ManualClock()
    with leased_folder(job.root, job.job, RESTORED, "restore", clock=clock):
        adopt(job.root, job.job, target)
        copies = files(job, RESTORED)
        retain(job.root, job.job, AT_ONCE, clock=clock)
        assert files(job, RESTORED) == copies
    retain(job.root, job.job, policy, clock=clock)
    with pytest.raises(CondemnedError, match=r"The restore needs _restored/.*retention is removing"):
        adopt(job.root, job.job, target)
    clock.advance(HOUR_MS)
    retain(job.root, job.job, policy, clock=clock)
    assert files(job, RESTORED) == []
    adopt(job.root, job.job, target)
    assert files(job, RESTORED) == copies


# Readers ------------------------------------------------------------------------------------------------------------


def test_a_savepoint_that_is_being_read_is_not_disposed_of(job: JobBuilder) -> None:
    clock = ManualClock()
    mine = trigger_savepoint(job.root, job.job, epoch=3, clock=clock)
    policys = trigger_savepoint(job.root, job.job, epoch=3, trigger="policy:x", clock=clock)
    with reading(job.root, job.job, mine.savepoint_id, purpose="daily report", clock=clock) as at:
        assert at == mine.savepoint_id
        with pytest.raises(SavepointError, match="in use: daily report since"):
            dispose_savepoint(job.root, job.job, mine.savepoint_id, clock=clock)
        retain(job.root, job.job, NONE_OF_POLICIES, clock=clock)
        assert ids_of(job) == {mine.savepoint_id, policys.savepoint_id}
        clock.advance(HOUR_MS)
        assert retain(job.root, job.job, NONE_OF_POLICIES, dry_run=True, clock=clock).plan.savepoints == (
            policys.savepoint_id,
        )
    assert dispose_savepoint(job.root, job.job, mine.savepoint_id, clock=clock)


def test_force_does_not_ask_readers(job: JobBuilder) -> None:
    mine = trigger_savepoint(job.root, job.job, epoch=3)
    with reading(job.root, job.job, mine.savepoint_id):
        assert dispose_savepoint(job.root, job.job, mine.savepoint_id, force=True)


def test_a_reader_keeps_the_epoch_that_it_reads_and_reads_one_epoch(job: JobBuilder) -> None:
    clock = ManualClock()
    with reading(job.root, job.job, "epoch:1/1", clock=clock) as at:
        retain(job.root, job.job, AT_ONCE, clock=clock)
        assert state_of(job.root, job.job, at) == model(job, 1)
    with reading(job.root, job.job, clock=clock) as at:
        job.epoch({("aircraft", "count"): []})
        assert not isinstance(at, str)
        assert at.manifest.epoch == 5
        assert read_state(job.root, job.job, "aircraft", "count", at=at).num_rows
    retain(job.root, job.job, AT_ONCE, clock=clock)
    assert files(job, "_retention/leases") == []
    assert not first_is_there(job)


def test_a_canonical_savepoint_is_read_without_a_lease(job: JobBuilder) -> None:
    taken = trigger_savepoint(job.root, job.job, kind="canonical")
    with reading(job.root, job.job, taken.savepoint_id) as at:
        assert files(job, "_retention") == []
        assert state_of(job.root, job.job, at) == model(job, 5)


def test_a_restore_of_key_groups_keeps_its_source(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    from state_engine.savepoint.group_restore import GroupRestorer

    write, seen = GroupRestorer.write, []

    def during(self: GroupRestorer, head: object) -> object:
        seen.append(plan_retention(job.root, job.job, AT_ONCE, ManualClock().now_ms()).removals)
        return write(self, head)  # type: ignore[arg-type]

    monkeypatch.setattr(GroupRestorer, "write", during)
    assert plan_retention(job.root, job.job, AT_ONCE, ManualClock().now_ms()).removals
    restore_key_groups(job.root, job.job, "epoch:1/1", [(0, 12)], clock=ManualClock())
    assert not changes_of(job.log.read(1, 1).manifest) & {removal.path for removal in seen[0]}
    assert files(job, "_retention/leases") == []
    retain(job.root, job.job, AT_ONCE)
    with pytest.raises(MissingFileError, match="retention"):
        restore_key_groups(job.root, job.job, "epoch:1/1", [(0, 12)])


def test_a_lease_of_an_epoch_is_no_lease_of_another(job: JobBuilder) -> None:
    mine = trigger_savepoint(job.root, job.job, epoch=3)
    with leased(job.root, job.log.read(1, 4), "somebody"):
        assert dispose_savepoint(job.root, job.job, mine.savepoint_id)
