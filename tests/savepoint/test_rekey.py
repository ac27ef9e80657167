"""A restore into another number of key groups: from every source, whatever the shape of the rows."""

import random
import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from group_jobs import changes_with_timers
from rekey_jobs import SCHEMAS, DieAt, assert_state, files_below, job_of, start_rewritten

from state_engine.api import ListStateDescriptor, MapStateDescriptor, Types
from state_engine.api.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.backends.operator_lists import OperatorList, Slot
from state_engine.backends.schemas import broadcast_schema, operator_schema, raw_keyed_schema
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import (
    DamagedFileError,
    JobDefinitionError,
    MaxParallelismChangedError,
    RestoreCancelledError,
)
from state_engine.inspect import open_job
from state_engine.inspect.diff import diff_states
from state_engine.log.ops import log_schema
from state_engine.log.records import StateSchema
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.savepoint.rekey import regrouped
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.open import open_storage
from state_engine.testing.changes import put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def canonical_elsewhere(root: str, to: Path, epoch: int | None = None) -> str:
    """Takes a canonical savepoint, moves it to another directory, and deletes its job with all its files."""
    taken = trigger_savepoint(root, "flights", kind="canonical", epoch=epoch)
    shutil.move(Path(root, "flights", "_savepoints", taken.savepoint_id), to)
    shutil.rmtree(root)
    return str(to)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [128, 7, 1, 32768])
def test_a_moved_savepoint_of_13_key_groups_begins_a_job_of_others(root: str, tmp_path: Path, groups: int) -> None:
    expected = job_of(root).models[1, 4]
    there = canonical_elsewhere(root, tmp_path / "moved")
    new = str(tmp_path / "new")
    head = start_rewritten(new, "flights", there, max_parallelism=groups, parallelism=1)
    assert {op.max_parallelism for op in head.stored.manifest.operators.values()} == {groups}
    shutil.rmtree(there)
    assert_state(new, "flights", expected, groups)
    again = trigger_savepoint(new, "flights", kind="canonical")
    assert validate_savepoint(new, "flights", again.savepoint_id).ok
    start_rewritten(new, "flights", None, groups=groups, parallelism=1)
    assert_state(new, "flights", expected, groups)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["savepoint", "checkpoint:2", "checkpoint:4", "epoch:1/1", "epoch:1/3", "latest"])
def test_a_job_goes_back_to_any_point_of_its_own_with_other_key_groups(root: str, source: str) -> None:
    job = job_of(root, published=(2, 4))
    name = trigger_savepoint(root, "flights", epoch=3).savepoint_id if source == "savepoint" else source
    epoch = {"savepoint": 3, "checkpoint:2": 2, "epoch:1/1": 1, "epoch:1/3": 3}.get(source, 4)
    manifest = start_rewritten(root, "flights", name, max_parallelism=128).stored.manifest
    assert [(s.generation, s.first, s.last) for s in manifest.lineage] == [(1, 1, epoch), (2, epoch + 1, None)]
    assert manifest.origin is not None
    assert manifest.origin.rewrite is not None
    assert manifest.origin.rewrite.max_parallelism == 128
    assert_state(root, "flights", job.models[1, epoch], 128)
    # What follows it, and a restore back to 13 key groups
    goes_on(root, job, manifest.generation)
    start_rewritten(root, "flights", "epoch:1/4")
    assert_state(root, "flights", job.models[1, 4], 13)


