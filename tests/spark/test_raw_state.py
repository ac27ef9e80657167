"""Raw state in real streams, by key group and in partitions: restarts, rescales, checkpoints, savepoints, refusals."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support import Input, Record, by_n, newest, run_all, with_epochs

from state_engine.api import (
    CheckpointedFunction,
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    RuntimeContext,
    StateInitializationContext,
    StateSnapshotContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import MaxParallelismChangedError, RawStateError
from state_engine.inspect import open_job, read_state, run_sql
from state_engine.key_groups import key_group_of
from state_engine.log.records import Manifest
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

M, UID, KEYED, PARTITIONS = 13, "counts", "_raw_keyed_state", "_raw_operator_state"


def group_of(key: str | None) -> int:
    return key_group_of([key], ["string"], M)


class Counts(KeyedProcessFunction, CheckpointedFunction):
    """Counts a key's records in a dict that it stores as JSON, and also in a value state.

    Each epoch of a subtask adds a partition that lists its records.
    """

    def initialize_state(self, context: StateInitializationContext) -> None:
        self.groups: dict[int, dict[str, int]] = {
            group.get_key_group_id(): json.load(group.get_stream()) for group in context.get_raw_keyed_state_inputs()
        }
        self.epochs = [part.get_stream().read() for part in context.get_raw_operator_state_inputs()]
        self.came: list[int] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        counts = self.groups.setdefault(group_of(value.k), {})
        name = json.dumps(value.k)
        counts[name] = counts.get(name, 0) + 1
        self.count.update((self.count.value() or 0) + 1)
        assert counts[name] == self.count.value(), "the field and the state have different counts"
        self.came.append(value.n)
        yield value.n, counts[name]

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        out = context.get_raw_keyed_operator_state_output()
        for group, counts in self.groups.items():
            out.start_new_key_group(group)
            out.write(json.dumps(counts, sort_keys=True).encode())
        if self.came:
            self.epochs.append(json.dumps(self.came).encode())
            self.came = []
        parts = context.get_raw_operator_state_output()
        for epoch in self.epochs:
            parts.start_new_partition()
            parts.write(epoch)


def counts_job(df: Any, root: Path, name: str, function: Any = None, **options: Any) -> StreamJob:
    job = StreamJob(name, root=str(root), **{"parallelism": 2, "max_parallelism": M, **options})
    job.from_stream(df).key_by("k").process(function or Counts(), "n bigint, count bigint", uid=UID).sink_to(
        MemorySink(name), uid="out"
    )
    return job


def expected(rows: Iterable[Record]) -> dict[int, bytes]:
    groups: dict[int, Counter[str]] = {}
    for row in rows:
        groups.setdefault(group_of(row.k), Counter())[json.dumps(row.k)] += 1
    return {group: json.dumps(counts, sort_keys=True).encode() for group, counts in groups.items()}


def raw_keyed(root: Path, name: str, at: Any = None) -> dict[int, bytes]:
    rows = read_state(str(root), name, UID, KEYED, at=at).to_pylist()
    return {row["key_group"]: row["value"] for row in rows}


def partitions(root: Path, name: str, at: Any = None) -> list[list[int]]:
    return [json.loads(row["value"]) for row in read_state(str(root), name, UID, PARTITIONS, at=at).to_pylist()]


def everything(root: Path, name: str, source: Input) -> None:
    """Checks that output, key groups and partitions equal those of a plain loop."""
    totals = Counter(row.k for row in source.all)
    given: dict[str | None, list[int]] = {}
    for n, count in by_n(MemorySink(name).rows()):
        given.setdefault(source.all[n].k, []).append(count)
    assert {key: sorted(counts) for key, counts in given.items()} == {k: [*range(1, totals[k] + 1)] for k in totals}
    assert raw_keyed(root, name) == expected(source.all)
    assert sorted(n for part in partitions(root, name) for n in part) == [row.n for row in source.all]


def written(manifest: Manifest, state: str) -> int:
    """Returns how many rows an epoch added to a state's log."""
    handles = [ack.changes for ack in manifest.operators[UID].acks if ack.changes is not None]
    return sum(section.rows for handle in handles for section in handle.sections if section.name == state)


@pytest.mark.long  # `testing/test_harness_raw_state.py` restores it at other parallelisms
@pytest.mark.parametrize(
    "starts",
    [
        ((2, "heap"), (3, "rocksdb"), (1, "heap")),
        pytest.param(((2, "heap"), (3, "rocksdb"), (1, "rocksdb"), (1, "heap")), marks=pytest.mark.long),
    ],
    ids=len,
)
def test_raw_state_goes_on_at_other_parallelisms_and_backends(
    spark: Any, tmp_path: Path, starts: tuple[tuple[int, str], ...]
) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "raw-rescaled"
    rocks = EmbeddedRocksDBStateBackend()
    rocks.set_db_storage_paths(str(tmp_path / "disk"))
    rocks.get_memory_configuration().set_fixed_memory_per_slot("16mb")
    for run, (parallelism, backend_name) in enumerate(starts):
        source.add_many(1, rows=30, seed=run)
        backend = rocks if backend_name == "rocksdb" else backend_name
        run_all(counts_job(source.stream(spark), root, name, state_backend=backend), parallelism=parallelism)
        everything(root, name, source)
        rows = read_state(str(root), name, UID, PARTITIONS).to_pylist()
        assert {row["namespace"] for row in rows} == {str(parallelism)}


