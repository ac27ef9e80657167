"""Steps between two operators get only records: no control row, and no barrier."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F
from support import Input, Record

from state_engine.api import Duration, OutputTag, ProcessFunction, WatermarkStrategy
from state_engine.errors import UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
SIDE = OutputTag("side", "k string, n bigint")
RECORDS = [Record(n, f"k{n}", "s", 1) for n in range(6)]


class Halves(ProcessFunction):
    """Emits even numbers; all numbers go to a side output."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield SIDE, (value.k, value.n)
        if value.n % 2 == 0:
            yield value.k, value.n


@pytest.fixture
def functions(spark: Any) -> Any:
    """A session with functions that fail for a null, or for a row that is no record."""
    session = spark.newSession()
    session.udf.register("loud", lambda text: text.upper())
    session.udf.register("small", lambda n: n < 4, "boolean")

    @F.pandas_udf("bigint")
    def of_batch(numbers: pd.Series) -> pd.Series:
        if numbers.isna().any():
            raise ValueError("no record has a null")
        return numbers + 1

    session.udf.register("of_batch", of_batch)
    return session


def told(session: Any, tmp_path: Path, name: str) -> tuple[StreamJob, Any]:
    source = Input(tmp_path / "in")
    source.add(RECORDS)
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=2)
    stream = job.from_stream(source.stream(session), bounded=True)
    return job, stream.process(Halves(), "k string, n bigint", uid="halves")


def rows_of(job: StreamJob, stream: Any, columns: str, started: Any) -> list[tuple[Any, ...]]:
    stream.map(lambda row: row, columns, uid="same").sink_to(MemorySink(job.name), uid="out")
    client = started(job.start(available_now=True))
    assert client.await_termination(120)
    assert client.spark_jobs == 1  # of the epoch with records
    return sorted(tuple(row.values()) for row in MemorySink(job.name).rows())


def test_python_is_called_with_records_alone(functions, tmp_path: Path, started) -> None:
    job, halves = told(functions, tmp_path, "python")
    stream = halves.select("loud(k) as k", "n").where("small(n)").select("k", "of_batch(n) as n")
    stream = stream.with_column("more", "n + 1").map(lambda row: (row.k, row.n, row.more), "k string, n int, more int")
    assert rows_of(job, stream, "k string, n int, more int", started) == [("K0", 1, 2), ("K2", 3, 4)]


def test_what_raises_for_nulls_is_not_evaluated_for_marks(functions, tmp_path: Path, started) -> None:
    job, halves = told(functions, tmp_path, "raises")
    stream = halves.select("k", "if(n is null, raise_error('no record'), n) as n", "n + 1 as more", "more + 1 as most")
    stream = stream.where("if(most is null, raise_error('no record'), n < 4)")
    assert rows_of(job, stream, "k string, n bigint, more bigint, most bigint", started) == [
        ("k0", 0, 1, 2),
        ("k2", 2, 3, 4),
    ]


def test_side_outputs_event_times_and_several_readers(functions, tmp_path: Path, started) -> None:
    job, halves = told(functions, tmp_path, "several")
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    timed = halves.get_side_output(SIDE).assign_timestamps_and_watermarks(
        times.with_timestamp_column("of_batch(n)").with_partition_column("loud(k)")
    )
    timed.map(lambda row: row, "k string, n bigint", uid="aside").sink_to(MemorySink("aside"), uid="aside-out")
    assert rows_of(job, halves.where("small(n)"), "k string, n bigint", started) == [("k0", 0), ("k2", 2)]
    assert sorted(row["n"] for row in MemorySink("aside").rows()) == [0, 1, 2, 3, 4, 5]


def test_a_map_after_a_python_function_fails_by_name(functions, tmp_path: Path, started) -> None:
    job, halves = told(functions, tmp_path, "fails")
    stream = halves.where("small(n)").map(lambda row: (1 // (row.n - 2),), "n bigint")
    with pytest.raises(UserFunctionError, match=r"Operator 'halves': .*ZeroDivisionError.*Record: .*n=2"):
        rows_of(job, stream, "n bigint", started)
    assert MemorySink("fails").rows() == []
