"""What may stand between two operators: select, where, with_column and map."""

from pathlib import Path
from typing import Any

import pytest
from support import COUNTS, Count, Input, by_n, counted, run_all

from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def test_all_of_them_in_one_job(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(3)
    job = StreamJob("between", root=str(tmp_path / "root"), parallelism=3)
    first = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="first")
    second = (
        first.where("times % 2 = 0")
        .with_column("half", "times div 2")
        .select("n", "half", "concat('h', half % 3) as k")
        .map(lambda row: (row.n, row.k.upper(), row.half + 1), "n bigint, k string, half bigint")
        .where("k <> 'H9'")
        .key_by("k", order_by=["n"])
        .process(Count(), COUNTS, uid="second")
    )
    second.sink_to(MemorySink("between"))
    run_all(job)
    seen: dict[str, int] = {}
    expected = []
    for n, _, times in counted(source.all):
        if times % 2 == 0:
            k = f"H{times // 2 % 3}"
            seen[k] = seen.get(k, 0) + 1
            expected.append((n, k, seen[k]))
    assert by_n(MemorySink("between").rows()) == expected


def test_in_front_of_the_first_operator(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("front", root=str(tmp_path / "root"), parallelism=2)
    stream = job.from_stream(source.stream(spark)).where("v > 50").with_column("k", "sub").select("n", "k")
    stream.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count").sink_to(MemorySink("front"))
    run_all(job)
    rows = [row._replace(k=row.sub) for row in source.all if row.v > 50]
    assert by_n(MemorySink("front").rows()) == counted(rows)


def test_a_condition_that_lets_nothing_through_still_ends_the_epoch(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("dammed", root=str(tmp_path / "root"), parallelism=2)
    first = job.from_stream(source.stream(spark)).key_by("k").process(Count(), COUNTS, uid="first")
    dammed = (
        first.where("times is null").map(lambda row: row, COUNTS).key_by("k").process(Count(), COUNTS, uid="second")
    )
    dammed.sink_to(MemorySink("dammed"))
    client = run_all(job)
    assert len(client.epochs) == 2
    assert MemorySink("dammed").rows() == []


def test_a_map_that_raises_ends_the_job_and_the_position_stays(spark, tmp_path: Path) -> None:
    def divide(row: Any) -> Any:
        return (row.n, row.k, 1 // (row.n - 70))

    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("map-fails", root=str(tmp_path / "root"), parallelism=2)
    first = job.from_stream(source.stream(spark)).key_by("k").process(Count(), COUNTS, uid="first")
    first.map(divide, COUNTS).key_by("k").process(Count(), COUNTS, uid="second").sink_to(MemorySink("map-fails"))
    client = job.start(available_now=True)
    with pytest.raises(Exception, match=r"ZeroDivisionError|division"):
        client.await_termination(120)
    assert len(client.epochs) == 1


def test_what_cannot_stand_there(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(1)
    job = StreamJob("misplaced", root=str(tmp_path / "root"))
    stream = job.from_stream(source.stream(spark))
    with pytest.raises(UnsupportedTopologyError):
        stream.map(lambda row: row, "n bigint")
    with pytest.raises(UnsupportedTopologyError):
        stream.sink_to(MemorySink("misplaced"))
    first = stream.key_by("k").process(Count(), COUNTS, uid="first")
    with pytest.raises(UnsupportedTopologyError):
        first.where("n > 1").sink_to(MemorySink("misplaced"))
    with pytest.raises(Exception, match="nonsense"):
        first.select("nonsense")
    with pytest.raises(JobDefinitionError, match="no sink"):
        first.sink_to("a path")  # type: ignore[arg-type]
