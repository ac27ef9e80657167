"""Steps that are possible between two operators: select, where, with_column and map."""

from pathlib import Path
from typing import Any

import pytest
from support import COUNTS, Count, Input, by_n, counted, newest, run_all

from state_engine.errors import (
    JobDefinitionError,
    LakestateError,
    OutputTypeError,
    UnsupportedTopologyError,
    UserFunctionError,
)
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def mapped_job(spark: Any, source: Input, root: Path, name: str, *functions: Any) -> StreamJob:
    """Builds two operators with maps between them."""
    job = StreamJob(name, root=str(root), parallelism=2)
    stream = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="first")
    for function in functions:
        stream = stream.map(function, COUNTS)
    stream.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="second").sink_to(MemorySink(name), uid="out")
    return job


def fails(job: StreamJob, error: type[LakestateError]) -> str:
    """Runs a job that must fail in its second epoch, and returns the text of its error."""
    client = job.start(available_now=True)
    with pytest.raises(error) as caught:
        client.await_termination(120)
    assert caught.value.action
    assert [e.records for e in client.epochs] == [60]
    assert newest(Path(job.root), job.name).epoch == client.epochs[-1].epoch
    assert client.spark_jobs == 2  # the epoch that failed was not tried again
    client.stop()
    assert isinstance(client.exception, error)  # a stop does not hide the error
    return str(caught.value)


def test_a_map_that_raises_is_named_and_read_again_once_it_is_mended(spark, tmp_path: Path) -> None:
    def divide(row: Any) -> Any:
        return (row.n, row.k, 1 // (row.n - 70))

    source = Input(tmp_path / "in").add_many(2)
    text = fails(mapped_job(spark, source, tmp_path / "root", "map-fails", divide), UserFunctionError)
    assert "divide) on its output raised" in text
    assert "'first'" in text
    assert "ZeroDivisionError" in text
    assert f"n=70, k={source.all[70].k!r}" in text
    assert "row.n - 70" in text  # the line of the author's code

    run_all(mapped_job(spark, source, tmp_path / "root", "map-fails", lambda row: row))
    assert by_n(MemorySink("map-fails").rows()) == counted(source.all)


@pytest.mark.long  # `runtime/test_chain.py` and `epoch/test_chains.py` name the one that failed
def test_the_first_of_two_maps_that_raise_is_reported(spark, tmp_path: Path) -> None:
    def once(row: Any) -> Any:
        if row.n == 70:
            raise ValueError("cannot digest this")
        return row

    def always(row: Any) -> Any:
        if row.n >= 60:
            raise ValueError("a consequence")
        return row

    source = Input(tmp_path / "in").add_many(2)
    text = fails(mapped_job(spark, source, tmp_path / "root", "maps-fail", always, once), UserFunctionError)
    assert "a consequence" in text


@pytest.mark.long  # `runtime/test_output_errors.py`
@pytest.mark.parametrize(
    "wrong", [("not a number", "k", 1), *(pytest.param(row, marks=pytest.mark.long) for row in ((1, "k"), 7))]
)
def test_a_map_that_returns_another_type_than_declared(spark, tmp_path: Path, wrong: Any) -> None:
    source = Input(tmp_path / "in").add_many(2)
    name = f"map-wrong-{type(wrong).__name__}-{len(str(wrong))}"
    job = mapped_job(spark, source, tmp_path / "root", name, lambda row: wrong if row.n == 70 else row)
    text = fails(job, OutputTypeError)
    assert "<lambda>) on its output returned" in text
    assert "'first'" in text
    assert "bigint" in text


def test_steps_that_are_not_possible_there(spark, tmp_path: Path) -> None:
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