@pytest.mark.long  # `testing/test_harness_raw_state.py` rescales it
@pytest.mark.parametrize("parallelisms", [(4, 2), pytest.param((4, 2, 1, 2), marks=pytest.mark.long)], ids=len)
def test_raw_state_moves_with_a_running_job_that_is_rescaled(
    spark: Any, tmp_path: Path, started: Any, parallelisms: tuple[int, ...]
) -> None:
    """Rescales up and back, so that workers get ranges that they have not served for some epochs."""
    root, name, source = tmp_path / "root", "raw-moving", Input(tmp_path / "in").add_many(1)
    client = started(counts_job(source.stream(spark), root, name).start(trigger_interval_ms=50))
    for parallelism in parallelisms:
        with_epochs(client, len(source.files), of_input=True)
        client.rescale(parallelism).result(60)
        source.add_many(1)
    with_epochs(client, len(source.files), of_input=True)
    client.stop()
    everything(root, name, source)
    assert newest(root, name).operators[UID].parallelism == 2


def test_only_key_groups_that_changed_are_written(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "raw-changes"
    source.add_many(1, rows=60).add_many(2, rows=4, seed=2)
    run_all(counts_job(source.stream(spark), root, name))
    manifests = [stored.manifest for stored in open_job(str(root), name).epochs() if stored.manifest.kind == "epoch"]
    records = [source.all[:60], source.all[60:64], source.all[64:]]
    changed = [len({group_of(row.k) for row in rows}) for rows in records]
    assert [written(manifest, KEYED) for manifest in reversed(manifests)] == changed
    everything(root, name, source)


class Silent(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        return None


def test_published_savepointed_restored_and_gone_with_the_code_that_wrote_it(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "raw-published"
    source.add_many(2, rows=30)
    client = run_all(counts_job(source.stream(spark), root, name, checkpoint_interval_ms=10))
    [*_, checkpoint] = [row for row in open_job(str(root), name).checkpoints() if row.status == "completed"]
    assert (root / name / UID / KEYED).is_dir()
    assert (root / name / "_operator" / UID / PARTITIONS).is_dir()
    [published] = [s for s in open_job(str(root), name).epochs() if s.manifest.epoch == checkpoint.epoch]
    by_sql = run_sql(str(root), name, f'select key_group, value from "{UID}"."{KEYED}"')
    values = dict(zip(by_sql.column("key_group").to_pylist(), by_sql.column("value").to_pylist(), strict=True))
    assert values == raw_keyed(root, name, at=published)
    pin = client.trigger_savepoint()
    everything(root, name, source)

    source.add_many(1, rows=10, seed=9)
    run_all(counts_job(source.stream(spark), root, name, Silent(), checkpoint_interval_ms=10), parallelism=3)
    assert (raw_keyed(root, name), partitions(root, name)) == ({}, [])
    run_all(counts_job(source.stream(spark), root, name), restore=pin.savepoint_id, parallelism=3)
    everything(root, name, source)


def test_written_out_moved_and_refused_in_other_key_groups_by_name(spark: Any, tmp_path: Path) -> None:
    source, root, new, name = Input(tmp_path / "in"), tmp_path / "root", tmp_path / "new", "raw-moved"
    source.add_many(1, rows=30)
    run_all(counts_job(source.stream(spark), root, name))
    taken = trigger_savepoint(str(root), name, kind="canonical", directory=str(tmp_path / "backup"))
    moved = str((tmp_path / "backup" / taken.savepoint_id).rename(tmp_path / "there"))
    root.rename(tmp_path / "gone")
    assert validate_savepoint(str(new), name, moved).ok
    source.add_many(1, rows=10, seed=9)
    job = counts_job(source.stream(spark), new, name, max_parallelism=None)
    with pytest.raises(MaxParallelismChangedError, match=r"'counts' has raw keyed state.*13 key groups.*into 128"):
        job.start(available_now=True, restore=moved, max_parallelism=128)
    assert not (new / name / "_restored").exists()
    run_all(counts_job(source.stream(spark), new, name), restore=moved, parallelism=3)
    everything(new, name, source)


class Strange(Counts):
    """Writes a key group of another subtask."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        for group in (0, M - 1):
            context.get_raw_keyed_operator_state_output().start_new_key_group(group)


def test_a_key_group_of_another_subtask_stops_the_job(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in").add_many(1, rows=10), tmp_path / "root", "raw-strange"
    client = counts_job(source.stream(spark), root, name, Strange()).start(available_now=True)
    with pytest.raises(
        RawStateError, match=r"Operator 'counts', subtask \d, .* began key group (0|12) .* its subtask has"
    ):
        client.await_termination()
    assert newest(root, name).kind == "claim"
    run_all(counts_job(source.stream(spark), root, name))
    everything(root, name, source)
