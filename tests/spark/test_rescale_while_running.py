"""Running jobs get another parallelism, several times: output and state are the same as without a rescale."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from branches import Branches, branch_job, check_state, expected
from enrichment import check_enriched, enrich_job
from support import (
    Count,
    Folders,
    Input,
    assert_counts,
    assert_tally,
    by_n,
    count_job,
    newest,
    outputs,
    records,
    tally_job,
    wait_for,
    wait_for_beats,
    with_epochs,
)

from state_engine.api import (
    CheckpointedFunction,
    Duration,
    EmbeddedRocksDBStateBackend,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.errors import RescaleError, UserFunctionError
from state_engine.inspect import open_job, read_state
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
Started = Callable[[Any], Any]


def backends(quick: str) -> pytest.MarkDecorator:
    """Runs a test with the backend `quick`, and in `make test-long` with the other one as well."""
    other = {"heap": "rocksdb", "rocksdb": "heap"}[quick]
    return pytest.mark.parametrize("backend", [quick, pytest.param(other, marks=pytest.mark.long)], indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "heap":
        return "heap"
    named = EmbeddedRocksDBStateBackend()
    named.set_db_storage_paths(str(tmp_path / "disk"))
    return named


def rescaled(client: Any, parallelism: Any) -> dict[str, int]:
    """Rescales a job, and waits for the epoch with this parallelism, which its manifest and acks record too."""
    epoch = client.rescale(parallelism).result(60)
    [stored] = [one for one in open_job(client._job.root, client._job.name).epochs() if one.manifest.epoch == epoch]
    operators = stored.manifest.operators
    assert all(len(operator.acks) == operator.parallelism for operator in operators.values())
    assert client.parallelism == {uid: operator.parallelism for uid, operator in operators.items()}
    return client.parallelism


@backends("rocksdb")
def test_state_of_all_shapes(spark: Any, tmp_path: Path, started: Started, backend: Any) -> None:
    """Rescales with records, without records, and of one operator only."""
    root, sinks, source = tmp_path / "root", outputs(tmp_path / "out"), Input(tmp_path / "in").add_many(2)
    options = {"max_parallelism": 13, "state_backend": backend, "checkpoint_interval_ms": 200}
    job = tally_job(source.stream(spark), root, "shapes", sinks, **options)
    client = started(job.start(trigger_interval_ms=50))
    client = with_epochs(client, 2, of_input=True)
    assert rescaled(client, 4) == {"tally": 4, "totals": 4}
    source.add_many(1)
    with_epochs(client, 3, of_input=True)
    source.add_many(2)
    assert rescaled(client, 1) == {"tally": 1, "totals": 1}
    with_epochs(client, 5, of_input=True)
    assert rescaled(client, {"totals": 3}) == {"tally": 1, "totals": 3}
    assert rescaled(client, {"tally": 2}) == {"tally": 2, "totals": 3}
    source.add_many(1)
    with_epochs(client, 6, of_input=True)
    client.stop()
    assert_tally(root, "shapes", sinks, source.all)


# Windows, a chain, lists ----------------------------------------------------------------------------------------------


class Sum(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.start, key, sum(row.v for row in inputs)


class Ledger(ProcessFunction, CheckpointedFunction):
    """Keeps the windows that it received in a list, and their number in a union list."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("starts", Types.LONG()))
        self.counts = store.get_union_list_state(ListStateDescriptor("counts", Types.LONG()))
        self.starts = list(self.stored)
        self.parts = [part.get_stream().read() for part in context.get_raw_operator_state_inputs()]
        self.came = 0

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.starts.append(value.n)
        self.came += 1
        yield tuple(value)

    def snapshot_state(self, context: Any) -> None:
        self.stored.update(self.starts)
        if self.came:
            self.counts.add(self.came)
            self.parts.append(str(self.came).encode())
            self.came = 0
        out = context.get_raw_operator_state_output()
        for part in self.parts:
            out.start_new_partition()
            out.write(part)


SUMS = "n bigint, k string, total bigint"
WIDTH = 50


def window_job(df: Any, root: Path, name: str, **options: Any) -> StreamJob:
    job = StreamJob(name, root=str(root), **{"parallelism": 2, "max_parallelism": 13, **options})
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
    keyed = job.from_stream(df).assign_timestamps_and_watermarks(times).key_by("k")
    sums = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WIDTH))).apply(Sum(), SUMS, uid="windows")
    sums.process(Ledger(), SUMS, uid="ledger").sink_to(MemorySink(name), uid="out")
    return job


