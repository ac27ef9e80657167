import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from state_engine.checkpoint import plan
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.table import CheckpointRow
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import CheckpointEnd
from state_engine.log.fold import fold
from state_engine.log.ops import ops_to_codes
from state_engine.log.records import Base
from state_engine.storage.open_access import open_tables
from state_engine.storage.state_reader import Segment, empty_rows, load_groups, read_base
from state_engine.testing.changes import model_of, put, reset_group
from state_engine.testing.counting import CountingStorage
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import COUNT, SCHEMAS, random_changes, sample_job

E9 = [point for point in CrashPoint if point.where == "publisher"]


class Crashed(BaseException):
    """The process has died."""


class CrashAt:
    """Raises when a point is passed for the n-th time."""

    def __init__(self, point: CrashPoint, passes: int = 1) -> None:
        self._point, self._left = point, passes

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self._point:
            self._left -= 1
            if self._left == 0:
                raise Crashed


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Plain tables in memory; what depends on Delta itself takes `tmp_path`."""
    return f"memory://{tmp_path}"


def publisher(job: JobBuilder, crash: CrashAt | None = None) -> CheckpointPublisher:
    return CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds(), crash=crash)


def rows_of(job: JobBuilder) -> list[CheckpointRow]:
    return publisher(job)._world.rows.rows()


def newest(job: JobBuilder, publisher: CheckpointPublisher) -> Base:
    reference = publisher.completed()
    assert reference is not None, rows_of(job)
    return read_base(job.storage, reference)


def assert_published(job: JobBuilder, base: Base) -> None:
    """The base's files and the Delta tables both fold to the model at the base's epoch."""
    at = job.log.read(base.generation, base.epoch)
    for schema in SCHEMAS:
        expected = job.rows(schema.uid, schema.name, at)
        live = load_groups([Segment(job.storage, base, ())], schema, 0, 12)
        assert model_of(schema, live) == expected, schema.name
        table = f"{schema.uid}/{schema.name}"
        active = open_tables(job.storage).active(table)
        files = (
            [pq.read_table(pa.BufferReader(job.storage.get(f"{table}/{name}"))) for name in active.names]
            if active
            else []
        )
        live = fold(schema, [empty_rows(schema), *(ops_to_codes(file) for file in files)])
        assert model_of(schema, live) == expected, schema.name


@pytest.mark.parametrize("seed", range(4))
def test_incremental_is_full_is_model_while_parallelism_changes(root: str, seed: int) -> None:
    rng = random.Random(seed)
    job = sample_job(root)
    running = publisher(job)
    for checkpoint in range(1, 5):
        for _ in range(rng.randrange(3)):
            job.epoch(random_changes(rng), parallelism=rng.choice([1, 2, 3, 5]))
        sealed = job.epoch(random_changes(rng), parallelism=rng.choice([1, 2, 3, 5]), checkpoint_id=checkpoint)
        running.begin(sealed)
        base = newest(job, running)
        assert (base.checkpoint_id, base.full) == (checkpoint, checkpoint == 1)
        assert_published(job, base)
        if rng.random() < 0.5:
            job.adopt(running.completed())
    assert [(row.id, row.status, row.type) for row in rows_of(job)] == [
        ("1", "completed", "FULL"),
        *((str(number), "completed", "INCREMENTAL") for number in (2, 3, 4)),
    ]


def test_a_small_change_file_is_read_once_for_all_states(root: str) -> None:
    rng = random.Random(1)
    job = sample_job(root)
    sealed = [job.epoch(random_changes(rng), parallelism=5, checkpoint_id=number) for number in (None, None, 1)]
    counting = CountingStorage(job.storage)
    running = CheckpointPublisher(counting, job.job, clock=ManualClock(), ids=CountingIds())
    running.begin(sealed[-1])
    inlined = {path for one in sealed for path in one.manifest.inlined}
    acks = [ack for one in sealed for operator in one.manifest.operators.values() for ack in operator.acks]
    several = [ack.changes for ack in acks if ack.changes is not None and len(ack.changes.sections) > 1]
    several = [handle for handle in several if handle.path not in inlined]
    assert len(several) > 5
    assert {counting.reads[handle.path] for handle in several} == {1}
    assert_published(job, newest(job, running))


@pytest.mark.parametrize("point", E9)
@pytest.mark.parametrize("passes", [1, 2])
def test_a_crash_anywhere_is_finished_without_doubled_rows(root: str, point: CrashPoint, passes: int) -> None:
    crash_and_finish(root, point, passes)


@pytest.mark.parametrize("point", [CrashPoint.E9_TABLE_COMMITTED, CrashPoint.E9_BASE_WRITTEN])
def test_a_crash_among_delta_tables_is_finished_without_doubled_rows(tmp_path: Path, point: CrashPoint) -> None:
    crash_and_finish(str(tmp_path), point, 1)


def crash_and_finish(root: str, point: CrashPoint, passes: int) -> None:
    rng = random.Random(7)
    job = sample_job(root)
    running = publisher(job)
    running.begin(job.epoch(random_changes(rng), checkpoint_id=1))
    job.epoch(random_changes(rng))
    sealed = job.epoch(random_changes(rng), checkpoint_id=2)
    dying = publisher(job, CrashAt(point, passes))
    dying._visible = running.completed()
    try:
        dying.begin(sealed)
        assert passes == 2, f"{point} was not passed"
    except Crashed:
        pass
    job.epoch(random_changes(rng))
    next_driver = publisher(job)
    claim = job.epoch(kind="claim")
    reference = next_driver.finish(claim)
    assert reference is not None
    assert reference.epoch == sealed.manifest.epoch
    assert_published(job, read_base(job.storage, reference))
    assert [row.id for row in rows_of(job)] == ["1", "2"], "the row is there once"
    assert next_driver.next_checkpoint_id() == 3
    assert next_driver.finish(claim) == reference, "finishing again changes nothing"

    next_driver.begin(job.epoch(random_changes(rng), checkpoint_id=3))
    base = newest(job, next_driver)
    assert not base.full
    assert_published(job, base)


@pytest.mark.parametrize("point", E9[:-1])
def test_an_interval_that_nobody_finished_joins_the_next(root: str, point: CrashPoint) -> None:
    rng = random.Random(3)
    job = sample_job(root)
    publisher(job).begin(job.epoch(random_changes(rng), checkpoint_id=1))
    job.epoch(random_changes(rng))
    for checkpoint in (2, 3):
        dying = publisher(job, CrashAt(point))
        dying._visible = rows_of(job)[0].base
        with pytest.raises(Crashed):
            dying.begin(job.epoch(random_changes(rng), checkpoint_id=checkpoint))
    next_driver = publisher(job)
    reference = next_driver.finish(job.epoch(kind="claim"))
    assert reference is not None
    assert reference.checkpoint_id == 3
    assert_published(job, read_base(job.storage, reference))
    assert [(row.id, row.status) for row in rows_of(job)] == [("1", "completed"), ("2", "aborted"), ("3", "completed")]
    assert next_driver.has_ended()
    assert next_driver.ended() == [CheckpointEnd(2, completed=False), CheckpointEnd(3, completed=True)]
    assert not next_driver.has_ended()


def test_the_first_checkpoint_of_a_restored_generation_is_full(root: str) -> None:
    rng = random.Random(5)
    job = sample_job(root)
    running = publisher(job)
    running.begin(job.epoch(random_changes(rng), checkpoint_id=1))
    job.adopt(running.completed())
    target = job.epoch(random_changes(rng))
    job.epoch(random_changes(rng))
    running.begin(job.epoch(random_changes(rng), checkpoint_id=2))  # its epochs are abandoned now
    claim = job.restore(target, parallelism=3)
    restored = publisher(job)
    reference = restored.finish(claim)
    assert reference is not None
    assert reference.checkpoint_id == 1, "the base of abandoned epochs is not on the lineage"
    assert restored.next_checkpoint_id() == 3
    restored.begin(job.epoch(random_changes(rng), checkpoint_id=3))
    base = newest(job, restored)
    assert base.full
    assert base.generation == 2
    assert_published(job, base)
    reasons = {state.reason for state in rows_of(job)[-1].states}
    assert reasons == {"it is the first checkpoint of its generation"}


def test_ids_of_abandoned_and_unpublished_checkpoints_are_not_used_again(root: str) -> None:
    job = sample_job(root)
    target = job.epoch({("aircraft", "count"): [put("N1", 1)]})
    job.epoch(checkpoint_id=8)
    job.epoch()
    job.restore(target)
    assert publisher(job).next_checkpoint_id() == 9


def test_a_failure_is_kept_and_the_next_checkpoint_covers_the_interval(root: str) -> None:
    job = sample_job(root)
    heard = []
    running = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), on_end=heard.append)
    changed = job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1)
    handle = next(ack.changes for ack in changed.manifest.operators["aircraft"].acks if ack.changes)
    data = job.storage.get(handle.path)
    job.storage.delete(handle.path)
    running.begin(changed)
    assert running.completed() is None
    assert running.failures == 1
    assert running.ended() == [CheckpointEnd(1, completed=False)]
    assert running.ended() == []
    assert [(event.checkpoint_id, event.base) for event in heard] == [(1, None)]
    row = rows_of(job)[0]
    assert (row.status, row.base) == ("failed", None)
    assert handle.path in row.failure
    assert "What to do" in row.failure
    job.storage.put_if_absent(handle.path, data)
    running.begin(job.epoch({("aircraft", "count"): [put("N2", 2)]}, checkpoint_id=2))
    base = newest(job, running)
    assert base.checkpoint_id == 2
    assert_published(job, base)


def test_a_table_that_somebody_else_wrote_is_rewritten(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    running = publisher(job)
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    path = Path(tmp_path, "flights", "aircraft", "count")
    running.begin(job.epoch({("aircraft", "count"): [put("N2", 1)]}, checkpoint_id=2))
    DeltaTable(path).optimize.compact()
    running.begin(job.epoch({("aircraft", "count"): [put("N3", 1)]}, checkpoint_id=3))
    assert_published(job, newest(job, running))
    counts = [state for state in rows_of(job)[-1].states if state.state == "count"]
    assert [(state.full, state.reason) for state in counts] == [(True, "its table holds other files than the base")]


def test_an_attempt_that_cut_otherwise_and_died_leaves_the_next_checkpoint_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead attempt left files in the table, under other names: this checkpoint fails, the next replaces them."""
    job = sample_job(str(tmp_path))
    changes = {("aircraft", "count"): [put(f"N{n}", n) for n in range(40)]}
    sealed = job.epoch(changes, checkpoint_id=1)
    with pytest.raises(Crashed):
        publisher(job, CrashAt(CrashPoint.E9_TABLE_COMMITTED)).begin(sealed)
    monkeypatch.setattr(plan, "ROWS_PER_FILE", 10)
    running = publisher(job)
    assert running.finish(job.epoch(kind="claim")) is None
    [failed] = rows_of(job)
    assert (failed.id, failed.status) == ("1", "failed")
    assert "or an attempt of another release, which cut the key groups differently" in failed.failure
    running.begin(job.epoch({("aircraft", "count"): [put("N3", 1)]}, checkpoint_id=2))
    assert_published(job, newest(job, running))