def goes_on(root: str, job: JobBuilder, generation: int) -> None:
    """The job seals an epoch and publishes it; its state can be read from the checkpoint, a pin and a copy."""
    head = open_job(root, "flights").newest()
    assert head is not None
    assert head.manifest.base is not None
    expected = {name: dict(entries) for name, entries in job.models[1, head.manifest.lineage[-1].first - 1].items()}
    new = JobBuilder(root, "flights", SCHEMAS, max_parallelism=128)
    new.head, new.base, new.model = head, head.manifest.base, expected
    new._generation, new._lineage = generation, head.manifest.lineage
    sealed = new.epoch({("aircraft", "count"): [put("N1", 99), put("N77", 1)]}, checkpoint_id=9)
    publisher = CheckpointPublisher(new.storage, "flights", clock=ManualClock())
    publisher.begin(sealed)
    assert publisher.completed() is not None
    assert_state(root, "flights", new.model, 128)
    pin = trigger_savepoint(root, "flights")
    assert validate_savepoint(root, "flights", pin.savepoint_id).ok
    copy = trigger_savepoint(root, "flights", kind="canonical")
    for what in (pin.savepoint_id, copy.savepoint_id, "checkpoint:9"):
        start_rewritten(root, "flights", what, groups=128)
        assert_state(root, "flights", new.model, 128)


def test_state_that_does_not_fit_into_memory_goes_over_the_disk(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = job_of(root, epochs=6).models[1, 6]
    there = canonical_elsewhere(root, tmp_path / "moved")
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 3)
    new = str(tmp_path / "new")
    start_rewritten(new, "copy", there, max_parallelism=128)
    assert_state(new, "copy", expected, 128)
    files = sorted(Path(new, "copy", "_restored").rglob("aircraft/legs/*.parquet"))
    assert len(files) > 3


@pytest.mark.slow
@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("seed", range(4))
def test_random_jobs_wander_through_random_numbers_of_key_groups(root: str, seed: int) -> None:
    rng = random.Random(seed)
    job = job_of(root, seed=seed, epochs=rng.randrange(1, 6), published=rng.sample(range(1, 6), 2))
    for _ in range(3):
        epoch = rng.randrange(1, max(epoch for _, epoch in job.models) + 1)
        groups = rng.choice([1, 2, 13, 31, 128, 1000])
        start_rewritten(root, "flights", f"epoch:1/{epoch}", max_parallelism=groups, parallelism=1)
        assert_state(root, "flights", job.models[1, epoch], groups)
        again = rng.choice([3, 64])
        start_rewritten(root, "flights", "latest", max_parallelism=again, parallelism=3)
        assert_state(root, "flights", job.models[1, epoch], again)


@pytest.mark.parametrize("storage", [FileSystemCheckpointStorage(), JobManagerCheckpointStorage()])
def test_checkpoints_of_every_storage_are_sorted_anew(root: str, storage: CheckpointStorage) -> None:
    job = JobBuilder(root, "flights", SCHEMAS)
    job.epoch(changes_with_timers(random.Random(5)))
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), checkpoint_storage=storage)
    publisher.begin(job.epoch(changes_with_timers(random.Random(6)), checkpoint_id=1))
    assert publisher.completed() is not None
    start_rewritten(root, "flights", "checkpoint:1", max_parallelism=128)
    assert_state(root, "flights", job.models[1, 2], 128)
    assert validate_savepoint(root, "flights", trigger_savepoint(root, "flights").savepoint_id).ok


def test_the_state_of_another_job_is_sorted_anew_and_needs_that_job_no_more(root: str) -> None:
    expected = job_of(root).models[1, 4]
    pin = trigger_savepoint(root, "flights")
    manifest = start_rewritten(root, "copy", f"flights/{pin.savepoint_id}", max_parallelism=128).stored.manifest
    assert manifest.origin is not None
    assert manifest.origin.imported
    shutil.rmtree(Path(root, "flights"))
    assert_state(root, "copy", expected, 128)
    with pytest.raises(MaxParallelismChangedError, match="has max parallelism 13"):
        start_rewritten(root, "copy", None, groups=13)


def test_a_start_that_died_in_between_is_finished_by_the_next_one(root: str) -> None:
    job = job_of(root)
    with pytest.raises(SystemExit):
        start_rewritten(root, "flights", "epoch:1/3", max_parallelism=128, crash=DieAt(CrashPoint.S2_CLOSED))
    with pytest.raises(MaxParallelismChangedError, match="has max parallelism 13"):
        start_rewritten(root, "flights", None, groups=13)
    manifest = start_rewritten(root, "flights", None, groups=128).stored.manifest
    assert (manifest.kind, manifest.generation) == ("restore", 2)
    assert_state(root, "flights", job.models[1, 3], 128)