def sums(source: Input) -> list[tuple[Any, ...]]:
    totals: dict[Any, int] = {}
    for row in source.all:
        place = (row.n // WIDTH * WIDTH, row.k)
        totals[place] = totals.get(place, 0) + row.v
    return [(*place, total) for place, total in totals.items()]


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@backends("heap")
def test_windows_timers_a_chain_and_lists(spark: Any, tmp_path: Path, started: Started, backend: Any) -> None:
    """In between the driver disappears without a stop; the next one continues with the same parallelism."""
    root, name, source = tmp_path / "root", "rescaled-windows", Input(tmp_path / "in").add_many(2)

    def job() -> StreamJob:
        return window_job(source.stream(spark), root, name, state_backend=backend)

    client = with_epochs(started(job().start(trigger_interval_ms=50)), 2, of_input=True)
    assert rescaled(client, 4) == {"windows": 4, "ledger": 4}
    source.add_many(1, rows=45)
    with_epochs(client, 3, of_input=True)
    assert rescaled(client, {"ledger": 1}) == {"windows": 1, "ledger": 1}
    source.add_many(1, rows=45)
    with_epochs(client, 4, of_input=True)

    former, client = client, started(job().start(trigger_interval_ms=50))
    assert client.parallelism == {"windows": 1, "ledger": 1}
    with pytest.raises(RescaleError, match="was not rescaled"):
        former.rescale(3).result(60)
    source.add_many(1, rows=45)
    with_epochs(client, 1, of_input=True)
    assert rescaled(client, 3) == {"windows": 3, "ledger": 3}
    source.add_many(1, rows=45)
    with_epochs(client, 2, of_input=True)
    client.stop(drain=True)

    rows = [tuple(row.values()) for row in MemorySink(name).rows()]
    assert in_order(rows) == in_order(sums(source))
    starts = read_state(str(root), name, "ledger", "starts").to_pylist()
    assert sorted(row["value"] for row in starts) == sorted(n for n, _, _ in rows)
    assert {row["namespace"] for row in starts} == {"3"}
    for state in ("counts", "_raw_operator_state"):
        held = read_state(str(root), name, "ledger", state).to_pylist()
        assert sum(int(row["value"]) for row in held) == len(rows), state
    assert newest(root, name).timers == {}


# Two inputs, broadcast, several readers -------------------------------------------------------------------------------


TWO_RESCALES = ((1, 1), 4), ((1, 1), 1)
MORE_RESCALES = ((1, 1), 4), ((2, 0), 1), ((0, 2), 3)


@pytest.mark.long  # the joins of two inputs are rescaled in test_shared_jobs.py
@pytest.mark.parametrize("rescales", [TWO_RESCALES, pytest.param(MORE_RESCALES, marks=pytest.mark.long)], ids=len)
def test_two_inputs(spark: Any, tmp_path: Path, started: Started, rescales: Any) -> None:
    folders, root = Folders(tmp_path / "in", 2), tmp_path / "root"
    folders.add(1, 1)
    client = with_epochs(started(enrich_job(spark, folders, root, "two").start(trigger_interval_ms=50)), 1)
    for files, parallelism in rescales:
        assert rescaled(client, parallelism) == {"enrich": parallelism}
        folders.add(*files)
        wait_for(lambda: sum(epoch.records for epoch in client.epochs) == len(folders.all), "the records")
    client.stop()
    check_enriched(root, "two", folders)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Match(KeyedBroadcastProcessFunction):
    """Emits the newest rule of each record's `sub`, and how often its key came."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value.n, value.k, ctx.get_broadcast_state(RULES).get(value.sub), self.count.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.name, value.number)


@pytest.mark.long  # test_shared_jobs.py also rescales; `epoch/test_rescale.py` has the decisions
@pytest.mark.parametrize("parallelisms", [(4, 1), pytest.param((2, 4, 1, 3), marks=pytest.mark.long)], ids=len)
def test_broadcast_state(spark: Any, tmp_path: Path, started: Started, parallelisms: tuple[int, ...]) -> None:
    name, root, data, rules = "rules", tmp_path / "root", Input(tmp_path / "data"), Input(tmp_path / "rules")
    job = StreamJob(name, root=str(root), parallelism=2)
    elements = job.from_stream(rules.stream(spark)).select("n as number", "sub as name").broadcast(RULES)
    keyed = job.from_stream(data.stream(spark)).key_by("k", order_by=["n"])
    matched = keyed.connect(elements).process(Match(), "n bigint, k string, rule bigint, times bigint", uid="match")
    matched.sink_to(MemorySink(name), uid="out")
    client = started(job.start(trigger_interval_ms=50))
    rules_by_sub: dict[str, int] = {}
    counts: dict[Any, int] = {}
    wanted: list[tuple[Any, ...]] = []
    for step, parallelism in enumerate(parallelisms):
        rescaled(client, parallelism)
        new = records(6, seed=step, first=1000 * step)
        rules.add(new)
        rules_by_sub.update((row.sub, row.n) for row in new)
        wait_for(lambda: read_rules(root, name) == rules_by_sub, "the rules")
        new = records(30, seed=50 + step, first=1000 * step + 500)
        data.add(new)
        for row in new:
            counts[row.k] = counts.get(row.k, 0) + 1
            wanted.append((row.n, row.k, rules_by_sub.get(row.sub), counts[row.k]))
        wait_for(lambda: len(MemorySink(name).rows()) >= len(wanted), "the records")
    client.stop()
    assert by_n(MemorySink(name).rows()) == wanted


def read_rules(root: Path, name: str) -> dict[str, int]:
    rows = read_state(str(root), name, "match", "rules").to_pylist()
    return {row["user_key"]: row["value"] for row in rows}


@pytest.mark.long
def test_operators_that_several_read(spark: Any, tmp_path: Path, started: Started) -> None:
    name, root, source = "branching", tmp_path / "root", Input(tmp_path / "in").add_many(1)
    client = with_epochs(started(branch_job(source.stream(spark), root, name).start(trigger_interval_ms=50)), 1)
    readers = {"totals", "often", "losses"}
    for parallelism, changed in ((3, {*readers, "tally", "met"}), ({"losses": 4}, readers), ({"tally": 1}, {"tally"})):
        before = dict(client.parallelism)
        after = rescaled(client, parallelism)
        assert {uid for uid in after if after[uid] != before[uid]} == changed
        source.add_many(1)
        with_epochs(client, len(source.files), of_input=True)
    client.stop()
    outputs = Branches(*(by_n(MemorySink(f"{name}-{output}").rows()) for output in Branches._fields))
    assert outputs == expected(source.all)
    check_state(root, name, source.all)


# Refused rescales, and callers that wait without success --------------------------------------------------------------


@pytest.mark.long  # `epoch/test_rescale.py` decides what is refused
def test_wrong_numbers_are_refused_and_change_nothing(spark: Any, tmp_path: Path, started: Started) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    job = count_job(source.stream(spark), root, "refusing", max_parallelism=7, heartbeat_interval_ms=20)
    client = with_epochs(started(job.start(trigger_interval_ms=50)), 1)
    for wrong in (0, 8, True, "2", {"count": 8}, {"nobody": 2}):
        with pytest.raises(RescaleError):
            client.rescale(wrong)
    wait_for_beats(client, 3)
    assert len(client.epochs) == 1, "a refused rescale caused an epoch"
    assert client.parallelism == {"count": 2}
    assert rescaled(client, 7) == {"count": 7}
    with client._lock:  # as a batch would
        future = client.rescale(6)
        time.sleep(0.1)  # the heartbeat, every 20 ms, waits for the lock by now
        assert client.run_idle_epoch().manifest.epoch == future.result(0)
    wait_for_beats(client, 3)
    assert len(client.epochs) == 3, "an epoch was sealed for a rescale that the epoch before already had"
    client.stop()
    with pytest.raises(RescaleError, match="the job has ended"):
        client.rescale(3).result(0)
    assert newest(root, "refusing").operators["count"].parallelism == 6
    source.add_many(1)
    client = with_epochs(started(count_job(source.stream(spark), root, "refusing", parallelism=3).start()), 1)
    assert client.parallelism == {"count": 3}, "the definition has another parallelism"
    client.stop()
    assert_counts(root, "refusing", source.all)


class Picky(Count):
    """A count that fails in open() if there are three subtasks."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        if runtime_context.get_number_of_parallel_subtasks() == 3:
            raise ValueError("three are a crowd")


@pytest.mark.long  # `epoch/test_rescale.py` has epochs that are not sealed
def test_an_epoch_that_fails_at_the_new_parallelism_leaves_the_old(
    spark: Any, tmp_path: Path, started: Started
) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)

    def job(function: Any) -> StreamJob:
        return count_job(source.stream(spark), root, "picky", function=function)

    client = with_epochs(started(job(Picky()).start(trigger_interval_ms=50)), 1)
    with pytest.raises(RescaleError, match="was not rescaled: the job has ended"):
        client.rescale(3).result(60)
    with pytest.raises(UserFunctionError, match="three are a crowd"):
        client.await_termination(60)
    assert newest(root, "picky").operators["count"].parallelism == 2
    source.add_many(1)
    client = with_epochs(started(job(Picky()).start(trigger_interval_ms=50)), 1)
    assert client.parallelism == {"count": 2}
    client.stop()
    assert_counts(root, "picky", source.all)