def test_a_lost_delta_log_does_not_lose_the_state(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    running = publisher(job)
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    for file in Path(tmp_path, "flights", "aircraft", "count", "_delta_log").iterdir():
        file.unlink()
    running.begin(job.epoch({("aircraft", "count"): [put("N2", 1)]}, checkpoint_id=2))
    assert_published(job, newest(job, running))


def test_catching_up_and_storage_do_not_cost_the_age_of_the_job(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FULL_MINIMUM_ROWS", 20)
    job = sample_job(root)
    running = publisher(job)
    sizes, kinds = [], []
    for checkpoint in range(1, 12):
        running.begin(
            job.epoch({("aircraft", "count"): [put(f"N{n}", checkpoint) for n in range(4)]}, checkpoint_id=checkpoint)
        )
        base = newest(job, running)
        sizes.append(sum(file.rows for file in base.files))
        kinds += [state.full for state in rows_of(job)[-1].states if state.state == "count"]
    assert_published(job, base)
    assert max(sizes) <= 24
    assert kinds.count(True) == 2


def test_ranges_bound_what_is_folded_at_once(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ROWS_PER_FILE", 10)
    job = sample_job(root)
    running = publisher(job)
    changes = {("aircraft", "count"): [put(f"N{n}", n) for n in range(40)]}
    running.begin(job.epoch(changes, parallelism=5, checkpoint_id=1))
    base = newest(job, running)
    assert len(base.files) > 3
    assert all(file.rows <= 20 for file in base.files)
    bounds = [(file.first, file.last) for file in base.files]
    assert bounds == sorted(bounds)
    assert all(a[1] < b[0] for a, b in pairwise(bounds))
    assert_published(job, base)


def test_a_checkpoint_without_changes_commits_no_table(root: str) -> None:
    job = sample_job(root)
    running = publisher(job)
    running.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    tables = newest(job, running).tables
    running.begin(job.epoch(checkpoint_id=2))
    base = newest(job, running)
    assert base.epoch == 2
    assert base.tables == tables


def test_source_files_add_up(root: str) -> None:
    job = sample_job(root)
    running = publisher(job)
    job.epoch(new_files=["a", "b"])
    running.begin(job.epoch(new_files=["c"], checkpoint_id=1))
    running.begin(job.epoch(new_files=["d"], checkpoint_id=2))
    assert [file.path for file in newest(job, running).source_files[0]] == ["a", "b", "c", "d"]


def test_a_reset_group_reaches_the_table(root: str) -> None:
    job = sample_job(root)
    running = publisher(job)
    running.begin(job.epoch({("aircraft", "count"): [put(f"N{n}", n) for n in range(9)]}, checkpoint_id=1))
    running.begin(job.epoch({("aircraft", "count"): [reset_group(group) for group in range(13)]}, checkpoint_id=2))
    assert job.rows("aircraft", "count") == {}
    assert_published(job, newest(job, running))


def test_a_reader_sees_whole_checkpoints_only(root: str) -> None:
    rng = random.Random(1)
    job = sample_job(root)
    seen: list[int] = []

    class Look:
        def at(self, point: CrashPoint, epoch: int) -> None:
            rows = rows_of(job)
            seen.append(len(rows))
            for row in rows:
                assert row.base is not None
                assert_base(job, read_base(job.storage, row.base))

    running = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), crash=Look())
    for checkpoint in (1, 2):
        running.begin(job.epoch(random_changes(rng), checkpoint_id=checkpoint))
    assert running.failures == 0
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2}


def assert_base(job: JobBuilder, base: Base) -> None:
    at = job.log.read(base.generation, base.epoch)
    live = load_groups([Segment(job.storage, base, ())], COUNT, 0, 12)
    assert model_of(COUNT, live) == job.rows("aircraft", "count", at)


def test_files_are_sorted_by_key_group_and_hold_ops_by_name(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    running = publisher(job)
    running.begin(job.epoch({("aircraft", "count"): [put(f"N{n}", n) for n in range(9)]}, checkpoint_id=1))
    file = newest(job, running).files[0]
    table = pq.read_table(Path(tmp_path, "flights", file.path), partitioning=None)
    groups = table.column("key_group").to_pylist()
    assert groups == sorted(groups)
    assert set(table.column("op").to_pylist()) == {"put"}
    assert table.column_names == ["key_group", "tailnum", "namespace", "value", "op", "position", "seq", "last_access"]
