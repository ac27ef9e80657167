"""Operators that several others read, and side outputs with operators: real streams, compared with a loop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from branches import Branches, branch_job, check_state, expected, times_of
from support import COUNTS, NEGATIVE, TALLY, Count, Folders, Input, Tally, by_n, counted, newest, run_all, truth

from state_engine.api import (
    CoMapFunction,
    Duration,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    WatermarkStrategy,
)
from state_engine.api.windows import TumblingEventTimeWindows, WindowFunction
from state_engine.errors import UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def found(name: str) -> Branches:
    return Branches(*(by_n(MemorySink(f"{name}-{output}").rows()) for output in Branches._fields))


def test_branches_that_meet_equal_a_loop(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    client = run_all(branch_job(source.stream(spark), tmp_path / "root", "branches"))
    assert client.spark_jobs == len(client.epochs) == 2
    assert found("branches") == expected(source.all)
    check_state(tmp_path / "root", "branches", source.all)


@pytest.mark.long
def test_a_start_with_another_parallelism_and_a_restore(spark, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in").add_many(2), tmp_path / "root"
    for parallelism in (1, 3):
        run_all(branch_job(source.stream(spark), root, "rescaled", parallelism=parallelism))
        assert found("rescaled") == expected(source.all)
        source.add_many(1)
    run_all(branch_job(source.stream(spark), root, "rescaled"), restore="epoch:1/3")
    assert newest(root, "rescaled").generation == 2
    assert found("rescaled") == expected(source.all)
    check_state(root, "rescaled", source.all)


@pytest.mark.long  # test_transformations.py has maps that raise; `epoch/test_operators_that_several_read.py`
def test_a_map_on_one_branch_that_raises_fails_the_epoch(spark, tmp_path: Path) -> None:
    """The other branches also carry the ack of the upstream operator, and that ack reports no failure."""
    source, root = Input(tmp_path / "in").add_many(2), tmp_path / "root"
    unlucky = next(n for n, _, _, times, *_ in truth(source.all).tally if times % 3 == 0 and n >= 60)

    def fails(row: Any) -> Any:
        if row.n == unlucky:
            raise ValueError("no luck")
        return row.n, row.k

    job = branch_job(source.stream(spark), root, "unlucky", mapped=fails)
    client = job.start(available_now=True)
    with pytest.raises(UserFunctionError, match=r"on its output raised ValueError: no luck"):
        client.await_termination(120)
    assert found("unlucky") == expected([row for row in source.all if row.n < unlucky // 60 * 60])
    run_all(branch_job(source.stream(spark), root, "unlucky"))
    assert found("unlucky") == expected(source.all)
    check_state(root, "unlucky", source.all)


class Sides(CoMapFunction):
    """Shows by which input a record came."""

    def map1(self, value: Any) -> Any:
        return (value.n, "main")

    def map2(self, value: Any) -> Any:
        return (value.n, "aside")


def test_a_stream_meets_its_own_side_output_and_itself(spark, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in").add_many(2), tmp_path / "root"
    job = StreamJob("itself", root=str(root), parallelism=2)
    tally = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Tally(), TALLY, uid="tally")
    sides = tally.connect(tally.get_side_output(NEGATIVE)).map(Sides(), "n bigint, side string", uid="sides")
    sides.sink_to(MemorySink("sides"), uid="sides-out")
    twice = tally.select("n", "k").union(tally.where("times > 2").select("n", "k"))
    again = twice.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="again")
    again.sink_to(MemorySink("again"), uid="again-out")
    run_all(job)
    wanted = truth(source.all)
    assert by_n(MemorySink("sides").rows()) == sorted(
        [(n, "main") for n, *_ in wanted.tally] + [(n, "aside") for n, *_ in wanted.negative]
    )
    rows = [(n, k) for n, k, _, times, *_ in wanted.tally for _ in range(1 + (times > 2))]
    assert by_n(MemorySink("again").rows()) == times_of(rows)


def test_a_side_output_alone_feeds_an_operator(spark, tmp_path: Path) -> None:
    """There is no further exchange: the tasks of the first operator write the side output."""
    source = Input(tmp_path / "in").add_many(1)
    job = StreamJob("aside", root=str(tmp_path / "root"), parallelism=2)
    tally = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Tally(), TALLY, uid="tally")
    tally.sink_to(MemorySink("aside-main"), uid="main-out")
    losses = tally.get_side_output(NEGATIVE).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="losses")
    losses.sink_to(MemorySink("aside-losses"), uid="losses-out")
    run_all(job)
    wanted = expected(source.all)
    assert by_n(MemorySink("aside-main").rows()) == wanted.tally
    assert by_n(MemorySink("aside-losses").rows()) == wanted.losses


def test_two_pipelines_in_one_job(spark, tmp_path: Path) -> None:
    folders, root = Folders(tmp_path, 2), tmp_path / "root"
    folders.add(1, 2)
    job = StreamJob("two-ends", root=str(root), parallelism=2)
    for number, source in enumerate(folders.inputs):
        stream = job.from_stream(source.stream(spark), f"source-{number}")
        counts = stream.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid=f"count-{number}")
        counts.sink_to(MemorySink(f"end-{number}"), uid=f"out-{number}")
    client = run_all(job)
    assert client.spark_jobs == len(client.epochs)
    for number, source in enumerate(folders.inputs):
        assert by_n(MemorySink(f"end-{number}").rows()) == counted(source.all)


LATE = OutputTag("late", "n bigint, k string, sub string, v bigint")
WINDOWS = "k string, start bigint, of string"


class Numbers(WindowFunction[Any, Any, Any, Any]):
    """Emits key, start, and the numbers of the records."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        yield key, window.start, " ".join(str(row.n) for row in inputs)


class Stamp(ProcessFunction):
    """Emits the event time of each record."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, ctx.timestamp()


class Odd(KeyedProcessFunction):
    """Sends odd numbers to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        row = value.n, value.k, value.sub, value.v
        yield (LATE, row) if value.n % 2 else row


def test_both_branches_have_event_times_and_watermarks(spark, tmp_path: Path) -> None:
    source, columns = Input(tmp_path / "in").add_many(2), "n bigint, k string, sub string, v bigint"
    job = StreamJob("timed-branches", root=str(tmp_path / "root"), parallelism=2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("n")
    timed = job.from_stream(source.stream(spark), bounded=True).assign_timestamps_and_watermarks(strategy)
    even = timed.key_by("sub").process(Odd(), columns, uid="split")
    odd = even.get_side_output(LATE)
    for name, branch in (("even", even), ("odd", odd)):
        windows = branch.key_by("k").window(TumblingEventTimeWindows.of(Duration.of_millis(20)))
        windows.apply(Numbers(), WINDOWS, uid=name).sink_to(MemorySink(name), uid=f"{name}-out")
    odd.process(Stamp(), "n bigint, at bigint", uid="stamp").sink_to(MemorySink("stamps"), uid="stamps-out")
    run_all(job)
    for rest, name in enumerate(("even", "odd")):
        wanted: dict[Any, list[int]] = {}
        for row in source.all:
            if row.n % 2 == rest:
                wanted.setdefault((row.k, row.n // 20 * 20), []).append(row.n)
        rows = {(row["k"], row["start"]): row["of"] for row in MemorySink(name).rows()}
        assert len(rows) == len(MemorySink(name).rows())
        assert rows == {window: " ".join(map(str, ns)) for window, ns in wanted.items()}
    assert by_n(MemorySink("stamps").rows()) == [(row.n, row.n) for row in source.all if row.n % 2]
