"""Counts, summary and history of checkpoints, computed from the stored rows."""

import random
from pathlib import Path

from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.requests import CheckpointRequest
from state_engine.checkpoint.statistics import statistics_of
from state_engine.checkpoint.table import CheckpointRow, CheckpointStatus
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import CheckpointEnd
from state_engine.inspect import open_job
from state_engine.savepoint import trigger_savepoint
from state_engine.storage.open import open_storage
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import COUNT, random_changes, sample_job


def row(number: int, status: CheckpointStatus = "completed", **figures: int) -> CheckpointRow:
    return CheckpointRow(
        id=str(number),
        kind="checkpoint",
        checkpoint_id=number,
        status=status,
        generation=1,
        epoch=number,
        manifest="",
        triggered_at=number * 1000,
        completed_at=number * 1000 + figures.get("duration_ms", 0),
        **{"duration_ms": 0, **figures},
    )


def test_a_job_without_any() -> None:
    stats = statistics_of([])
    assert (stats.counts.total, stats.summary, stats.history) == (0, None, ())
    assert stats.latest == (None, None, None)


def test_counts_and_the_newest_of_each_kind() -> None:
    rows = [row(1), row(2, "failed"), row(3), row(4, "expired"), row(5, "subsumed")]
    pending = [PendingCheckpoint(6, 9, CheckpointRequest(), 0)]
    stats = statistics_of(rows, pending)
    assert (stats.counts.completed, stats.counts.failed, stats.counts.in_progress) == (2, 3, 1)
    assert stats.counts.total == 6
    assert stats.in_progress == (6,)
    assert (stats.latest.completed, stats.latest.failed, stats.latest.savepoint) == (
        rows[2],
        rows[4],
        None,
    )
    assert [one.id for one in stats.history] == ["5", "4", "3", "2", "1"]


def test_what_has_ended_is_not_in_progress_although_the_driver_does_not_know_yet() -> None:
    pending = [PendingCheckpoint(number, number, CheckpointRequest(), 0) for number in (1, 2)]
    stats = statistics_of([row(1)], pending)
    assert (stats.counts.total, stats.in_progress) == (2, (2,))


def test_a_history_of_nothing_has_counts() -> None:
    stats = statistics_of([row(1), row(2)], history=0)
    assert (stats.counts.completed, stats.history, stats.summary) == (2, (), None)
    assert stats.latest.completed is not None


def test_the_summary_is_of_the_completed_ones_of_the_history() -> None:
    rows = [row(n, duration_ms=n * 10, bytes=n, state_bytes=100) for n in range(1, 12)]
    rows.append(row(12, "failed", duration_ms=9999))
    stats = statistics_of(rows, history=5)
    assert [one.id for one in stats.history] == ["12", "11", "10", "9", "8"]
    assert stats.summary is not None
    durations = stats.summary.duration_ms
    assert (durations.minimum, durations.maximum, durations.average) == (80, 110, 95)
    assert durations.quantiles[0] == 95
    assert durations.quantiles == tuple(sorted(durations.quantiles))
    assert stats.summary.bytes.average == 10  # 9.5, rounded to even
    assert stats.summary.state_bytes.minimum == stats.summary.state_bytes.maximum == 100


def test_a_new_driver_knows_from_the_store_alone(tmp_path: Path) -> None:
    """Ids, the newest base, the owed checkpoint and the history are recovered without the old driver's memory."""
    rng = random.Random(5)
    old = sample_job(str(tmp_path))
    publisher = CheckpointPublisher(old.storage, old.job, clock=ManualClock())
    publisher.begin(old.epoch(random_changes(rng), checkpoint_id=1))
    lost = old.epoch(random_changes(rng), checkpoint_id=2)
    handle = next(ack.changes for op in lost.manifest.operators.values() for ack in op.acks if ack.changes)
    data = old.storage.get(handle.path)
    old.storage.delete(handle.path)
    publisher.begin(lost)
    old.storage.put_if_absent(handle.path, data)
    old.epoch(random_changes(rng), checkpoint_id=3)  # and dies
    owed = old.epoch(random_changes(rng), kind="claim")

    storage = open_storage(str(tmp_path), old.job)
    new = CheckpointPublisher(storage, old.job, clock=ManualClock())
    assert new.next_checkpoint_id() == 4
    base = new.finish(owed)
    assert base is not None
    assert (base.checkpoint_id, base.epoch) == (3, 3)
    assert new.ended() == [CheckpointEnd(3, completed=True)]
    stats = open_job(str(tmp_path), old.job).checkpoint_statistics()
    assert [(one.id, one.status) for one in stats.history] == [
        ("3", "completed"),
        ("2", "failed"),
        ("1", "completed"),
    ]
    assert handle.path in stats.history[1].failure
    assert (stats.counts.completed, stats.counts.failed) == (2, 1)
    coordinator = CheckpointCoordinator()
    coordinator.resume(next_id=new.next_checkpoint_id(), last_epoch=base.epoch)
    assert coordinator.next_id() == 4
    assert coordinator.pending == ()


def test_the_phases_of_a_checkpoint_add_up(tmp_path: Path) -> None:
    clock = ManualClock()

    class Slow:
        def at(self, point: CrashPoint, epoch: int) -> None:
            took = {CrashPoint.E9_FILES_WRITTEN: 20, CrashPoint.E9_TABLE_COMMITTED: 3, CrashPoint.E9_BASE_WRITTEN: 500}
            clock.advance(took.get(point, 0))

    job = sample_job(f"memory://{tmp_path}")
    job.now_ms = clock.now_ms() - 7
    publisher = CheckpointPublisher(job.storage, job.job, clock=clock, crash=Slow())
    publisher.begin(job.epoch(random_changes(random.Random(5)), checkpoint_id=1))
    [row] = open_job(job.root, job.job).checkpoints()
    began = clock.now_ms() - sum(row.phases_ms.values()) + row.phases_ms["epoch"]
    assert list(row.phases_ms) == ["epoch", "fold", "tables", "base"]
    assert row.phases_ms["fold"] == 20
    assert row.phases_ms["tables"] == 3 * len(row.states)
    assert row.phases_ms["base"] == 500
    assert began > row.triggered_at
    assert row.duration_ms == sum(row.phases_ms.values())


def test_the_store_alone_gives_them_with_the_skew_of_key_groups(tmp_path: Path) -> None:
    rng = random.Random(5)
    job = sample_job(f"memory://{tmp_path}")
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    for checkpoint_id in (1, 2):
        publisher.begin(job.epoch(random_changes(rng), checkpoint_id=checkpoint_id))
    pin = trigger_savepoint(job.root, job.job, clock=ManualClock())
    stats = open_job(job.root, job.job).checkpoint_statistics()
    assert stats.counts.completed == 2
    assert stats.latest.savepoint is not None
    assert stats.latest.savepoint.id == pin.savepoint_id
    full = stats.history[1]
    assert full.type == "FULL"
    state = next(one for one in full.states if (one.uid, one.state) == (COUNT.uid, COUNT.name))
    assert state.groups is not None
    assert state.largest_group_rows is not None
    assert 1 <= state.groups <= 12
    assert state.largest_group_rows >= state.log_rows / state.groups
    assert state.log_rows <= state.largest_group_rows * state.groups
