"""Canonical savepoints: written whole or not at all, and sufficient to resume a job from, wherever they are moved."""

import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from canonical_jobs import NoSinks, checkpoint, model, request, running_job, start, state_of
from deltalake import DeltaTable
from group_jobs import job_with_history, models_at, states_of
from msgspec.structs import replace

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import RandomIds
from state_engine.epoch.compatibility import merge_schemas
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.start import StartUp
from state_engine.errors import (
    AlreadyExistsError,
    DamagedFileError,
    JobDefinitionError,
    MaxParallelismChangedError,
    MissingFileError,
    NothingToRestoreError,
    RestoreError,
    SavepointError,
    SinkRewindError,
    StateTypeChangedError,
    UnknownOperatorError,
)
from state_engine.inspect import open_job, read_state, run_state_sql, state_sql
from state_engine.log.documents import decode_savepoint
from state_engine.log.paths import manifest_path, metadata_path, pin_path
from state_engine.log.records import SinkTable, StateTtl
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.savepoint import (
    adopt,
    adopt_for,
    list_savepoints,
    load_savepoint,
    resolve_restore,
    restore_key_groups,
    trigger_savepoint,
    validate_savepoint,
)
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.testing.changes import append, model_of, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import COUNT, SCHEMAS, random_changes, sample_job


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def canonical(root: str, job: str = "flights", **options: object) -> CanonicalSavepoint:
    savepoint = trigger_savepoint(root, job, kind="canonical", **options)  # type: ignore[call-overload]
    assert isinstance(savepoint, CanonicalSavepoint)
    return savepoint


