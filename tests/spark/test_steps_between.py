"""Steps between two operators get only records: no control row, and no barrier."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F
from support import Input, Record, run_all

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


@pytest.fixture(scope="module")
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


def told(session: Any, folder: Path, job: StreamJob, uid: str = "halves") -> Any:
    source = Input(folder / uid)
    source.add(RECORDS)
    return job.from_stream(source.stream(session), bounded=True).process(Halves(), "k string, n bigint", uid=uid)


@pytest.fixture(scope="module")
def rows(functions: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """What is left behind steps of several kinds, in one job; each part has another form of them."""
    folder = tmp_path_factory.mktemp("steps")
    job = StreamJob("steps", root=str(folder / "root"), parallelism=2)

    def halves(uid: str) -> Any:
        return told(functions, folder, job, uid)

    python = halves("python").select("loud(k) as k", "n").where("small(n)").select("k", "of_batch(n) as n")
    python = python.with_column("more", "n + 1").map(lambda row: tuple(row), "k string, n int, more int")
    raises = halves("raises").select("k", "if(n is null, raise_error('no record'), n) as n", "n + 1 as more")
    raises = raises.select("*", "more + 1 as most").where("if(most is null, raise_error('no record'), n < 4)")
    several = halves("several")
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    aside = several.get_side_output(SIDE).assign_timestamps_and_watermarks(
        times.with_timestamp_column("of_batch(n)").with_partition_column("loud(k)")
    )
    found = {
        "python": (python, "k string, n int, more int"),
        "raises": (raises, "k string, n bigint, more bigint, most bigint"),
        "several": (several.where("small(n)"), "k string, n bigint"),
        "aside": (aside, "k string, n bigint"),
    }
    for name, (stream, columns) in found.items():
        same = stream.map(lambda row: row, columns, uid=f"same-{name}")
        same.sink_to(MemorySink(f"steps-{name}"), uid=f"{name}-out")
    client = run_all(job)
    assert client.spark_jobs == 1, "of the epoch with records"
    return {name: sorted(tuple(row.values()) for row in MemorySink(f"steps-{name}").rows()) for name in found}


def test_python_is_called_with_records_alone(rows: dict[str, list[Any]]) -> None:
    assert rows["python"] == [("K0", 1, 2), ("K2", 3, 4)]


def test_what_raises_for_nulls_is_not_evaluated_for_marks(rows: dict[str, list[Any]]) -> None:
    assert rows["raises"] == [("k0", 0, 1, 2), ("k2", 2, 3, 4)]


def test_side_outputs_event_times_and_several_readers(rows: dict[str, list[Any]]) -> None:
    assert rows["several"] == [("k0", 0), ("k2", 2)]
    assert [n for _, n in rows["aside"]] == [0, 1, 2, 3, 4, 5]


def test_a_map_after_a_python_function_fails_by_name(functions, tmp_path: Path) -> None:
    job = StreamJob("fails", root=str(tmp_path / "root"), parallelism=2)
    stream = told(functions, tmp_path, job).where("small(n)").map(lambda row: (1 // (row.n - 2),), "n bigint")
    stream.map(lambda row: row, "n bigint", uid="same").sink_to(MemorySink("fails"), uid="out")
    with pytest.raises(UserFunctionError, match=r"Operator 'halves': .*ZeroDivisionError.*Record: .*n=2"):
        run_all(job)
    assert MemorySink("fails").rows() == []