def test_the_same_restore_again_begins_nothing_anew(root: str) -> None:
    expected = job_of(root).models[1, 4]
    pin = trigger_savepoint(root, "flights")
    start_rewritten(root, "copy", f"flights/{pin.savepoint_id}", max_parallelism=128)
    before = {p: p.stat().st_mtime_ns for p in Path(root, "copy", "_restored").rglob("*")}
    again = start_rewritten(root, "copy", f"flights/{pin.savepoint_id}", max_parallelism=128).stored.manifest
    assert (again.kind, again.generation) == ("claim", 1)
    assert {p: p.stat().st_mtime_ns for p in Path(root, "copy", "_restored").rglob("*")} == before
    assert_state(root, "copy", expected, 128)


def test_differences_are_found_across_another_number_of_key_groups(root: str) -> None:
    job_of(root)
    start_rewritten(root, "flights", "epoch:1/3", max_parallelism=128)
    for before, equal in (("epoch:1/3", True), ("epoch:1/4", False)):
        diffs = list(diff_states(root, "flights", before, "latest", rows_at_once=2))
        assert len(diffs) == len(SCHEMAS)
        assert all(one.is_equal for one in diffs) is equal
        assert sum(one.unchanged for one in diffs) > 0


def test_the_files_that_the_sources_gave_come_along(root: str, tmp_path: Path) -> None:
    job_of(root, published=(2,))
    head = start_rewritten(root, "flights", "epoch:1/3", max_parallelism=128)
    [files] = _base(root, "flights", head.stored.manifest.base).source_files
    assert [file.path for file in files] == ["1", "2", "3"]


def test_the_same_number_of_key_groups_is_no_rewrite(root: str) -> None:
    job_of(root)
    head = start_rewritten(root, "flights", "latest", max_parallelism=13)
    assert head.stored.manifest.origin is not None
    assert head.stored.manifest.origin.rewrite is None
    assert not Path(root, "flights", "_restored").exists()


def test_without_a_request_nothing_is_rewritten(root: str) -> None:
    job_of(root)
    with pytest.raises(MaxParallelismChangedError, match=r"written with 13.*max_parallelism=128"):
        start_rewritten(root, "flights", "latest", groups=128)
    with pytest.raises(JobDefinitionError, match="out of bounds"):
        start_rewritten(root, "flights", "latest", max_parallelism=40_000)


def test_raw_keyed_state_is_refused_by_the_name_of_its_operator(root: str) -> None:
    raw = raw_keyed_schema("raw")
    job = JobBuilder(root, "flights", [*SCHEMAS, raw])
    job.epoch({("aircraft", "count"): [put("N1", 3)]})
    before = files_below(root)
    with pytest.raises(MaxParallelismChangedError, match=r"'raw' has raw keyed state.*13.*128.*new uid"):
        start_rewritten(root, "flights", "latest", max_parallelism=128, schemas=[*SCHEMAS, raw])
    assert files_below(root) == before
    start_rewritten(root, "flights", "latest", max_parallelism=128, allow_non_restored_state=True)
    expected = {name: entries for name, entries in job.models[1, 1].items() if name[0] != "raw"}
    assert_state(root, "flights", expected, 128)
    assert "raw" not in {schema.uid for schema in _newest(root).schemas}, "it was dropped"


