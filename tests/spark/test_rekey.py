"""Streams that continue with another number of key groups, and under other uids."""

import shutil
from pathlib import Path

import pytest
from support import (
    COUNTS,
    Count,
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
)
from typer.testing import CliRunner

from lakestate.cli import app
from state_engine.errors import GeneratedUidError, MaxParallelismChangedError, RestoreCancelledError, RestoreError
from state_engine.savepoint import list_savepoints, trigger_savepoint
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_savepoint_of_13_key_groups_goes_on_in_128_elsewhere(spark, tmp_path: Path) -> None:
    """For the rest of its input a job gives the same output as if it had never stopped."""
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)
    run_all(tally_job(source.stream(spark), root, "moving", sinks, 2, max_parallelism=13))
    savepoint = trigger_savepoint(str(root), "moving", kind="canonical", directory=str(tmp_path / "backup"))
    at = list(source.all)
    moved = tmp_path / "another" / "place"
    moved.parent.mkdir()
    shutil.move(str(savepoint.directory), moved)
    shutil.rmtree(root)
    new, new_sinks = tmp_path / "new", outputs(tmp_path / "new out")
    source.add_many(1)

    def again():
        return tally_job(source.stream(spark), new, "moved", new_sinks, 3, checkpoint_interval_ms=10)

    run_all(again(), restore=str(moved), max_parallelism=128)
    shutil.rmtree(moved)
    assert {op.max_parallelism for op in newest(new, "moved").operators.values()} == {128}
    source.add_many(1)
    run_all(again())  # the number is the job's from now on
    assert {op.max_parallelism for op in newest(new, "moved").operators.values()} == {128}
    expected = truth(source.all)
    assert table_rows(new_sinks.tally) == expected.tally[len(truth(at).tally) :]
    assert table_rows(new_sinks.totals) == expected.totals[len(truth(at).totals) :]
    for state in ("times", "recent", "by_sub", "highest", "mean"):
        assert state_of(new, "moved", "tally", state) == expected.states[state], state
    assert state_of(new, "moved", "totals", "total", key="sub") == expected.states["total"]


@pytest.mark.long
def test_a_dry_run_of_a_job_reports_what_its_start_would_do(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(3)

    def job(stream=None, **options):
        return tally_job(stream or source.stream(spark), root, "dry", sinks, 2, **options)

    run_all(job(max_parallelism=13))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = job()
    plan = planned.plan_restore("epoch:1/3", max_parallelism=128, parallelism=4)
    assert (plan.ok, plan.code_checked, plan.copied) == (True, True, True), plan.refusals
    expected = truth([row for row in source.all if row.n < 120]).states
    rows = {state.state: state.rows for state in plan.states}
    assert rows["times"] == len(expected["times"])
    assert rows["recent"] == sum(map(len, expected["recent"].values()))
    assert {o.uid: (o.max_parallelism, o.parallelism) for o in plan.operators} == {
        "tally": ((13, 128), (2, 4)),
        "totals": ((13, 128), (2, 4)),
    }
    other = job(Input(tmp_path / "elsewhere").add_many(1).stream(spark), max_parallelism=64)
    assert [r.error for r in other.plan_restore("latest").refusals] == [
        "MaxParallelismChangedError",
        "SourcesChangedError",
    ]
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(RestoreCancelledError):
        job().start(available_now=True, restore="epoch:1/3", max_parallelism=128, cancelled=lambda: True)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    told: list[float] = []
    run_all(planned, restore="epoch:1/3", max_parallelism=128, progress=lambda _, share: told.append(share))
    assert told[-1] == pytest.approx(1.0)
    assert_tally(root, "dry", sinks, source.all)


@pytest.mark.long  # `savepoint/test_rekey.py` goes back to any point
@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("heap", marks=pytest.mark.long)])
def test_a_job_goes_back_in_place_and_its_sinks_with_it(spark, tmp_path: Path, backend: str) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)

    def job(**options):
        return tally_job(source.stream(spark), root, f"own-{backend}", sinks, 2, state_backend=backend, **options)

    pin = run_all(job(max_parallelism=13)).trigger_savepoint()
    source.add_many(1)
    run_all(job())
    with pytest.raises(MaxParallelismChangedError, match="written with 13"):
        job(max_parallelism=26).start(available_now=True, restore=pin.savepoint_id)
    # Ranges of 26 key groups at parallelism 4 look like those of 13 at 2: no worker may confuse them.
    client = run_all(job(), restore=pin.savepoint_id, max_parallelism=26, parallelism=4, claim_mode="CLAIM")
    assert [epoch.records for epoch in client.epochs if epoch.kind == "epoch"] == [60]
    assert list_savepoints(str(root), f"own-{backend}") == []
    assert_tally(root, f"own-{backend}", sinks, source.all)
    source.add_many(1)
    run_all(job(), restore="latest", max_parallelism=7)
    assert_tally(root, f"own-{backend}", sinks, source.all)


def test_renamed_operators_find_their_state(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), root, "renamed"))
    source.add_many(1)

    def job():
        renamed = StreamJob("renamed", root=str(root), parallelism=2)
        stream = renamed.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        stream.process(Count(), COUNTS, uid="tally").sink_to(MemorySink("renamed"), uid="out")
        return renamed

    run_all(job(), restore="latest", uid_mapping={"count": "tally"}, keep_output=True)
    expected = {k: times for _, k, times in counted(source.all)}
    assert state_of(root, "renamed", "tally", "count") == expected
    run_all(job())
    with pytest.raises(RestoreError, match="change what is restored, and nothing is"):
        job().start(uid_mapping={"count": "tally"})


def test_a_stopped_job_is_restored_by_the_command_line(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)

    def job():
        return tally_job(source.stream(spark), root, "shell", sinks, 2)

    pin = run_all(job()).trigger_savepoint()
    at = list(source.all)
    source.add_many(1)
    run_all(job())
    arguments = ["restore", "shell", "--root", str(root), "--from", pin.savepoint_id, "--max-parallelism", "7"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert table_rows(sinks.tally) == truth(at).tally, "sinks went back"
    client = run_all(job())
    assert [epoch.records for epoch in client.epochs if epoch.kind == "epoch"] == [60]
    assert {op.max_parallelism for op in newest(root, "shell").operators.values()} == {7}
    assert_tally(root, "shell", sinks, source.all)


@pytest.mark.filterwarnings("ignore:The operator has no uid")
def test_an_operator_without_a_uid_is_refused_by_name_once_others_are_there(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(1)

    def job(*, uid: str | None = None, more: bool = False):
        made = StreamJob("nameless", root=str(root), parallelism=1)
        counted_ = made.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid=uid)
        counted_.sink_to(MemorySink("nameless"), uid="out")
        if more:
            again = counted_.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="again")
            again.sink_to(MemorySink("again"), uid="again-out")
        return made

    run_all(job())
    [uid] = newest(root, "nameless").operators
    with pytest.raises(GeneratedUidError, match=rf"'{uid}'.*new: again.*uid='{uid}'"):
        job(more=True).start(available_now=True)
    run_all(job(uid=uid, more=True))
    assert state_of(root, "nameless", uid, "count") == {k: times for _, k, times in counted(source.all)}
