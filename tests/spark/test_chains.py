"""Operators in one task, in real streams: the same results and state as with exchanges, in fewer Spark stages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chained import OPERATORS, assert_all, chained_job, expected, with_keys
from support import Input, Record, by_n, newest, run_all, state_of, wait_for

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    ProcessFunction,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.errors import UserFunctionError
from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.graph.nodes import chains_of

pytestmark = pytest.mark.spark


def stages_of(spark: Any, client: Any) -> set[int]:
    """Returns the numbers of stages of a query's Spark jobs: the number of shuffles plus one, with one source."""
    store = spark.sparkContext._jsc.sc().statusStore()

    def ended() -> list[int]:
        sequence = store.jobsList(None)
        jobs = [sequence.apply(i) for i in range(sequence.size())]
        group = str(client.query.runId)
        mine = [job for job in jobs if job.jobGroup().isDefined() and job.jobGroup().get() == group]
        return [job.numCompletedStages() for job in mine if job.completionTime().isDefined()]

    wait_for(lambda: len(ended()) == client.spark_jobs, "the end of all jobs in Spark's books")
    return set(ended())


@pytest.mark.parametrize(
    ("chaining", "reuse"),
    [
        (True, False),
        # test_shared_jobs.py compares their results, too; here Spark's stages are counted.
        pytest.param(False, False, marks=pytest.mark.long),
        pytest.param(True, True, marks=pytest.mark.long),
    ],
)
def test_results_and_state_with_and_without_chaining(spark, tmp_path: Path, chaining: bool, reuse: bool) -> None:
    name = f"chains-{chaining}-{reuse}".lower()
    source = Input(tmp_path / "in")
    rows = with_keys(source, 2)
    client = run_all(
        chained_job(source.stream(spark), tmp_path / "root", name, chaining=chaining, reuse=reuse, parallelism=2)
    )
    assert_all(tmp_path / "root", name, rows)
    assert client.spark_jobs == len(client.epochs) == 2
    # One stage reads and routes; three stages follow with chaining, six without.
    assert stages_of(spark, client) == {1 + (3 if chaining else 6)}
    of_epoch = newest(tmp_path / "root", name).operators
    assert {uid: len(of_epoch[uid].acks) for uid in OPERATORS} == dict.fromkeys(OPERATORS, 2)
    of_task = [[of_epoch[uid].acks[n].attempt for uid in ("count", "split", "label")] for n in range(2)]
    assert all((len(set(attempts)) == 1) == chaining for attempts in of_task)


def test_a_savepoint_of_chained_operators_is_restored_apart(spark, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), tmp_path / "root"
    rows = list(with_keys(source, 1))
    run_all(chained_job(source.stream(spark), root, "apart"))
    at = newest(root, "apart")
    more = with_keys(source, 1)
    run_all(chained_job(source.stream(spark), root, "apart"))
    before = newest(root, "apart").generation
    job = chained_job(source.stream(spark), root, "apart", chaining=False)
    run_all(job, restore=f"epoch:{at.generation}/{at.epoch}", keep_output=True)
    assert newest(root, "apart").generation == before + 1
    assert len(rows) < len(more)
    truth = expected(more)
    assert state_of(root, "apart", "count", "count") == {k: times for _, k, times in truth["count"]}
    seen = read_state(str(root), "apart", "split", "seen").to_pylist()
    assert sum(row["value"] for row in seen) == len(truth["count"])


def test_a_function_that_raises_in_the_middle_of_a_chain(spark, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), tmp_path / "root"
    rows = with_keys(source, 2)
    bad = expected(rows)["split"][-1][0]
    client = chained_job(source.stream(spark), root, "raises", fails_at=bad).start(available_now=True)
    with pytest.raises(UserFunctionError, match="no label for this") as caught:
        client.await_termination(120)
    assert "'label'" in str(caught.value)
    assert len(client.epochs) == 1
    run_all(chained_job(source.stream(spark), root, "raises"))
    assert_all(root, "raises", rows)


class AtTime(KeyedProcessFunction):
    """Registers a timer 10 ms after each record."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value.n + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield timestamp, ctx.get_current_key()


class Timed(ProcessFunction):
    """Emits the event time of each record, and whether it is late."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        late = ctx.timestamp() <= ctx.timer_service().current_watermark()
        yield value.n, value.k, ctx.timestamp(), late


class Closing(KeyedProcessFunction):
    """Emits the records in order of time, with their lateness, by its own timers."""

    def open(self, runtime_context: Any) -> None:
        self.late = runtime_context.get_state(ValueStateDescriptor("late", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> None:
        late = value.late or ctx.timestamp() <= ctx.timer_service().current_watermark()
        self.late.update(late)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield timestamp, ctx.get_current_key(), self.late.value()


@pytest.mark.long  # `epoch/test_chains.py` and `runtime/test_chain.py` have watermarks and event times of a chain
@pytest.mark.parametrize(
    ("chaining", "reuse"),
    [
        (True, False),
        pytest.param(True, True, marks=pytest.mark.long),
        pytest.param(False, False, marks=pytest.mark.long),
    ],
    ids=["columns", "objects", "apart"],
)
def test_event_time_timers_pass_a_chain_and_nothing_is_late(spark, tmp_path: Path, chaining: bool, reuse: bool) -> None:
    source = Input(tmp_path / "in")
    for first in range(0, 120, 40):
        source.add([Record(n, f"k{n % 3}", "s", 1) for n in range(first, first + 40)])
    name = f"timed-{chaining}-{reuse}".lower()
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=2, operator_chaining=chaining)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_column("n")
    timed = job.from_stream(source.stream(spark), bounded=True).assign_timestamps_and_watermarks(strategy)
    fired = timed.key_by("k").process(AtTime(), "n bigint, k string", uid="at")
    told = fired.process(Timed(), "n bigint, k string, at bigint, late boolean", uid="told")
    kept = told.filter(lambda row: True, uid="kept")
    if reuse:
        told.enable_object_reuse()
    closed = kept.key_by("k").process(Closing(), "at bigint, k string, late boolean", uid="closing")
    told.sink_to(MemorySink(f"{name}-told"), uid="told-out")
    closed.sink_to(MemorySink(name), uid="out")
    client = run_all(job)
    wait_for(lambda: client.state != "RUNNING", "the end of the input")
    if chaining:
        assert [[node.uid for node in chain] for chain in chains_of(job.operators)] == [
            ["at", "told", "kept"],
            ["closing"],
        ]
    assert by_n(MemorySink(f"{name}-told").rows()) == [(n + 10, f"k{n % 3}", n + 10, False) for n in range(120)]
    assert by_n(MemorySink(name).rows()) == [(n + 10, f"k{n % 3}", False) for n in range(120)]
