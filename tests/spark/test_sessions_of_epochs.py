"""Batches and the epochs between them run in equal sessions: both have the author's functions, views and settings."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import Input, with_epochs

from state_engine.api import ProcessFunction
from state_engine.errors import JobDefinitionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
EXPRESSIONS = (
    "kind",
    "shouted(kind) as shouted",
    "twice_of(n) as twice",
    "n + (select max(id) from three_numbers) as more",
    "date_format(timestamp_millis(n), 'HH') as hour",
)


class Tell(ProcessFunction):
    """Emits a row for each record, and one at the end of the input."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [("batch", 5)]

    def finish(self) -> list[Any]:
        return [("idle", 5)]


@pytest.fixture
def prepared(spark: SparkSession) -> Any:
    """A session of the author, with its own functions, view and setting."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.udf.register("shouted", lambda text: text and text.upper())
    session.sql("create temporary function twice_of(n bigint) returns bigint return 2 * n")
    session.range(3).createOrReplaceTempView("three_numbers")
    return session


def job_of(session: Any, source: Input, root: Path, name: str, *, bounded: bool) -> StreamJob:
    job = StreamJob(name, root=str(root), parallelism=2)
    told = job.from_stream(source.stream(session), bounded=bounded).process(Tell(), "kind string, n bigint", uid="tell")
    told.select(*EXPRESSIONS).map(
        lambda row: row, "kind string, shouted string, twice bigint, more bigint, hour string", uid="same"
    ).sink_to(MemorySink(name), uid="out")
    return job


def test_functions_views_and_settings_are_those_of_the_batches(prepared, spark, tmp_path: Path, started) -> None:
    job = job_of(prepared, Input(tmp_path / "in").add_many(1, rows=1), tmp_path / "root", "alike", bounded=True)
    client = started(job.start(available_now=True))
    prepared.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # too late, for batches and epochs between them
    prepared.catalog.dropTempView("three_numbers")
    assert client.await_termination(120)
    rows = MemorySink("alike").rows()
    assert sorted(row.pop("kind") for row in rows) == ["batch", "idle", "idle"]
    assert rows[0] == {"shouted": "BATCH", "twice": 10, "more": 7, "hour": "19"}
    assert [{**row, "shouted": "BATCH"} for row in rows] == [rows[0]] * 3
    assert {row["shouted"] for row in rows[1:]} == {"IDLE"}


def test_an_idle_epoch_leaves_the_active_session_alone(prepared, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(1, rows=1)
    client = started(
        job_of(prepared, source, tmp_path / "root", "active", bounded=False).start(trigger_interval_ms=100)
    )
    with_epochs(client, 1)
    before = SparkSession.getActiveSession()
    client.run_idle_epoch()
    after = SparkSession.getActiveSession()
    assert (after and after._jsparkSession.equals(before._jsparkSession)) or after is before


def test_a_session_variable_is_refused_by_name(prepared, tmp_path: Path) -> None:
    prepared.sql("declare variable least bigint default 3")
    told = StreamJob("variable", root=str(tmp_path)).from_stream(Input(tmp_path / "in").stream(prepared))
    told = told.process(Tell(), "kind string, n bigint", uid="tell")
    with pytest.raises(JobDefinitionError, match="session variable"):
        told.where("n > least")
    with pytest.raises(JobDefinitionError, match="session variable"):
        told.select("n + least as n")
