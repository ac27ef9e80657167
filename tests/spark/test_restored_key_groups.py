"""Key groups of a real stream are restored from a savepoint, and nothing else changes."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import (
    STATES,
    Input,
    Outputs,
    Record,
    outputs,
    run_all,
    state_of,
    table_rows,
    tally_job,
    truth,
    wait_for,
    with_epochs,
)

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.errors import MaxParallelismChangedError, RestoreError, StopRequestedError
from state_engine.inspect import read_state
from state_engine.key_groups import key_group_of
from state_engine.savepoint import restore_key_groups
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

MAX = 13
CHOSEN = (2, 3, 4, 5, 9)
RANGES = [(2, 5), 9]


def is_chosen(key: str | None) -> bool:
    return key_group_of((key,), ["string"], MAX) in CHOSEN


def tally_states(root: Path, name: str) -> dict[str, dict[Any, Any]]:
    return {state: state_of(root, name, "tally", state) for state in STATES}


def owner(entry: Any) -> Any:
    """Returns the key of an entry; in an entry of a map state it comes before the user key."""
    return entry[0] if isinstance(entry, tuple) else entry


def changed(before: dict[str, dict[Any, Any]], after: dict[str, dict[Any, Any]]) -> set[Any]:
    """Returns the keys with a state that differs."""
    return {
        owner(entry)
        for state in STATES
        for entry in before[state].keys() | after[state].keys()
        if before[state].get(entry) != after[state].get(entry)
    }


def expected_states(at_source: Sequence[Record], left_out: Sequence[Record], rows: Sequence[Record]) -> Any:
    """Returns the expected states: chosen keys have the source's state and later input; all others have all input."""
    seen = {row.n for row in left_out}
    whole = truth(rows).states
    partly = truth([row for row in rows if row.n not in seen]).states
    assert at_source
    return {
        state: {e: v for e, v in whole[state].items() if not is_chosen(owner(e))}
        | {e: v for e, v in partly[state].items() if is_chosen(owner(e))}
        for state in STATES
    }


def assert_results(sinks: Outputs, left_out: Sequence[Record], rows: Sequence[Record]) -> None:
    """Checks that output from before the restore stays, and that later output is based on the state at its time."""
    seen = {row.n for row in left_out}
    later = max(seen)
    whole = truth(rows).tally
    partly = truth([row for row in rows if row.n not in seen]).tally
    given = [row for row in whole if row[0] <= later or not is_chosen(row[1])]
    given += [row for row in partly if row[0] > later and is_chosen(row[1])]
    assert table_rows(sinks.tally) == sorted(given)
    assert sorted(given) != whole, "the restore made no difference"


@pytest.mark.long  # `savepoint/test_key_groups.py`; another test of this file does it with a running job
def test_a_stopped_job_goes_on_from_the_state_of_the_savepoint(spark, tmp_path: Path) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)

    def job() -> StreamJob:
        return tally_job(source.stream(spark), root, "stopped", sinks, 2, max_parallelism=MAX)

    pin = run_all(job()).trigger_savepoint()
    at_pin = list(source.all)
    source.add_many(1)
    left_out = source.all[len(at_pin) :]
    head = run_all(job()).head.manifest
    before, totals = tally_states(root, "stopped"), state_of(root, "stopped", "totals", "total", key="sub")

    report = restore_key_groups(str(root), "stopped", pin.savepoint_id, RANGES, uids=["tally"])
    assert report.sealed == (1, head.epoch + 2)
    after = tally_states(root, "stopped")
    assert changed(before, after) == {k for k in changed(before, truth(at_pin).states) if is_chosen(k)}
    assert after == expected_states(at_pin, left_out, source.all)
    assert state_of(root, "stopped", "totals", "total", key="sub") == totals

    source.add_many(1)
    client = run_all(job(), parallelism=3)
    assert [epoch.records for epoch in client.epochs] == [60], "nothing is read again"
    assert tally_states(root, "stopped") == expected_states(at_pin, left_out, source.all)
    assert_results(sinks, left_out, source.all)


@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("heap", marks=pytest.mark.long)])
def test_a_running_job_goes_on_from_the_state_of_the_savepoint(spark, tmp_path: Path, started, backend: str) -> None:
    root, sinks, name = tmp_path / "root", outputs(tmp_path / "out"), f"running-{backend}"
    source = Input(tmp_path / "in").add_many(2)
    job = tally_job(source.stream(spark), root, name, sinks, 2, max_parallelism=MAX, state_backend=backend)
    client = with_epochs(started(job.start(trigger_interval_ms=100)), 2)
    pin = client.trigger_savepoint()
    at_pin = list(source.all)
    source.add_many(2)
    left_out = source.all[len(at_pin) :]
    with_epochs(client, 4)
    before, head = tally_states(root, name), client.head

    dry = client.restore_key_groups(pin.savepoint_id, RANGES, uids=["tally"], dry_run=True)
    with pytest.raises(RestoreError, match="has no key group 13"):
        client.restore_key_groups(pin.savepoint_id, [MAX])
    assert (client.head, dry.sealed) == (head, None)
    done = client.restore_key_groups(pin.savepoint_id, RANGES, uids=["tally"])
    assert done.states == dry.states
    assert done.sealed == (1, head.manifest.epoch + 1)
    assert client.epochs[-1].kind == "restore"
    after = tally_states(root, name)
    assert changed(before, after) == {k for k in changed(before, truth(at_pin).states) if is_chosen(k)}
    assert after == expected_states(at_pin, left_out, source.all)

    source.add_many(2)
    with_epochs(client, 6, of_input=True)
    assert tally_states(root, name) == expected_states(at_pin, left_out, source.all)
    assert_results(sinks, left_out, source.all)
    client.stop()
    with pytest.raises(StopRequestedError, match="does not run any more"):
        client.restore_key_groups(pin.savepoint_id, RANGES)


