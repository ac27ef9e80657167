"""Operator state and life cycle calls in real streams: rescale, restart, publish, notifications, end of input."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from shared_jobs.states import Buffer
from support import Input, by_n, newest, records, run_all, wait_for, wait_for_beats, with_epochs

from state_engine.api import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import UserFunctionError
from state_engine.inspect import open_job, read_state, run_sql
from state_engine.savepoint import trigger_savepoint, validate_savepoint
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def buffer_job(
    df: Any, root: Path, name: str, function: Any = None, bounded: bool = False, **options: Any
) -> StreamJob:
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    out = job.from_stream(df, bounded=bounded).process(function or Buffer(), "n bigint, seen bigint", uid="buffer")
    out.sink_to(MemorySink(name), uid="out")
    return job


def held(root: Path, name: str, at: Any = None, state: str = "buffer") -> list[list[int]]:
    """Returns the lists of the subtasks."""
    lists: dict[tuple[int, str], list[int]] = {}
    for row in read_state(str(root), name, "buffer", state, at=at).to_pylist():
        lists.setdefault((row["key_group"], row["namespace"]), []).append(row["value"])
    assert len({parallelism for _, parallelism in lists}) <= 1
    return [lists[slot] for slot in sorted(lists)]


def everything(root: Path, name: str, source: Input) -> None:
    """Checks that every record was emitted once or is in the buffer, and was counted once."""
    given = [n for n, _ in by_n(MemorySink(name).rows())]
    kept = [n for numbers in held(root, name) for n in numbers]
    assert sorted(given + kept) == [record.n for record in source.all]
    assert sum(n for counts in held(root, name, state="counts") for n in counts) == len(source.all)


@pytest.mark.long  # test_shared_jobs.py has them, too
@pytest.mark.parametrize("parallelisms", [(2, 3, 1), (2, 3, 1, 1, 4)], ids=len)
def test_lists_go_on_at_other_parallelisms(spark: Any, tmp_path: Path, parallelisms: tuple[int, ...]) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "rescaled"
    for run, parallelism in enumerate(parallelisms):
        source.add_many(1, rows=35, seed=run)
        run_all(buffer_job(source.stream(spark), root, name), parallelism=parallelism)
        everything(root, name, source)
        assert len(held(root, name)) <= parallelism
        rows = read_state(str(root), name, "buffer", "counts").to_pylist()
        assert {row["namespace"] for row in rows} == {str(parallelism)}
    assert newest(root, name).operators["buffer"].since == 2


def test_lists_go_on_from_a_canonical_savepoint_that_was_moved(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "moved-lists"
    for parallelism in (2, 3):
        source.add_many(1, rows=80)
        run_all(buffer_job(source.stream(spark), root, name), parallelism=parallelism)
    assert MemorySink(name).rows()
    savepoint = trigger_savepoint(str(root), name, kind="canonical", directory=str(tmp_path / "backup"))
    moved = (tmp_path / "backup" / savepoint.savepoint_id).rename(tmp_path / "there")
    root.rename(tmp_path / "gone")
    new = tmp_path / "new"
    assert validate_savepoint(str(new), name, str(moved)).ok
    source.add_many(1, rows=30, seed=9)
    run_all(buffer_job(source.stream(spark), new, name), restore=str(moved), parallelism=3)
    everything(new, name, source)


@pytest.mark.long  # `testing/test_harness_checkpointed.py` restores it
def test_published_savepointed_and_restored_from_a_base(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "published-lists"
    source.add_many(2, rows=30)
    client = run_all(buffer_job(source.stream(spark), root, name, checkpoint_interval_ms=10))
    [*_, checkpoint] = [row for row in open_job(str(root), name).checkpoints() if row.status == "completed"]
    assert (root / name / "_operator" / "buffer" / "buffer").is_dir()
    epoch = open_job(str(root), name).epochs()
    [published] = [stored for stored in epoch if stored.manifest.epoch == checkpoint.epoch]
    by_sql = run_sql(
        str(root), name, 'select key_group, value from "buffer"."buffer" order by key_group, position, seq'
    )
    lists = held(root, name, at=published)
    assert by_sql.column("value").to_pylist() == [n for numbers in lists for n in numbers]
    pin = client.trigger_savepoint()
    before = held(root, name)

    source.add_many(1, rows=30, seed=9)
    run_all(buffer_job(source.stream(spark), root, name))
    assert held(root, name) != before
    run_all(buffer_job(source.stream(spark), root, name), restore=pin.savepoint_id, parallelism=3)
    everything(root, name, source)


@pytest.mark.long
def test_lists_of_more_subtasks_than_there_are_key_groups_now(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "fewer-groups"
    source.add_many(2, rows=30)
    run_all(buffer_job(source.stream(spark), root, name, max_parallelism=8), parallelism=5)
    for groups, parallelism in ((3, 2), (64, 4)):
        source.add_many(1, rows=30, seed=groups)
        client = buffer_job(source.stream(spark), root, name)
        run_all(client, restore="latest", max_parallelism=groups, parallelism=parallelism)
        everything(root, name, source)


class Silent(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        return None


@pytest.mark.long  # `testing/test_harness_checkpointed.py` carries it on
def test_state_that_no_code_asks_for_is_carried_on(spark: Any, tmp_path: Path) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "left-over"
    source.add_many(1, rows=20)
    run_all(buffer_job(source.stream(spark), root, name))
    before = [n for numbers in held(root, name) for n in numbers]
    source.add_many(2, rows=5, seed=2)
    client = run_all(buffer_job(source.stream(spark), root, name, Silent(), checkpoint_interval_ms=10), parallelism=3)
    pin = client.trigger_savepoint()
    assert [n for numbers in held(root, name) for n in numbers] == before
    source.add_many(1, rows=10, seed=3)
    run_all(buffer_job(source.stream(spark), root, name), restore=pin.savepoint_id, parallelism=1)
    given = [n for n, _ in by_n(MemorySink(name).rows())]
    kept = [n for numbers in held(root, name) for n in numbers]
    assert sorted(given + kept) == sorted([*before, *(record.n for record in source.all[30:])])


# The order of all calls -------------------------------------------------------------------------------------------


class Recorder(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Writes every call with its instance, begin and end to a file of its process."""

    def __init__(self, folder: str, broken: str = "") -> None:
        self.folder = folder
        self.broken = broken
        self.name = ""

    def note(self, what: str, **facts: Any) -> None:
        self.name = self.name or f"{os.getpid()}-{time.time_ns()}"
        line = {"call": what, "instance": self.name, "begin": time.monotonic_ns(), **facts}
        time.sleep(0.002)
        line["end"] = time.monotonic_ns()
        with open(f"{self.folder}/{os.getpid()}.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        if self.broken == what:
            raise OSError("no luck")

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.note("initialize_state", restored=context.is_restored(), id=context.get_restored_checkpoint_id())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.note("open", subtask=runtime_context.get_index_of_this_subtask())
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note("notify_checkpoint_complete", id=checkpoint_id)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.note("process_element")
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.note("on_timer")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.note("snapshot_state", id=context.get_checkpoint_id(), epoch=context.get_epoch())

    def finish(self) -> None:
        self.note("finish")

    def close(self) -> None:
        self.note("close")


def recorder_job(df: Any, root: Path, name: str, function: Recorder, **options: Any) -> StreamJob:
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    job.from_stream(df).key_by("k").process(function, "n bigint", uid="recorder").sink_to(MemorySink(name), uid="out")
    return job


def calls(folder: Path, *, of_workers: bool = True) -> list[dict[str, Any]]:
    """Returns all calls, in order of time; without those in the driver, which discovers the states."""
    recorded = []
    for path in folder.glob("*.jsonl"):
        if of_workers == (path.stem != str(os.getpid())):
            recorded += [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(recorded, key=lambda call: call["begin"])


EPOCH = {"on_timer", "process_element", "finish", "snapshot_state"}
ALLOWED = {
    "initialize_state": {"open"},
    "open": EPOCH | {"notify_checkpoint_complete"},
    "notify_checkpoint_complete": EPOCH | {"notify_checkpoint_complete"},
    "on_timer": EPOCH,
    "process_element": EPOCH - {"on_timer"},
    "finish": {"snapshot_state"},
    "snapshot_state": EPOCH | {"notify_checkpoint_complete", "close"},
    "close": set(),
}
"""Which calls may follow a call in the life of one instance."""


def check_lives(found: list[dict[str, Any]]) -> None:
    instances: dict[str, list[dict[str, Any]]] = {}
    for call in found:
        instances.setdefault(call["instance"], []).append(call)
    for life in instances.values():
        assert life[0]["call"] == "initialize_state"
        for one, other in itertools.pairwise(life):
            assert other["call"] in ALLOWED[one["call"]], (one, other)
            assert one["end"] <= other["begin"], "two calls of an instance overlap"


def test_the_order_of_all_calls(spark: Any, tmp_path: Path, started: Any) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    source, root, name = Input(tmp_path / "in").add_many(3, rows=8), tmp_path / "root", "recorded"
    job = recorder_job(source.stream(spark), root, name, Recorder(str(folder)), checkpoint_interval_ms=10)
    assert [call["call"] for call in calls(folder, of_workers=False)] == ["initialize_state", "open", "close"]
    client = started(job.start(trigger_interval_ms=50))
    wait_for(lambda: [epoch.kind for epoch in client.epochs].count("epoch") == 3 or client.exception, "all records")
    wait_for(lambda: any(c["call"] == "notify_checkpoint_complete" for c in calls(folder)), "a notification")
    client.stop(drain=True)
    recorded = calls(folder)
    check_lives(recorded)
    names = [call["call"] for call in recorded]
    assert names.count("process_element") == 24
    assert names.count("on_timer") >= 1
    assert names.count("finish") == 2
    epochs = {(call["epoch"], call["id"]) for call in recorded if call["call"] == "snapshot_state"}
    manifests = {stored.manifest.epoch: stored.manifest for stored in open_job(str(root), name).epochs()}
    assert epochs == {(n, m.snapshot_id) for n, m in manifests.items() if m.kind in ("epoch", "idle")}
    restored = {call["id"] for call in recorded if call["call"] == "initialize_state" and call["restored"]}
    assert restored <= {m.snapshot_id for m in manifests.values()}
    assert not any(c["restored"] for c in recorded[:1])
    told = [call["id"] for call in recorded if call["call"] == "notify_checkpoint_complete"]
    completed = {row.checkpoint_id for row in open_job(str(root), name).checkpoints() if row.status == "completed"}
    assert set(told) <= completed
    assert all(told.count(checkpoint_id) == 2 for checkpoint_id in set(told)), "once in each subtask"


def test_a_notification_that_raises_fails_the_job_and_the_checkpoint_stays(
    spark: Any, tmp_path: Path, started: Any
) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    source, root, name = Input(tmp_path / "in").add_many(1, rows=6), tmp_path / "root", "badly-told"
    broken = Recorder(str(folder), "notify_checkpoint_complete")
    client = started(
        recorder_job(source.stream(spark), root, name, broken, checkpoint_interval_ms=10).start(trigger_interval_ms=50)
    )
    client.trigger_checkpoint()
    client.run_idle_epoch()
    wait_for(lambda: client.exception, "the failure")
    assert isinstance(client.exception, UserFunctionError)
    assert "notify_checkpoint_complete() raised OSError: no luck" in str(client.exception)
    assert any(row.status == "completed" for row in open_job(str(root), name).checkpoints())
    client.stop()
    recorded = calls(folder)
    check = [call["call"] for call in recorded if call["instance"] == recorded[-1]["instance"]]
    assert check[-1] == "close"
    source.add_many(1, rows=6, seed=5)
    run_all(recorder_job(source.stream(spark), root, name, Recorder(str(folder))))


def test_without_a_listener_no_epoch_is_made_for_a_checkpoint(spark: Any, tmp_path: Path, started: Any) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", "nobody-listens"
    source.add(records(20))
    job = buffer_job(source.stream(spark), root, name, heartbeat_interval_ms=20)
    client = with_epochs(started(job.start(trigger_interval_ms=50)), 1, of_input=True)
    client.trigger_checkpoint().result(60)
    count = len(client.epochs)
    wait_for_beats(client, 3)
    assert len(client.epochs) == count


# The end of a worker ----------------------------------------------------------------------------------------------

SESSION = """
import os, sys
from pathlib import Path

from state_engine.api import ProcessFunction
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.session.local import local_session


class Noting(ProcessFunction):
    def open(self, runtime_context):
        self.file = Path(FOLDER) / str(os.getpid())
        self.file.write_text("open")

    def process_element(self, value, ctx):
        return None

    def close(self):
        self.file.write_text("closed")


FOLDER = sys.argv[1]
spark = local_session("ending")
job = StreamJob("ending", root=FOLDER + "/root", parallelism=2)
stream = spark.readStream.schema("n bigint").parquet(FOLDER + "/in")
job.from_stream(stream).process(Noting(), "n bigint", uid="noting").sink_to(MemorySink("ending"), uid="out")
job.start(available_now=True).await_termination()
spark.stop()
"""


@pytest.mark.long
def test_functions_are_closed_when_the_session_is_stopped(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    Input(notes / "in").add_many(1)
    subprocess.run([sys.executable, "-c", SESSION, str(notes)], check=True, timeout=180, capture_output=True)
    wait_for(lambda: {path.read_text() for path in notes.iterdir() if path.is_file()} == {"closed"}, "all closed", 60)
    assert len([path for path in notes.iterdir() if path.is_file()]) >= 2, "the driver's copy, and the workers'"
