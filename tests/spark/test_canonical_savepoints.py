"""Canonical savepoints of streams: taken of a running job, moved, restored elsewhere, read by other Delta readers."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support import (
    Input,
    assert_tally,
    count_job,
    counted,
    newest,
    outputs,
    run_all,
    state_of,
    table_rows,
    tally_job,
    truth,
    with_epochs,
)

from state_engine.errors import SinkRewindError
from state_engine.savepoint import list_savepoints, trigger_savepoint, validate_savepoint

pytestmark = pytest.mark.spark


def test_of_a_running_job_moved_and_restored_at_another_parallelism(spark, tmp_path: Path, started) -> None:
    """For the rest of its input a job gives the same output as if it had never stopped."""
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)
    job = tally_job(source.stream(spark), root, "moving", sinks, 2, max_parallelism=13)
    client = started(job.start())
    with_epochs(client, 1, of_input=True)
    savepoint = client.trigger_savepoint(kind="canonical", directory=str(tmp_path / "backup"))
    source.add_many(1)
    with_epochs(client, 2, of_input=True)  # the job continues
    client.stop()
    assert validate_savepoint(str(root), "moving", savepoint.savepoint_id).ok
    assert list_savepoints(str(root), "moving") == [savepoint]
    at = [row for row in source.all if row.n < 60]

    moved = tmp_path / "another" / "place"
    moved.parent.mkdir()
    assert savepoint.directory is not None
    shutil.move(savepoint.directory, moved)
    shutil.rmtree(root)
    new, new_sinks = tmp_path / "new", outputs(tmp_path / "new out")
    source.add_many(1)

    def again():
        return tally_job(source.stream(spark), new, "moved", new_sinks, 3, checkpoint_interval_ms=10)

    client = run_all(again(), restore=str(moved))
    assert [epoch.records for epoch in client.epochs if epoch.kind == "epoch"] == [60, 60]
    assert {op.parallelism for op in newest(new, "moved").operators.values()} == {3}
    assert {op.max_parallelism for op in newest(new, "moved").operators.values()} == {13}
    expected = truth(source.all)
    assert table_rows(new_sinks.tally) == expected.tally[len(truth(at).tally) :]
    for state in ("times", "recent", "by_sub"):
        assert state_of(new, "moved", "tally", state) == expected.states[state]
    shutil.rmtree(moved)
    source.add_many(1)
    run_all(again())
    assert state_of(new, "moved", "tally", "times") == truth(source.all).states["times"]


@pytest.mark.long  # `savepoint/test_canonical.py` goes back in the same root
def test_a_job_goes_back_to_its_own_and_so_do_its_sinks(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)

    def job():
        return tally_job(source.stream(spark), root, "own", sinks, 2)

    run_all(job())
    savepoint = trigger_savepoint(str(root), "own", kind="canonical")
    source.add_many(1)
    run_all(job())
    client = run_all(job(), restore=savepoint.savepoint_id, parallelism=3)
    assert [epoch.records for epoch in client.epochs] == [60]
    assert_tally(root, "own", sinks, source.all)


def test_a_job_whose_log_does_not_have_the_epoch_keeps_its_output_or_its_state(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "other root", "twin"))
    savepoint = trigger_savepoint(str(tmp_path / "other root"), "twin", kind="canonical")
    location = str(tmp_path / "other root" / "twin" / "_savepoints" / savepoint.savepoint_id)
    run_all(count_job(source.stream(spark), root, "twin"))
    head = newest(root, "twin")
    with pytest.raises(SinkRewindError, match="does not have"):
        count_job(source.stream(spark), root, "twin").start(available_now=True, restore=location)
    assert newest(root, "twin") == head
    assert not (root / "twin" / "_restored").exists()


@pytest.mark.long
def test_one_table_is_read_by_delta_rs_and_by_spark(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), root, "read"))
    savepoint = trigger_savepoint(str(root), "read", kind="canonical", directory=str(tmp_path / "backup"))
    moved = shutil.move(str(savepoint.directory), tmp_path / "moved")
    expected = {k: times for _, k, times in counted(source.all)}

    by_delta_rs = DeltaTable(f"{moved}/count/count").to_pyarrow_table().to_pylist()
    by_spark = spark.read.format("delta").load(f"{moved}/count/count").collect()
    assert len(by_delta_rs) == len(by_spark) == len(expected)
    assert {row["k"]: row["value"] for row in by_delta_rs} == expected
    assert {row["k"]: row["value"] for row in by_spark} == expected
    assert spark.read.format("delta").load(f"{moved}/count/count").schema["value"].dataType.simpleString() == "bigint"