class Alarm(KeyedProcessFunction):
    """Counts the records of a key, and emits their number 100 ms after the first one."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        if self.count.value() is None:
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + 100)
        self.count.update((self.count.value() or 0) + 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), self.count.value()


def test_timers_that_come_back_fire_although_no_record_comes(spark, tmp_path: Path, started) -> None:
    root, sink = tmp_path / "root", MemorySink("alarms-of-groups")
    source = Input(tmp_path / "in").add_many(1)
    job = StreamJob("alarms", root=str(root), parallelism=2, max_parallelism=MAX)
    stream = job.from_stream(source.stream(spark)).key_by("k").process(Alarm(), "k string, records bigint", uid="alarm")
    stream.sink_to(sink, uid="out")
    client = with_epochs(started(job.start(trigger_interval_ms=100)), 1, of_input=True)
    (first,) = [epoch.epoch for epoch in client.epochs if epoch.kind == "epoch"]
    counts: dict[Any, int] = {}
    for record in source.all:
        counts[record.k] = counts.get(record.k, 0) + 1
    wait_for(lambda: len(list(sink.rows())) == len(counts), "all alarms")
    source.add_many(1)
    with_epochs(client, 2, of_input=True)

    keys = [None, *sorted(k for k in counts if k is not None)[:3]]
    assert None in counts
    client.restore_key_groups(f"epoch:1/{first}", keys=keys)

    def told() -> list[Any]:
        """Returns the alarms of the keys of the first file; the second file may have caused others."""
        return sorted(((r["k"], r["records"]) for r in list(sink.rows()) if r["k"] in counts), key=repr)

    wait_for(lambda: len(told()) >= len(counts) + len(keys), "the alarms of the restored keys")
    assert told() == sorted([*counts.items(), *((k, counts[k]) for k in keys)], key=repr)
    state = state_of(root, "alarms", "alarm", "count")
    assert {k: state[k] for k in keys} == {k: counts[k] for k in keys}


class Seen(WindowFunction[Any, Any, Any, Any]):
    """Emits key, start of the window, and its elements."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, " ".join(str(i.v) for i in inputs)


@pytest.mark.long  # `savepoint/test_key_groups.py`
def test_restored_windows_below_the_watermark_fire_and_later_ones_lack_their_input(
    spark, tmp_path: Path, started
) -> None:
    root, folder, sink = tmp_path / "root", tmp_path / "in", MemorySink("windows-of-keys")
    folder.mkdir()

    def add(number: int, v: int, at: int) -> None:
        table = pa.table({"k": ["a", "b"], "v": [v, v], "at": [at, at]})
        pq.write_table(table, tmp_path / "new")
        os.utime(tmp_path / "new", (1_600_000_000 + 10 * number,) * 2)
        (tmp_path / "new").rename(folder / f"{number}.parquet")

    df = spark.readStream.schema("k string, v bigint, at bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    job = StreamJob("windows", root=str(root), parallelism=2, max_parallelism=MAX)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("at")
    keyed = job.from_stream(df).assign_timestamps_and_watermarks(strategy).key_by("k", order_by=["v"])
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.apply(Seen(), "k string, start bigint, seen string", uid="seen").sink_to(sink, uid="out")
    for number, (v, at) in enumerate([(1, 5), (2, 7), (3, 25)]):
        add(number, v, at)
    client = started(job.start(trigger_interval_ms=100))

    def rows() -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in sink.rows())

    whole = [("a", 0, "1 2"), ("b", 0, "1 2")]
    wait_for(lambda: rows() == whole, "the first windows")
    first = next(epoch.epoch for epoch in client.epochs if epoch.records)
    client.restore_key_groups(f"epoch:1/{first}", keys=["a"])
    again = sorted([*whole, ("a", 0, "1")])
    wait_for(lambda: rows() == again, "the window that came back")
    add(3, 4, 35)
    wait_for(lambda: rows() == [*again, ("b", 20, "3")], "the next windows")


@pytest.mark.long
def test_a_savepoint_of_a_job_with_other_key_groups_is_refused_and_the_job_goes_on(
    spark, tmp_path: Path, started
) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)
    other = tally_job(source.stream(spark), root, "seven", outputs(tmp_path / "other"), 1, max_parallelism=7)
    pin = run_all(other).trigger_savepoint()
    job = tally_job(source.stream(spark), root, "thirteen", sinks, 1, max_parallelism=MAX)
    client = with_epochs(started(job.start(trigger_interval_ms=100)), 1)
    with pytest.raises(MaxParallelismChangedError, match="written with 7"):
        client.restore_key_groups(f"seven/{pin.savepoint_id}", [1])
    source.add_many(1)
    with_epochs(client, 2, of_input=True)
    client.stop()
    assert table_rows(sinks.tally) == truth(source.all).tally
    assert read_state(str(root), "thirteen", "tally", "times").num_rows
