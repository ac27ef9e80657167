"""Jobs with changes inlined in manifests restart, rescale, fork and are restored as jobs with change files are."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import (
    Input,
    assert_counts,
    assert_tally,
    count_job,
    newest,
    outputs,
    run_all,
    state_of,
    table_rows,
    tally_job,
    truth,
    with_epochs,
)

from state_engine.errors import DamagedManifestError, JobDefinitionError
from state_engine.log.records import Manifest
from state_engine.savepoint import restore_key_groups, trigger_savepoint, validate_savepoint
from state_engine.spark import MemorySink, StreamJob
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

pytestmark = pytest.mark.spark

ALL = 20 * 1024  # more than any subtask changes here


def change_files(root: Path, job: str) -> list[str]:
    return sorted(path.name for path in (root / job / "_epochs").glob("g*/changes/*.arrow"))


def manifests(root: Path, job: str) -> Iterator[Manifest]:
    log = ManifestLog(open_storage(str(root), job), job)
    for generation in log.generations():
        for epoch in log.epochs(generation):
            yield log.read(generation, epoch).manifest


def places(root: Path, job: str, uid: str) -> set[bool]:
    """Returns whether changes of an operator are in the manifest (True) or in a file (False)."""
    return {
        ack.changes.path in manifest.inlined
        for manifest in manifests(root, job)
        if uid in manifest.operators
        for ack in manifest.operators[uid].acks
        if ack.changes is not None
    }


def test_an_epoch_is_one_file_and_the_next_start_reads_it(spark: Any, tmp_path: Path) -> None:
    root, sinks, source = tmp_path / "root", outputs(tmp_path / "out"), Input(tmp_path / "in").add_many(1)

    def job() -> StreamJob:
        return tally_job(source.stream(spark), root, "small", sinks, max_parallelism=13, data_inline_threshold=ALL)

    run_all(job())
    assert places(root, "small", "tally") == places(root, "small", "totals") == {True}
    assert change_files(root, "small") == []
    assert_tally(root, "small", sinks, source.all)
    source.add_many(1)
    run_all(job(), parallelism=3)
    assert change_files(root, "small") == []
    assert_tally(root, "small", sinks, source.all)


def test_by_default_small_changes_are_inlined(spark: Any, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    job = StreamJob("default", root=str(root), parallelism=2)
    kept = job.from_stream(source.stream(spark)).key_by("k").latest(uid="latest")
    kept.sink_to(MemorySink("default"), uid="out")
    run_all(job)
    assert places(root, "default", "latest") == {True}
    assert change_files(root, "default") == []


@pytest.mark.long
def test_each_start_may_choose_another_threshold(spark: Any, tmp_path: Path, started: Any) -> None:
    """One chain has manifests with changes, with files, and with both."""
    root, sinks, source = tmp_path / "root", outputs(tmp_path / "out"), Input(tmp_path / "in")

    def run(threshold: int) -> None:
        source.add_many(1)
        run_all(tally_job(source.stream(spark), root, "mixed", sinks, data_inline_threshold=threshold))
        assert_tally(root, "mixed", sinks, source.all)

    run(ALL)
    assert change_files(root, "mixed") == []
    run(0)
    of_files = change_files(root, "mixed")
    assert any("-tally-" in name for name in of_files)
    assert any("-totals-" in name for name in of_files)
    run(2500)
    added = set(change_files(root, "mixed")) - set(of_files)
    assert added
    assert all("-tally-" in name for name in added)
    run(ALL)
    assert len(change_files(root, "mixed")) == len(of_files) + len(added)
    source.add_many(1)
    job = tally_job(source.stream(spark), root, "mixed", sinks, data_inline_threshold=ALL)
    client = with_epochs(started(job.start(trigger_interval_ms=50)), 1, of_input=True)
    client.trigger_checkpoint().result(60)  # a fold of all of them
    client.stop()
    assert_tally(root, "mixed", sinks, source.all)


def test_a_savepoint_names_no_file_that_is_none_and_brings_everything_back(spark: Any, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    sinks, others = outputs(tmp_path / "out"), outputs(tmp_path / "other")

    def job(name: str = "saved", into: Any = sinks) -> StreamJob:
        return tally_job(source.stream(spark), root, name, into, max_parallelism=13, data_inline_threshold=ALL)

    pin = run_all(job()).trigger_savepoint()
    assert pin.handles == ()
    assert pin.bytes == sum(len(data) for one in manifests(root, "saved") for data in one.inlined.values()) > 0
    assert validate_savepoint(str(root), "saved", pin.savepoint_id).ok
    canonical = trigger_savepoint(str(root), "saved", kind="canonical", directory=str(tmp_path / "backup"))
    at = list(source.all)
    states = {name: state_of(root, "saved", "tally", name) for name in ("times", "recent", "by_sub")}

    source.add_many(1)
    run_all(job())
    run_all(job("fork", others), restore=f"saved/{pin.savepoint_id}")
    expected = truth(source.all)
    assert table_rows(others.tally) == expected.tally[len(truth(at).tally) :]
    assert state_of(root, "fork", "tally", "times") == expected.states["times"]

    run_all(job(), restore=pin.savepoint_id, parallelism=3)
    assert newest(root, "saved").generation == 2
    assert_tally(root, "saved", sinks, source.all)
    shutil.rmtree(root)
    run_all(job("moved", outputs(tmp_path / "moved")), restore=canonical.directory)
    assert {name: state_of(root, "moved", "tally", name) for name in states} == {
        name: expected.states[name] for name in states
    }


def test_key_groups_come_back_from_it(spark: Any, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(2)

    def job() -> StreamJob:
        return count_job(source.stream(spark), root, "part", max_parallelism=13, data_inline_threshold=ALL)

    pin = run_all(job()).trigger_savepoint()
    assert places(root, "part", "count") == {True}
    before = state_of(root, "part", "count", "count")
    source.add_many(1, seed=2)
    run_all(job())
    after = state_of(root, "part", "count", "count")
    restore_key_groups(str(root), "part", pin.savepoint_id, [(0, 5)])
    assert change_files(root, "part")  # of the restored state, even if it is small
    counts = state_of(root, "part", "count", "count")
    assert counts.keys() == before.keys() | after.keys()
    assert {counts[key] for key in counts} != {after[key] for key in after}
    assert all(counts[key] in (before.get(key), after[key]) for key in counts)
    assert any(counts[key] == after[key] != before.get(key) for key in counts)


def test_a_damaged_manifest_is_found_before_anything_is_read_of_it(spark: Any, tmp_path: Path) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(2)
    job = count_job(source.stream(spark), root, "damaged", data_inline_threshold=ALL)
    run_all(job)
    [path] = (root / "damaged" / "_epochs" / "g000001").glob("*2.json")
    content = path.read_text()
    at = content.index('"inlined":{')
    at = content.index('.arrow":"', at) + 60
    path.write_text(content[:at] + ("A" if content[at] != "A" else "B") + content[at + 1 :])
    with pytest.raises(DamagedManifestError):
        state_of(root, "damaged", "count", "count")
    path.write_text(content)
    assert_counts(root, "damaged", source.all)


@pytest.mark.parametrize("threshold", [-1, (1 << 20) + 1])
def test_a_threshold_out_of_bounds_is_refused(tmp_path: Path, threshold: int) -> None:
    with pytest.raises(JobDefinitionError, match=f"data_inline_threshold is {threshold}"):
        StreamJob("far", root=str(tmp_path), data_inline_threshold=threshold)
