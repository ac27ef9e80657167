"""Checkpoints of a running job: rows in `_checkpoints`, state tables, and reading at each of them."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from support import (
    Input,
    assert_counts,
    count_job,
    counted,
    newest,
    run_all,
    state_of,
    wait_for,
    wait_for_beats,
    with_epochs,
)

from state_engine.api import CheckpointConfig
from state_engine.errors import CheckpointFailedError, CheckpointFailuresError
from state_engine.inspect import open_job

pytestmark = pytest.mark.spark


def completed(root: Path, job: str) -> list[Any]:
    return [row for row in open_job(str(root), job).checkpoints() if row.status == "completed"]


def test_state_at_every_checkpoint_is_the_fold(spark, tmp_path: Path, started) -> None:
    root, name, source = tmp_path / "root", "published", Input(tmp_path / "in").add_many(2)
    job = count_job(source.stream(spark), root, name, checkpoint_interval_ms=50)
    client = started(job.start(trigger_interval_ms=50))
    for _ in range(3):
        with_epochs(client, len(source.files), of_input=True)
        wait_for(lambda: completed(root, name), "a checkpoint")
        source.add_many(1)
    with_epochs(client, len(source.files), of_input=True)
    client.stop()

    rows = completed(root, name)
    assert [row.epoch for row in rows] == sorted({row.epoch for row in rows})
    for row in rows:
        seen = source.all[: sum(epoch.records for epoch in client.epochs if epoch.epoch <= row.epoch)]
        expected = {k: times for _, k, times in counted(seen)}
        assert state_of(root, name, "count", "count", at=f"checkpoint:{row.id}") == expected
        assert state_of(root, name, "count", "count", at=f"epoch:1/{row.epoch}") == expected
    assert DeltaTable(str(root / name / "count" / "count")).to_pyarrow_table().num_rows > 0
    assert_counts(root, name, source.all)


def test_without_an_interval_there_are_no_checkpoints(spark, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), root, "no-interval"))
    assert completed(root, "no-interval") == []
    assert newest(root, "no-interval").checkpoint_id is None
    source.add_many(1)
    run_all(count_job(source.stream(spark), root, "no-interval"))
    assert_counts(root, "no-interval", source.all)


def test_a_checkpoint_can_be_requested(spark, tmp_path: Path, started) -> None:
    root, name, source = tmp_path / "root", "asked", Input(tmp_path / "in").add_many(1)
    client = started(count_job(source.stream(spark), root, name).start(trigger_interval_ms=50))
    with_epochs(client, 1)
    source.add_many(1)
    checkpoint_id = client.trigger_checkpoint().result(60)
    client.stop()
    [row] = completed(root, name)
    assert int(row.id) == checkpoint_id
    seen = source.all[: sum(epoch.records for epoch in client.epochs if epoch.epoch <= row.epoch)]
    expected = {k: times for _, k, times in counted(seen)}
    assert state_of(root, name, "count", "count", at=f"checkpoint:{row.id}") == expected


def test_a_checkpoint_of_an_idle_job(spark, tmp_path: Path, started) -> None:
    root, name, source = tmp_path / "root", "asked-idle", Input(tmp_path / "in").add_many(1)
    client = started(count_job(source.stream(spark), root, name).start(trigger_interval_ms=50))
    with_epochs(client, 1)
    incremental, full = client.trigger_checkpoint(), client.trigger_checkpoint(full=True)
    ids = [incremental.result(60), full.result(60)]
    client.stop()
    with pytest.raises(CheckpointFailedError, match="No checkpoint of job 'asked-idle' was begun"):
        client.trigger_checkpoint().result(60)
    rows = completed(root, name)
    assert [int(row.id) for row in rows] == ids
    assert {row.trigger for row in rows} == {"user"}
    assert rows[1].type == "FULL"
    assert {state.reason for state in rows[1].states} == {"it was asked for"}


def test_an_idle_job_that_was_started_again_takes_the_checkpoint_that_its_predecessor_did_not(
    spark, tmp_path: Path, started
) -> None:
    root, name, source = tmp_path / "root", "started-again", Input(tmp_path / "in").add_many(2)
    run_all(count_job(source.stream(spark), root, name))
    sealed = newest(root, name).epoch
    client = started(count_job(source.stream(spark), root, name, checkpoint_interval_ms=200).start())
    wait_for(lambda: completed(root, name), "a checkpoint without input")
    [row] = completed(root, name)
    assert row.epoch > sealed
    client.stop()
    expected = {k: times for _, k, times in counted(source.all)}
    assert state_of(root, name, "count", "count", at=f"checkpoint:{row.id}") == expected
    job = count_job(source.stream(spark), root, name, checkpoint_interval_ms=50, heartbeat_interval_ms=20)
    client = started(job.start())
    wait_for_beats(client, 10)  # four intervals of checkpoints
    client.stop()
    assert [checkpoint.id for checkpoint in completed(root, name)] == [row.id], "another one"


def test_checkpoints_that_fail_fail_the_job_and_lose_nothing(spark, tmp_path: Path, started) -> None:
    root, name, source = tmp_path / "root", "no-checkpoints", Input(tmp_path / "in").add_many(1)
    config = CheckpointConfig().set_checkpoint_interval(10).set_tolerable_checkpoint_failure_number(1)
    client = started(count_job(source.stream(spark), root, name, checkpoint_config=config).start())
    with_epochs(client, 1)
    (root / name / "count").write_text("a file where the folder of the state's table should be")
    source.add_many(1)
    wait_for(lambda: client.state == "FAILED", "the failure")
    with pytest.raises(CheckpointFailedError, match="No checkpoint of job 'no-checkpoints' was begun"):
        client.trigger_checkpoint().result(60)  # although no caller waited for the end of the job, or stopped it
    client.stop()
    assert client.state == "FAILED", "a job that failed by itself stays failed"
    with pytest.raises(CheckpointFailuresError, match=r"2 checkpoints in a row .* tolerates 1"):
        client.await_termination()
    (root / name / "count").unlink()
    run_all(count_job(source.stream(spark), root, name, checkpoint_config=config))
    assert_counts(root, name, source.all)


@pytest.mark.long  # `checkpoint/test_publish.py` and test_worker_cache_catch_up.py load from a base
def test_a_restart_begins_at_the_base_and_not_at_the_first_epoch(spark, tmp_path: Path) -> None:
    root, name, source = tmp_path / "root", "base", Input(tmp_path / "in").add_many(2)
    run_all(count_job(source.stream(spark), root, name, checkpoint_interval_ms=10))
    rows = completed(root, name)
    assert rows
    source.add_many(1)
    run_all(count_job(source.stream(spark), root, name))
    base = newest(root, name).base
    assert base is not None
    assert base.epoch == rows[-1].epoch
    for epoch in range(2, base.epoch + 1):  # files from before the base are not read any more
        for file in (root / name / "_epochs" / "g000001" / "changes").glob(f"e{epoch:010d}-*"):
            file.unlink()
    source.add_many(1)
    run_all(count_job(source.stream(spark), root, name, parallelism=3))
    assert_counts(root, name, source.all)


def test_savepoints_of_a_running_job(spark, tmp_path: Path, started) -> None:
    root, name, source = tmp_path / "root", "pinned", Input(tmp_path / "in").add_many(2)
    client = started(count_job(source.stream(spark), root, name).start(trigger_interval_ms=50))
    with_epochs(client, 2)
    pin = client.trigger_savepoint(label="two", note="while it runs")
    expected = {k: times for _, k, times in counted(source.all)}
    source.add_many(2)
    with_epochs(client, 4)
    client.stop()
    assert state_of(root, name, "count", "count", at=pin) == expected
    [listed] = open_job(str(root), name).savepoints()
    assert (listed.label, listed.note, listed.epoch) == ("two", "while it runs", 3)
