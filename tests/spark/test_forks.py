"""Forks: another job starts from a savepoint while its origin continues."""

from pathlib import Path

import pytest
from support import (
    Input,
    assert_counts,
    assert_tally,
    by_n,
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

from state_engine.errors import SavepointError, SourceFileMissingError
from state_engine.inspect import open_job
from state_engine.log.paths import manifest_path
from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark


def test_a_fork_goes_on_from_the_savepoint_while_its_origin_is_further(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(1)
    origin_sinks, fork_sinks = outputs(tmp_path / "origin"), outputs(tmp_path / "fork")

    def origin():
        return tally_job(source.stream(spark), root, "origin", origin_sinks, 2)

    def fork():
        return tally_job(source.stream(spark), root, "fork", fork_sinks, 3)

    pin = run_all(origin()).trigger_savepoint()
    skipped = len(truth(source.all).tally)
    source.add_many(1)
    run_all(origin())
    head = newest(root, "origin")

    client = run_all(fork(), restore=f"origin/{pin.savepoint_id}")
    assert [e.records for e in client.epochs] == [60]
    assert newest(root, "fork").generation == 1
    assert newest(root, "origin") == head

    source.add_many(1)
    run_all(fork())
    run_all(origin())
    assert_tally(root, "origin", origin_sinks, source.all)
    expected = truth(source.all)
    assert table_rows(fork_sinks.tally) == expected.tally[skipped:]
    for state in ("times", "recent", "by_sub"):
        assert state_of(root, "origin", "tally", state) == expected.states[state]


@pytest.mark.long  # test_sources.py restores without the files of a source
def test_a_fork_whose_files_are_gone(spark, tmp_path: Path) -> None:
    """The fork still has to read the files that its origin has read after the savepoint."""
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(2)
    pin = run_all(count_job(source.stream(spark), root, "whole")).trigger_savepoint()
    source.add_many(2)
    run_all(count_job(source.stream(spark), root, "whole"))
    read_before, read_behind = source.files[1], source.files[2]
    read_before.rename(tmp_path / "needed by nobody")
    hidden = read_behind.rename(tmp_path / "hidden")

    with pytest.raises(SourceFileMissingError, match=read_behind.name) as caught:
        count_job(source.stream(spark), root, "holed").start(available_now=True, restore=f"whole/{pin.savepoint_id}")
    assert caught.value.action
    assert newest(root, "holed") is None

    hidden.rename(read_behind)
    run_all(count_job(source.stream(spark), root, "holed"), restore=f"whole/{pin.savepoint_id}")
    assert by_n(MemorySink("holed").rows()) == counted(source.all)[120:]


@pytest.mark.long  # `test_inlined_changes.py` also restores a savepoint of a job that has continued
def test_a_restore_to_a_savepoint_while_the_generation_is_further(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(2)
    pin = run_all(count_job(source.stream(spark), root, "further")).trigger_savepoint()
    source.add_many(2)
    run_all(count_job(source.stream(spark), root, "further"))
    client = run_all(count_job(source.stream(spark), root, "further", parallelism=3), restore=pin.savepoint_id)
    assert client.head.manifest.generation == 2
    assert {epoch.generation for epoch in MemorySink("further").epochs} == {1, 2}
    assert_counts(root, "further", source.all)


@pytest.mark.long  # `epoch/test_forks.py` forks a fork
def test_a_fork_can_be_forked(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(2)
    pin = run_all(count_job(source.stream(spark), root, "one")).trigger_savepoint()

    def two():
        return count_job(source.stream(spark), root, "two", checkpoint_interval_ms=10)

    source.add_many(2)
    run_all(two(), restore=f"one/{pin.savepoint_id}")
    assert open_job(str(root), "two").checkpoints()
    source.add_many(1)
    second = run_all(two()).trigger_savepoint()
    base = newest(root, "two").base
    assert base is not None
    for epoch in range(1, base.epoch + 1):  # files from before its base are not needed any more
        (root / "two" / manifest_path(1, epoch)).unlink(missing_ok=True)
    source.add_many(1)
    run_all(count_job(source.stream(spark), root, "three", parallelism=3), restore=f"two/{second.savepoint_id}")
    rows = sorted(tuple(row.values()) for name in ("one", "two", "three") for row in MemorySink(name).rows())
    assert rows == counted(source.all)


def test_a_young_fork_can_be_read_and_pinned_once_it_has_a_checkpoint(spark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    source = Input(tmp_path / "in").add_many(2)
    pin = run_all(count_job(source.stream(spark), root, "old")).trigger_savepoint()
    source.add_many(1)
    young = count_job(source.stream(spark), root, "young")
    client = run_all(young, restore=f"old/{pin.savepoint_id}")
    assert state_of(root, "young", "count", "count") == {k: times for _, k, times in counted(source.all)}
    with pytest.raises(SavepointError, match="'old'") as caught:
        client.trigger_savepoint()
    assert "checkpoint" in caught.value.action
