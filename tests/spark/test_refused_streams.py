"""Streams and steps that a job may not have are refused by name before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from support import Count, Input

from state_engine.api import ProcessFunction
from state_engine.api.output_tag import OutputTag
from state_engine.errors import (
    DuplicateUidError,
    JobDefinitionError,
    LakestateError,
    SourcesChangedError,
    UnsupportedTopologyError,
    UnsupportedTypeError,
    UnsupportedUpstreamError,
)
from state_engine.spark import DeltaSink, DiscardingSink, MemorySink, StreamJob
from state_engine.spark.graph.sinks import Sink
from state_engine.spark.graph.stream import DataStream

pytestmark = pytest.mark.spark


@pytest.fixture
def source(spark, tmp_path: Path) -> Any:
    return Input(tmp_path / "in").add_many(1).stream(spark)


@pytest.fixture
def job(tmp_path: Path) -> StreamJob:
    return StreamJob("refused", root=str(tmp_path / "root"), parallelism=2)


def with_time(df: Any) -> Any:
    return df.withColumn("t", F.timestamp_seconds("n")).withWatermark("t", "1 minute")


def rows_with_state(df: Any) -> Any:
    return df.groupBy("k").applyInPandasWithState(
        lambda key, pandas, state: iter([]), "k string", "n long", "append", "NoTimeout"
    )


STATEFUL: dict[str, Callable[[Any], Any]] = {
    "dropDuplicates": lambda df: df.dropDuplicates(["k"]),
    "dropDuplicatesWithinWatermark": lambda df: with_time(df).dropDuplicatesWithinWatermark(["k"]),
    "distinct|dropDuplicates": lambda df: df.select("k").distinct(),
    "aggregation": lambda df: df.groupBy("k").count(),
    "join of two streams": lambda df: df.join(df.select("k", F.col("n").alias("m")), "k"),
    "limit": lambda df: df.limit(5),
    "window function": lambda df: df.selectExpr("n", "row_number() over (partition by k order by n) as r"),
    "applyInPandasWithState": rows_with_state,
    "rand": lambda df: df.withColumn("r", F.rand()),
    "uuid": lambda df: df.where(F.expr("uuid() <> k")),
    "randn": lambda df: df.select("n", "k").where("randn() > 0"),
}


@pytest.mark.parametrize("named", STATEFUL)
def test_state_and_chance_before_an_operator(source, job: StreamJob, named: str) -> None:
    with pytest.raises(UnsupportedUpstreamError, match=f"(?i){named}") as caught:
        job.from_stream(STATEFUL[named](source))
    assert caught.value.action


def test_a_join_with_a_static_table_is_fine(spark, source, job: StreamJob) -> None:
    static = spark.createDataFrame([("k1", 1)], "k string, w int").groupBy("k").count()
    assert job.from_stream(source.join(static, "k")).columns.names[-1] == "count"


def test_a_frame_that_is_not_streaming(spark, job: StreamJob) -> None:
    with pytest.raises(UnsupportedUpstreamError, match="not streaming") as caught:
        job.from_stream(spark.range(3))
    assert "readStream" in caught.value.action


@pytest.mark.parametrize("expression", ["rand()", "uuid()"])
def test_chance_between_operators(source, job: StreamJob, expression: str) -> None:
    counted = job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    with pytest.raises(UnsupportedTopologyError, match=expression[:4]):
        counted.with_column("chance", expression)
    with pytest.raises(UnsupportedTopologyError, match=expression[:4]):
        counted.where(f"cast({expression} as string) <> ''")


NOT_ROW_BY_ROW = {
    "explode(array(n, n))": "generator",
    "count(1)": "aggregate",
    "row_number() over (partition by k order by n)": "window function",
}


@pytest.mark.parametrize("expression", NOT_ROW_BY_ROW)
def test_what_is_not_row_by_row_between_operators(source, job: StreamJob, expression: str) -> None:
    counted = job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    named = NOT_ROW_BY_ROW[expression]
    for build in (
        lambda: counted.select(f"{expression} as one"),
        lambda: counted.where(f"{expression} > 1"),
        lambda: counted.with_column("one", expression),
    ):
        with pytest.raises(UnsupportedTopologyError, match=named) as caught:
            build()
        assert caught.value.action


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("wrong", "reason"), [("nonsense", "UNRESOLVED_COLUMN"), ("n +", "PARSE_SYNTAX_ERROR")])
def test_an_expression_that_spark_refuses_is_named_with_the_reason(
    source, job: StreamJob, wrong: str, reason: str, between: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = job.from_stream(source)
    if between:
        stream = stream.key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    for build in (lambda: stream.select(wrong), lambda: stream.where(f"1 < {wrong}")):
        with pytest.raises(JobDefinitionError, match=rf"(select|where)\(.*\): \[{reason}") as caught:
            build()
        assert caught.value.action
    assert "Py4JJavaError" not in capfd.readouterr().err, "frames of Java help no author"


def test_a_generator_before_the_first_operator_is_fine(source, job: StreamJob) -> None:
    assert job.from_stream(source).select("k", "explode(array(n, v)) as each").columns.names == ("k", "each")


@pytest.mark.parametrize("named", ["rand", "uuid"])
def test_chance_in_the_streams_own_select(source, job: StreamJob, named: str) -> None:
    with pytest.raises(LakestateError, match=named):
        job.from_stream(source).select("n", f"{named}() as k")


KEYS = {
    "double": ("cast(v as double) as key", UnsupportedTypeError),
    "float": ("cast(v as float) as key", UnsupportedTypeError),
    "array": ("array(k) as key", UnsupportedTypeError),
    "struct": ("named_struct('k', k) as key", UnsupportedTypeError),
    "collated": ("collate(k, 'UTF8_LCASE') as key", UnsupportedTypeError),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_that_have_no_stable_hash(source, job: StreamJob, kind: str) -> None:
    expression, error = KEYS[kind]
    with pytest.raises(error) as caught:
        job.from_stream(source.selectExpr("n", expression)).key_by("key")
    assert caught.value.action


@pytest.mark.parametrize(
    "name", ["value", "key_group", "namespace", "user_key", "op", "seq", "position", "last_access"]
)
def test_reserved_key_names(source, job: StreamJob, name: str) -> None:
    with pytest.raises(JobDefinitionError, match=name):
        job.from_stream(source.withColumnRenamed("k", name)).key_by(name)


def test_a_key_that_is_no_column(source, job: StreamJob) -> None:
    stream = job.from_stream(source)
    with pytest.raises(JobDefinitionError, match="carrier"):
        stream.key_by("carrier")
    with pytest.raises(JobDefinitionError, match="stamp"):
        stream.key_by("k", order_by=["stamp"])


def test_one_uid_twice(source, job: StreamJob) -> None:
    counted = job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    with pytest.raises(DuplicateUidError, match="'a'"):
        counted.key_by("k").process(Count(), "n bigint", uid="a")
    counted.sink_to(MemorySink("x"), uid="s")
    with pytest.raises(DuplicateUidError, match="'s'"):
        counted.sink_to(MemorySink("y"), uid="s")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MemorySink("x"), MemorySink("x")),
        (DeltaSink("/data/out"), DeltaSink("file:///data/out/")),
        (DeltaSink("/data/out"), DeltaSink("/data/more/../out")),
        (DeltaSink("s3://bucket/out"), DeltaSink("s3a://bucket/out/")),
    ],
)
def test_two_sinks_on_one_table(source, job: StreamJob, one: Sink, other: Sink) -> None:
    counted = job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    counted.sink_to(one, uid="s")
    with pytest.raises(JobDefinitionError, match=r"Sinks 's' and 't' write to one table"):
        counted.sink_to(other, uid="t")
    counted.sink_to(DeltaSink("/data/another"), uid="u")


def test_two_operators_on_one_stream(source, job: StreamJob) -> None:
    stream = job.from_stream(source)
    stream.key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    with pytest.raises(UnsupportedTopologyError, match="Two operators"):
        stream.key_by("sub").process(Count(), "n bigint", uid="b")


def test_functions_of_the_wrong_kind(source, job: StreamJob) -> None:
    class Plain(ProcessFunction):
        def process_element(self, value, ctx):
            return []

    stream = job.from_stream(source)
    with pytest.raises(JobDefinitionError, match="Plain"):
        stream.key_by("k").process(Plain(), "n bigint", uid="a")
    with pytest.raises(JobDefinitionError, match="Count"):
        stream.process(Count(), "n bigint", uid="a")


def test_a_source_that_removes_its_files(spark, tmp_path: Path, job: StreamJob) -> None:
    Input(tmp_path / "in").add_many(1)
    reader = spark.readStream.schema("n bigint, k string").option("cleanSource", "delete")
    with pytest.raises(SourcesChangedError, match="cleanSource"):
        job.from_stream(reader.parquet(str(tmp_path / "in")))
    assert not (tmp_path / "root" / "refused" / "_epochs").exists()


def test_a_sink_without_uid_is_a_warning_and_in_strict_mode_an_error(source, tmp_path: Path, job: StreamJob) -> None:
    def counted(job: StreamJob) -> DataStream:
        return job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="count")

    with pytest.warns(UserWarning, match=r"sink has no uid.*'count\.main\.0'") as caught:
        counted(job).sink_to(MemorySink("x"))
    assert caught[0].filename == __file__
    strict = counted(StreamJob("strict", root=str(tmp_path / "root"), strict=True))
    with pytest.raises(JobDefinitionError, match="sink has no uid") as refused:
        strict.sink_to(MemorySink("x"))
    assert "uid=" in refused.value.action
    strict.sink_to(DiscardingSink()).sink_to(MemorySink("x"), uid="x")  # nothing is stored under the first sink's name


def test_a_missing_uid_is_a_warning_and_in_strict_mode_an_error(source, tmp_path: Path, job: StreamJob) -> None:
    with pytest.warns(UserWarning, match="no uid"):
        job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint")
    strict = StreamJob("strict", root=str(tmp_path / "root"), strict=True)
    with pytest.raises(JobDefinitionError, match="no uid"):
        strict.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint")


def test_nothing_is_added_to_a_job_that_was_started(spark, source, job: StreamJob) -> None:
    """A driver runs the definition that it was given; a later operator would silently be in no epoch."""
    stream = job.from_stream(source).key_by("k").process(Count(), "n bigint, k string, times bigint", uid="a")
    job.start(available_now=True).await_termination(60)
    for add in (
        lambda: job.from_stream(source),
        lambda: stream.map(lambda row: row, "n bigint, k string, times bigint", uid="b"),
        lambda: stream.sink_to(MemorySink("late"), uid="late"),
        lambda: stream.get_side_output(OutputTag("late", "k string")),
        lambda: stream.disable_chaining(),
    ):
        with pytest.raises(JobDefinitionError, match=r"'.*' was started; nothing can be added to it"):
            add()
    job.start(available_now=True).await_termination(60)