def test_damage_is_refused_by_the_name_of_the_file_and_nothing_is_left(root: str, tmp_path: Path) -> None:
    job_of(root)
    there = Path(canonical_elsewhere(root, tmp_path / "moved"))
    file = sorted(there.rglob("carrier/seen/*.parquet"))[0]
    file.chmod(0o644)
    good = file.read_bytes()
    file.write_bytes(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    new = str(tmp_path / "new")
    with pytest.raises(DamagedFileError, match=file.name):
        start_rewritten(new, "flights", str(there), max_parallelism=128)
    assert files_below(new) == {}
    assert not list(there.glob("_in_use/*"))


@pytest.mark.slow
@pytest.mark.parametrize("rewrites", [True, False])
def test_one_that_is_cancelled_at_any_moment_leaves_nothing(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrites: bool
) -> None:
    expected = job_of(root).models[1, 4]
    there = canonical_elsewhere(root, tmp_path / "moved")
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 8)
    new, before, asked = str(tmp_path / "new"), files_below(there), 0
    groups = 128 if rewrites else None
    for moment in range(1_000):
        asked = 0

        def cancelled(moment: int = moment) -> bool:
            nonlocal asked
            asked += 1
            return asked > moment

        try:
            start_rewritten(new, "copy", there, max_parallelism=groups, cancelled=cancelled)
            break
        except RestoreCancelledError:
            assert files_below(new) == {}
            assert files_below(there) == before
    assert asked > (20 if rewrites else 3), "it is checked again and again"
    assert_state(new, "copy", expected, groups or 13)


def test_a_native_one_that_is_cancelled_leaves_the_job_as_it_was(root: str) -> None:
    job_of(root)
    before = files_below(root)
    for moment in range(4):
        answers = iter([False] * moment + [True] * 100)
        with pytest.raises(RestoreCancelledError):
            start_rewritten(root, "flights", "latest", max_parallelism=128, cancelled=partial(next, answers))
        assert files_below(root) == before


@pytest.mark.parametrize("groups", [None, 128])
def test_progress_goes_from_nothing_to_all(root: str, tmp_path: Path, groups: int | None) -> None:
    job_of(root)
    there = canonical_elsewhere(root, tmp_path / "moved")
    told: list[tuple[str, float]] = []
    start_rewritten(
        str(tmp_path / "new"), "copy", there, max_parallelism=groups, progress=lambda *what: told.append(what)
    )
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert {"aircraft", "carrier"} <= {what.split("/")[0] for what, _ in told}


# States without keys -------------------------------------------------------------------------------------------------


def rows_of(schema: StateSchema, rows: list[dict[str, object]]) -> pa.Table:
    filled = [{"op": 2, "position": 4, "seq": 0, **row} for row in rows]
    return pa.Table.from_pylist(filled, log_schema(schema, ddl_to_arrow, position=True))


def loaded(schema: StateSchema, table: pa.Table, own: Slot) -> list[int]:
    held = OperatorList(schema, Types.LONG(), own, union=False)
    held.load([table])
    return list(held.get())


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_lists_of_subtasks_beyond_the_last_key_group_are_redistributed_as_ever(parallelism: int) -> None:
    schema = operator_schema("op", ListStateDescriptor("offsets", Types.LONG()))
    table = rows_of(
        schema,
        [{"key_group": n // 3, "namespace": "5", "value": n, "seq": n % 3, "position": 9 - n // 3} for n in range(15)],
    )
    fewer = regrouped(schema, table, 3)
    assert max(fewer.column("key_group").to_pylist()) < 3
    for subtask in range(parallelism):
        own = Slot(parallelism, subtask)
        assert loaded(schema, fewer, own) == loaded(schema, table, own)
    assert regrouped(schema, table, 128) is table


def test_broadcast_state_stays_where_it_is() -> None:
    schema = broadcast_schema("op", MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
    table = rows_of(schema, [{"key_group": 0, "user_key": "a", "value": 1, "op": 1}])
    assert regrouped(schema, table, 3) is table


def _newest(root: str) -> "object":
    head = open_job(root, "flights").newest()
    assert head is not None
    return head.manifest


def _base(root: str, job: str, reference: object) -> "object":
    from state_engine.storage.state_reader import read_base

    return read_base(open_storage(root, job), reference)  # type: ignore[arg-type]
