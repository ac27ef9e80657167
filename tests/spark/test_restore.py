"""Restores in one session: workers have newer state and sinks have later output, and neither has an effect."""

from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support import Input, assert_tally, newest, outputs, run_all, table_rows, tally_job, truth

from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import NothingToRestoreError, SinkRewindError
from state_engine.inspect import open_job
from state_engine.savepoint import list_savepoints
from state_engine.testing.simulated import SimulatedCrash

pytestmark = pytest.mark.spark


@pytest.mark.long  # test_canonical_savepoints.py and test_restored_key_groups.py restore at another parallelism
def test_a_savepoint_is_restored_with_another_parallelism(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)

    def job():
        return tally_job(source.stream(spark), root, "back", sinks, 2, max_parallelism=13)

    pin = run_all(job()).trigger_savepoint(label="two files")
    at_pin = list(source.all)
    source.add_many(2)
    run_all(job())
    assert_tally(root, "back", sinks, source.all)

    client = run_all(job(), restore=pin.savepoint_id, parallelism=3)
    manifest = client.head.manifest
    assert (manifest.generation, manifest.operators["tally"].parallelism) == (2, 3)
    assert [e.records for e in client.epochs] == [60] * 2
    assert_tally(root, "back", sinks, source.all)
    assert truth(at_pin).tally == truth(source.all).tally[: len(truth(at_pin).tally)]
    assert [p.savepoint_id for p in list_savepoints(str(root), "back")] == [pin.savepoint_id]


def test_sinks_go_back_before_anything_new_is_read(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(3)
    job = tally_job(source.stream(spark), root, "sinks-back", sinks, 3)
    run_all(job)
    kept = [row for row in source.all if row.n < 60]
    run_all(tally_job(source.stream(spark).where("n < 60"), root, "sinks-back", sinks, 3), restore="epoch:1/2")
    assert newest(root, "sinks-back").generation == 2
    assert table_rows(sinks.tally) == truth(kept).tally
    assert table_rows(sinks.totals) == truth(kept).totals


@pytest.mark.long
def test_going_back_twice_and_forward_again(spark, tmp_path: Path) -> None:
    """The second restore enters a generation that the first one abandoned."""
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(3)

    def job():
        return tally_job(source.stream(spark), root, "to-and-fro", sinks, 2)

    run_all(job())
    run_all(job(), restore="epoch:1/2")
    assert_tally(root, "to-and-fro", sinks, source.all)
    client = run_all(job(), restore="epoch:1/3", parallelism=1)
    assert client.head.manifest.generation == 3
    assert [e.records for e in client.epochs] == [60]
    assert_tally(root, "to-and-fro", sinks, source.all)


class DiesAt:
    """Ends a start at a crash point, by an exception; `test_process_kills.py` does it with SIGKILL."""

    def __init__(self, point: CrashPoint) -> None:
        self.point = point

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self.point:
            raise SimulatedCrash(point.name)


@pytest.mark.long  # `epoch/test_forks.py` finishes restores that died
def test_a_restore_that_dies_is_resumed(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies before the closing manifest, between that and the sinks, or between the sinks and the new generation."""
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)
    back = {"restore": "epoch:1/2", "parallelism": 3}

    def job():
        return tally_job(source.stream(spark), root, "dying", sinks, 2)

    run_all(job())
    source.add_many(1)
    for point, kind in (
        (CrashPoint.S2_BEFORE_CLOSING, "epoch"),
        (CrashPoint.S2_CLOSED, "closing"),
        (CrashPoint.S3_REWOUND, "closing"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr("state_engine.spark.driver.startup.crash_from_environment", partial(DiesAt, point))
            with pytest.raises(SimulatedCrash, match=point.name):
                job().start(available_now=True, **back)
        assert newest(root, "dying").kind == kind
    run_all(job(), **back)
    assert newest(root, "dying").generation == 2
    assert_tally(root, "dying", sinks, source.all)


@pytest.mark.long  # other tests restore savepoints; `epoch/test_forks.py` has older epochs
def test_a_checkpoint_of_the_past_is_restored(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)

    def job():
        return tally_job(source.stream(spark), root, "checkpointed", sinks, 2, checkpoint_interval_ms=10)

    run_all(job())
    completed = [row for row in open_job(str(root), "checkpointed").checkpoints() if row.status == "completed"]
    assert completed
    source.add_many(1)
    client = run_all(job(), restore=f"checkpoint:{completed[0].id}")
    assert client.head.manifest.generation == 2
    assert_tally(root, "checkpointed", sinks, source.all)


def test_what_does_not_exist_is_refused_and_nothing_written(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)
    job = tally_job(source.stream(spark), root, "unknown", sinks, 1)
    run_all(job)
    head = newest(root, "unknown")
    for name in ("no-such-savepoint", "checkpoint:77", "epoch:1/99", "epoch:5/1"):
        with pytest.raises(NothingToRestoreError) as caught:
            job.start(available_now=True, restore=name)
        assert caught.value.action
    assert newest(root, "unknown") == head


def test_the_number_of_key_groups_is_that_of_the_log(spark, tmp_path: Path) -> None:
    """It is derived from the parallelism of the first start; a later parallelism may be higher."""
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)
    run_all(tally_job(source.stream(spark), root, "derived", sinks, 2, max_parallelism=13))
    source.add_many(1)
    run_all(tally_job(source.stream(spark), root, "derived", sinks, 3))
    assert {op.max_parallelism for op in newest(root, "derived").operators.values()} == {13}
    assert_tally(root, "derived", sinks, source.all)


@pytest.mark.long
def test_files_of_an_abandoned_generation_that_were_vacuumed(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(3)

    def job():
        return tally_job(source.stream(spark), root, "vacuumed", sinks, 2)

    run_all(job())
    run_all(job(), restore="epoch:1/2")
    head = newest(root, "vacuumed")
    table = DeltaTable(sinks.totals)
    assert table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(SinkRewindError, match=r"totals-out.*VACUUM") as caught:
        job().start(available_now=True, restore="epoch:1/4")
    assert caught.value.action
    assert newest(root, "vacuumed") == head
    source.add_many(1)
    run_all(job())
    assert_tally(root, "vacuumed", sinks, source.all)