def moved(root: str, savepoint: CanonicalSavepoint, to: Path) -> str:
    """Moves a savepoint's folder away, and deletes everything else that its job had."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(Path(root, savepoint.job, "_savepoints", savepoint.savepoint_id), to)
    shutil.rmtree(root)
    return str(to)


def test_every_epoch_of_the_past_is_written_out(root: str) -> None:
    job = running_job(root)
    for epoch in (1, 2, 3, 4):
        savepoint = canonical(root, epoch=epoch)
        assert (savepoint.kind, savepoint.epoch) == ("canonical", epoch)
        assert state_of(root, "flights", savepoint.savepoint_id) == model(job, epoch)
        assert state_of(root, "flights", savepoint) == model(job, epoch)
        assert validate_savepoint(root, "flights", savepoint.savepoint_id).ok
    assert [s.epoch for s in list_savepoints(root, "flights")] == [1, 2, 3, 4]
    assert open_job(root, "flights").newest() == job.head, "no claim, no epoch"


def test_tables_have_one_typed_row_per_entry_sorted_by_key_group(root: str) -> None:
    job = running_job(root)
    savepoint = canonical(root)
    for table in savepoint.tables:
        delta = DeltaTable(f"{root}/flights/_savepoints/{savepoint.savepoint_id}/{table.path}")
        rows = delta.to_pyarrow_table()
        entries = model(job, 4)[table.schema.uid, table.schema.name].values()
        assert rows.num_rows == sum(len(e) if table.schema.shape == "list" else 1 for e in entries)
        assert {"key_group", "namespace", "value", "last_access"} <= set(rows.column_names)
        assert set(rows.column("op").to_pylist()) <= {"put", "append"}
        for file in table.files:
            folder = f"{root}/flights/_savepoints/{savepoint.savepoint_id}"
            groups = pq.ParquetFile(f"{folder}/{file.path}").read().column("key_group").to_pylist()
            assert groups == sorted(groups)
        assert sum(file.rows for file in table.files) == rows.num_rows


def test_what_it_says_of_itself(root: str) -> None:
    running_job(root)
    clock = ManualClock(1_700_000_000_000)
    savepoint = canonical(root, clock=clock, ids=CountingIds(), label="l", note="n", trigger="schedule")
    assert savepoint.savepoint_id == "sp-20231114T221320-00000001"
    assert [file.path for file in savepoint.source_files[0]] == ["a", "b", "c"]
    data = Path(root, "flights", metadata_path(savepoint.savepoint_id)).read_bytes()
    assert decode_savepoint(data).savepoint == savepoint
    assert root.encode() not in data, "nothing depends on its location"
    [row] = [row for row in open_job(root, "flights")._rows.rows() if row.kind == "savepoint"]
    assert (row.id, row.type, row.label, row.note) == (savepoint.savepoint_id, "CANONICAL", "l", "n")
    assert (row.rows, row.bytes, row.trigger) == (savepoint.rows, savepoint.bytes, "schedule")
    assert sum(state.rows or 0 for state in row.states) == savepoint.rows
    assert not Path(root, "flights", pin_path(savepoint.savepoint_id)).exists(), "the pin was for the time of writing"


@pytest.mark.parametrize("job", ["flights", "other"])
@pytest.mark.parametrize("parallelism", [1, 5])
def test_a_moved_one_begins_a_job_under_another_root(root: str, tmp_path: Path, job: str, parallelism: int) -> None:
    before = running_job(root)
    there = moved(root, canonical(root), tmp_path / "far" / "away")
    new = str(tmp_path / "new")
    head = start(new, job, there, parallelism=parallelism)
    manifest = head.stored.manifest
    assert (manifest.job, manifest.kind, manifest.generation, manifest.epoch) == (job, "restore", 1, 5)
    assert {operator.parallelism for operator in manifest.operators.values()} == {parallelism}
    assert [source.offset for source in manifest.sources] == ['{"logOffset":4}']
    assert state_of(new, job) == model(before, 4)
    shutil.rmtree(there)  # the job has its own copies
    assert state_of(new, job) == model(before, 4)
    assert ManifestLog(open_storage(new, job), job).chain(head.stored) == [head.stored]


def test_a_job_that_began_with_one_is_like_any_other(root: str, tmp_path: Path) -> None:
    """It publishes, takes native and canonical savepoints, is restored to its own past, and starts anew."""
    before = running_job(root)
    there = moved(root, canonical(root), tmp_path / "away")
    new, expected = str(tmp_path / "new"), model(before, 4)
    head = start(new, "flights", there)
    pin = trigger_savepoint(new, "flights")
    assert state_of(new, "flights", pin) == expected
    sealed = checkpoint(new, "flights", head.stored, 8)
    assert state_of(new, "flights", "checkpoint:8") == expected
    again = canonical(new)
    assert [file.path for file in again.source_files[0]] == ["a", "b", "c"]
    assert state_of(new, "flights", again.savepoint_id) == expected
    assert start(new, "flights", None).base == open_job(new, "flights").checkpoints()[0].base
    for what in (pin.savepoint_id, "checkpoint:8", again.savepoint_id, f"epoch:1/{sealed.manifest.epoch}"):
        start(new, "flights", what)
        assert state_of(new, "flights") == expected, what


def test_the_same_start_again_goes_on(root: str, tmp_path: Path) -> None:
    running_job(root)
    there = moved(root, canonical(root), tmp_path / "away")
    new = str(tmp_path / "new")
    start(new, "other", there)
    copies = {p: p.stat().st_mtime_ns for p in Path(new, "other", "_restored").rglob("*")}
    again = start(new, "other", there).stored.manifest
    assert (again.kind, again.generation, again.epoch) == ("claim", 1, 6)
    assert {p: p.stat().st_mtime_ns for p in Path(new, "other", "_restored").rglob("*")} == copies
    running_job(root)
    with pytest.raises(RestoreError, match="has epochs of its own"):
        start(new, "other", str(Path(root, "flights", "_savepoints", canonical(root).savepoint_id)))


def test_a_job_goes_back_to_its_own_in_the_same_root(root: str) -> None:
    job = running_job(root)
    savepoint = canonical(root, epoch=3)
    manifest = start(root, "flights", savepoint.savepoint_id).stored.manifest
    assert [(s.generation, s.first, s.last) for s in manifest.lineage] == [(1, 1, 3), (2, 4, None)]
    assert state_of(root, "flights") == model(job, 3)
    start(root, "flights", "epoch:1/4")
    assert state_of(root, "flights") == model(job, 4)


def test_it_is_restored_when_the_log_that_it_came_from_is_lost(root: str) -> None:
    """Whatever is damaged in the job, its savepoint does not need it; only its sinks cannot be rewound."""
    job = running_job(root)
    savepoint = canonical(root, epoch=3)
    for path in (manifest_path(1, 3), manifest_path(1, 2), "_epochs/g000001/bases"):
        lost = Path(root, "flights", path)
        shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    sinks = (SinkTable(uid="rows", kind="memory", table="rows"),)
    before = open_job(root, "flights").newest()
    with pytest.raises(SinkRewindError, match="does not have"):
        start(root, "flights", savepoint.savepoint_id, sinks=sinks)
    assert open_job(root, "flights").newest() == before
    assert not Path(root, "flights", "_restored").exists(), "nothing was written"
    manifest = start(root, "flights", savepoint.savepoint_id, sinks=sinks, keep_output=True).stored.manifest
    assert [(s.generation, s.first, s.last) for s in manifest.lineage] == [(0, 3, 3), (2, 4, None)]
    assert state_of(root, "flights") == model(job, 3)


def test_a_start_that_died_after_the_closing_manifest_is_finished_without_the_savepoint(
    root: str, tmp_path: Path
) -> None:
    job = running_job(root)
    savepoint = canonical(root, epoch=3)

    class Die:
        def at(self, point: CrashPoint, epoch: int) -> None:
            if point is CrashPoint.S2_CLOSED:
                raise KeyboardInterrupt

    target = adopt(root, "flights", resolve_restore(root, "flights", savepoint.savepoint_id))
    publisher = CheckpointPublisher(job.storage, "flights")
    with pytest.raises(KeyboardInterrupt):
        StartUp(job.log, NoSinks(), publisher, ManualClock(), RandomIds(), Die()).run(
            replace(request(root, "flights"), restore=target)
        )
    shutil.move(Path(root, "flights", "_savepoints", savepoint.savepoint_id), tmp_path / "gone")
    assert start(root, "flights", None).stored.manifest.generation == 2
    assert state_of(root, "flights") == model(job, 3)


@pytest.mark.all_pairs(seed=3)
@pytest.mark.parametrize("seed", range(6))
def test_random_jobs_go_on_as_if_nothing_had_been(root: str, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    job = sample_job(root)
    for _ in range(rng.randrange(1, 8)):
        job.epoch(random_changes(rng, rng.randrange(1, 40)), parallelism=rng.randrange(1, 6))
    assert job.head is not None
    last = job.head.manifest.epoch
    there = moved(root, canonical(root), tmp_path / "away")
    start(str(tmp_path / "new"), "copy", there, parallelism=rng.randrange(1, 14))
    assert state_of(str(tmp_path / "new"), "copy") == model(job, last)
    assert validate_savepoint(root, "flights", there).ok


@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("seed", range(4))
def test_timers_are_states_like_any_other(root: str, tmp_path: Path, seed: int) -> None:
    job = job_with_history(root, random.Random(seed))
    assert job.head is not None
    expected = models_at(job, job.head.manifest.epoch)
    savepoint = canonical(root)
    assert {table.schema.kind for table in savepoint.tables} == {"keyed", "timer"}
    there = moved(root, savepoint, tmp_path / "away")
    new = str(tmp_path / "new")
    assert validate_savepoint(new, "flights", there).ok
    start(new, "flights", there)
    assert states_of(new, "flights") == expected


def test_values_have_the_newest_type_and_change_on(root: str, tmp_path: Path) -> None:
    old = state("aircraft", "legs", "tailnum string", "int", shape="list")
    job = JobBuilder(root, "flights", [old])
    job.epoch({("aircraft", "legs"): [append("N1", 1), append("N1", 2)]})
    job.schemas = merge_schemas([old], [replace(old, schema_id="2", value="bigint")], 1)
    job.epoch({("aircraft", "legs"): [append("N1", 1 << 40)]})
    savepoint = canonical(root)
    there = moved(root, savepoint, tmp_path / "away")
    rows = DeltaTable(f"{there}/aircraft/legs").to_pyarrow_table()
    assert str(rows.schema.field("value").type) == "int64"
    new = str(tmp_path / "new")
    target = resolve_restore(new, "copy", there)
    log = ManifestLog(open_storage(new, "copy"), "copy")
    wanted = replace(request(new, "copy", schemas=job.schemas), restore=target)
    publisher = CheckpointPublisher(open_storage(new, "copy"), "copy")
    StartUp(log, NoSinks(), publisher, ManualClock(), RandomIds()).run(adopt_for(wanted, log))
    assert read_state(new, "copy", "aircraft", "legs").column("value").to_pylist() == [1, 2, 1 << 40]


def test_another_directory(root: str, tmp_path: Path) -> None:
    job = running_job(root)
    directory = str(tmp_path / "backup")
    savepoint = canonical(root, directory=directory)
    assert savepoint.directory == f"{directory}/{savepoint.savepoint_id}"
    assert list_savepoints(root, "flights") == [savepoint]
    assert load_savepoint(root, "flights", savepoint.savepoint_id) == savepoint
    assert validate_savepoint(root, "flights", savepoint.savepoint_id).ok
    for what in (savepoint.savepoint_id, savepoint.directory, f"{savepoint.directory}/_metadata"):
        assert state_of(root, "flights", what) == model(job, 4)
    assert root.encode() not in Path(savepoint.directory, "_metadata").read_bytes()
    shutil.move(savepoint.directory, tmp_path / "elsewhere")
    with pytest.raises(NothingToRestoreError, match="has no _metadata"):
        load_savepoint(root, "flights", savepoint.savepoint_id)
    assert state_of(root, "flights", str(tmp_path / "elsewhere")) == model(job, 4)


def test_a_native_one_with_a_directory_says_that_it_cannot_be_moved(root: str, tmp_path: Path) -> None:
    job = running_job(root)
    pin = trigger_savepoint(root, "flights", directory=str(tmp_path / "backup"))
    there = tmp_path / "backup" / pin.savepoint_id
    assert [file.name for file in there.iterdir()] == ["_metadata"]
    text = (there / "_metadata").read_text()
    assert "cannot be moved" in text
    assert '"format":"lakestate.savepoint-reference"' in text
    assert resolve_restore(root, "flights", str(there)) == resolve_restore(root, "flights", pin.savepoint_id)
    assert state_of(root, "flights", str(there)) == model(job, 4)
    assert validate_savepoint(root, "flights", str(there)).ok
    with pytest.raises(SavepointError, match="not relocatable"):
        resolve_restore(str(tmp_path / "new"), "flights", str(there))


def test_a_fork_without_a_checkpoint_is_written_out(root: str) -> None:
    job = running_job(root)
    fork = job.fork("fork")
    fork.epoch(random_changes(random.Random(9)))
    savepoint = canonical(root, "fork")
    assert state_of(root, "fork", savepoint.savepoint_id) == fork.models[1, 6]
    assert validate_savepoint(root, "fork", savepoint.savepoint_id).ok


def test_ranges_bound_memory_and_cover_all_key_groups(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 5)
    job = running_job(root)
    savepoint = canonical(root)
    for table in savepoint.tables:
        assert len(table.ranges) > 1
        assert (table.ranges[0][0], table.ranges[-1][1]) == (0, 12)
    assert validate_savepoint(root, "flights", savepoint.savepoint_id).ok
    assert state_of(root, "flights", savepoint.savepoint_id) == model(job, 4)


@pytest.mark.parametrize(("ttl", "left"), [(StateTtl(milliseconds=1500), 1), (StateTtl(milliseconds=99_000), 2)])
def test_expired_entries_are_dropped(root: str, ttl: StateTtl, left: int) -> None:
    job = JobBuilder(root, "flights", [replace(COUNT, ttl=ttl)])
    job.epoch({("aircraft", "count"): [put("old", 1)]})
    job.epoch()
    job.epoch({("aircraft", "count"): [put("new", 2)]})
    assert canonical(root).rows == left
    kept = JobBuilder(root, "kept", [replace(COUNT, ttl=replace(ttl, returns_expired=True))])
    kept.epoch({("aircraft", "count"): [put("old", 1)]})
    kept.epoch()
    kept.epoch({("aircraft", "count"): [put("new", 2)]})
    assert canonical(root, "kept").rows == 2


def test_a_state_without_rows_is_a_table_without_rows(root: str) -> None:
    job = sample_job(root)
    job.epoch({("aircraft", "count"): [put("N1", 3)]})
    savepoint = canonical(root)
    folder = f"{root}/flights/_savepoints/{savepoint.savepoint_id}"
    assert DeltaTable(f"{folder}/carrier/seen").to_pyarrow_table().num_rows == 0
    assert validate_savepoint(root, "flights", savepoint.savepoint_id).ok
    start(root, "copy", f"flights/{savepoint.savepoint_id}")
    assert state_of(root, "copy") == model(job, 1)


def test_what_does_not_exist_is_refused_by_name(root: str, tmp_path: Path) -> None:
    running_job(root)
    savepoint = canonical(root)
    with pytest.raises(NothingToRestoreError, match=f"it has {savepoint.savepoint_id}"):
        resolve_restore(root, "flights", "sp-none")
    with pytest.raises(NothingToRestoreError, match="There is no savepoint at"):
        resolve_restore(root, "flights", str(tmp_path / "nowhere"))
    with pytest.raises(JobDefinitionError, match="'other' of savepoints"):
        trigger_savepoint(root, "flights", kind="other")  # type: ignore[call-overload]


def test_an_incompatible_job_is_refused_by_the_name_of_the_state(root: str, tmp_path: Path) -> None:
    running_job(root)
    there = moved(root, canonical(root), tmp_path / "away")
    new, log = str(tmp_path / "new"), ManifestLog(open_storage(str(tmp_path / "new"), "copy"), "copy")
    target = resolve_restore(new, "copy", there)
    changed = tuple(replace(s, value="string", schema_id="00") if s.name == "count" else s for s in SCHEMAS)
    with pytest.raises(StateTypeChangedError, match="'count'"):
        adopt_for(replace(request(new, "copy", schemas=changed), restore=target), log)
    with pytest.raises(UnknownOperatorError, match="seen"):
        adopt_for(replace(request(new, "copy", schemas=SCHEMAS[:2]), restore=target), log)
    with pytest.raises(MaxParallelismChangedError, match="aircraft"):
        adopt_for(replace(request(new, "copy", max_parallelism=128), restore=target), log)
    assert not Path(new, "copy").exists(), "nothing was written"


def test_damage_is_found_before_anything_is_written(root: str, tmp_path: Path) -> None:
    running_job(root)
    savepoint = canonical(root)
    file = savepoint.tables[0].files[0]
    path = Path(root, "flights", "_savepoints", savepoint.savepoint_id, file.path)
    path.chmod(0o644)
    good = path.read_bytes()
    path.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    with pytest.raises(DamagedFileError, match=file.path):
        start(root, "copy", f"flights/{savepoint.savepoint_id}")
    assert open_job(root, "copy").newest() is None
    path.write_bytes(good + b"x")
    with pytest.raises(DamagedFileError, match=file.path):
        load_savepoint(root, "flights", savepoint.savepoint_id)
    path.unlink()
    with pytest.raises(MissingFileError, match=file.path):
        load_savepoint(root, "flights", savepoint.savepoint_id)


def test_damage_in_one_of_many_files_leaves_no_copy_of_the_others(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 5)
    monkeypatch.setattr("state_engine.savepoint.adoption.cores", lambda: 4)
    running_job(root)
    savepoint = canonical(root)
    files = [file for table in savepoint.tables for file in table.files]
    assert len(files) > 6
    there = Path(root, "flights", "_savepoints", savepoint.savepoint_id)
    damaged = there / files[len(files) // 2].path
    damaged.chmod(0o644)
    good = damaged.read_bytes()
    damaged.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    with pytest.raises(DamagedFileError, match=files[len(files) // 2].path):
        adopt(root, "copy", resolve_restore(root, "copy", f"flights/{savepoint.savepoint_id}"))
    assert list(Path(root, "copy").rglob("*.parquet")) == []

    damaged.write_bytes(good)
    told: list[tuple[str, float]] = []
    target = resolve_restore(root, "copy", f"flights/{savepoint.savepoint_id}")
    adopt(root, "copy", target, progress=lambda what, share: told.append((what, share)))
    assert [what for what, _ in told] == [file.path for file in files]
    assert told[-1][1] == 1.0
    copies = {str(path): path.read_bytes() for path in Path(root, "copy").rglob("*.parquet")}
    assert len(copies) == len(files)
    for file in files:
        [copy] = [data for path, data in copies.items() if path.endswith(f"/{file.path}")]
        assert copy == (there / file.path).read_bytes()


def test_queries_read_what_a_restore_copied(root: str, tmp_path: Path) -> None:
    job = running_job(root)
    there = moved(root, canonical(root), tmp_path / "away")
    new = str(tmp_path / "new")
    start(new, "copy", there)
    for at in (None, there):
        rows_found = run_state_sql(new, "copy", "aircraft", "count", at=at)
        expected = model(job, 4)["aircraft", "count"]
        assert sorted(map(str, rows_found.column("tailnum").to_pylist())) == sorted(
            str(entry[0][0]) for entry in expected
        )
        sql = state_sql(new, "copy", "aircraft", "count", "spark", at=at)
        assert (f"delta.`{there}/aircraft/count`" if at else f"parquet.`{new}/copy/_restored/") in sql
    assert model_of(COUNT, read_state(new, "copy", "aircraft", "count", at=there)) == expected


def test_selected_key_groups_come_from_one_that_was_moved(root: str, tmp_path: Path) -> None:
    job = running_job(root)
    savepoint = canonical(root, epoch=2)
    there = shutil.move(Path(root, "flights", "_savepoints", savepoint.savepoint_id), tmp_path / "away")
    restore_key_groups(root, "flights", str(there), [(0, 12)])
    assert state_of(root, "flights") == model(job, 2)


def test_names_are_claimed_before_anything_is_written(root: str) -> None:
    running_job(root)
    first = canonical(root, clock=ManualClock(), ids=CountingIds())
    second = canonical(root, clock=ManualClock(), ids=CountingIds())
    assert first.savepoint_id != second.savepoint_id
    third = canonical(root, clock=ManualClock(), ids=CountingIds(), directory=str(Path(root).parent / "b"))
    assert len({first.savepoint_id, second.savepoint_id, third.savepoint_id}) == 3


def test_memory_storages_hold_them_too(tmp_path: Path) -> None:
    root = f"memory://{tmp_path}"
    job = running_job(root)
    savepoint = canonical(root)
    assert validate_savepoint(root, "flights", savepoint.savepoint_id).ok
    start(root, "copy", f"flights/{savepoint.savepoint_id}")
    assert state_of(root, "copy") == model(job, 4)
    assert {s.uid for s in SCHEMAS} == {table.schema.uid for table in savepoint.tables}


def test_a_name_that_is_taken_is_an_error_of_its_own(root: str, tmp_path: Path) -> None:
    running_job(root)
    directory = str(tmp_path / "backup")
    savepoint = canonical(root, clock=ManualClock(), ids=CountingIds(), directory=directory)
    shutil.rmtree(Path(root, "flights", "_savepoints", savepoint.savepoint_id))
    with pytest.raises(AlreadyExistsError, match="is not empty"):
        canonical(root, clock=ManualClock(), ids=CountingIds(), directory=directory)
    assert Path(directory, savepoint.savepoint_id, "_metadata").exists(), "the older one is untouched"
    assert validate_savepoint(root, "flights", f"{directory}/{savepoint.savepoint_id}").ok
