"""`lakestate explain`: shows the parts of a job, without starting Spark."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner, Result

from lakestate.explain import _tree, explain
from state_engine.api import (
    Aggregate,
    CheckpointedFunction,
    CoMapFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StateInitializationContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.errors import JobDefinitionError
from state_engine.spark import DiscardingSink, MemorySink, StreamJob
from state_engine.spark.explain import explain_job
from state_engine.spark.graph.dry import DrySession, NeedsSparkError

NO_JAVA = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nonexistent"}


def test_sources_without_names_get_different_names() -> None:
    """Their names must differ: Dagster's lineage has an asset for each name."""
    job, session = StreamJob("several", root="memory://x"), DrySession()
    streams = [
        job.from_stream(session.readStream.schema("k string").load("/in"), *named) for named in ((), (), ("in",))
    ]
    again = job.from_stream(session.readStream.schema("k string").load("/in"), "in")
    for number, stream in enumerate([*streams, again]):
        stream.map(lambda row: (row.k,), "k string", uid=f"op{number}").sink_to(DiscardingSink(), uid=f"s{number}")
    assert [source.name for source in explain_job(job).sources] == ["source", "source_2", "in", "in_4"]


def lakestate(*arguments: str) -> Result:
    app = Typer()
    app.command()(explain)
    return CliRunner().invoke(app, list(arguments))


def test_the_flights_without_java() -> None:
    command = [sys.executable, "-m", "lakestate.cli", "explain", "flights", "--root", "/tmp/x", "-o", "tables=out"]
    shown = subprocess.run(command, env=NO_JAVA, capture_output=True, text=True, check=False, timeout=120)
    assert shown.returncode == 0, shown.stderr
    lines = [line.strip("│├└─ ") for line in shown.stdout.splitlines()]
    assert lines[:3] == [
        "job flights",
        "parallelism 2, max parallelism 128, root /tmp/x",
        "carrier  Carriers, stage 2, 2 subtasks",
    ]
    assert "input: HASH(tailnum), ordered by event_time, carrier, flight, origin" in lines
    assert "state routes: map of string → bigint" in lines
    assert any(line.startswith("sink no_tailnum of side output no_tailnum: DeltaSink ") for line in lines)
    assert lines[-1] == "source flights: parquet"
    assert not Path("/tmp/x/flights").exists()


def test_as_json() -> None:
    shown = lakestate("flights", "--json")
    plan = json.loads(shown.stdout)
    assert [operator["uid"] for operator in plan["operators"]] == ["aircraft", "carrier"]
    assert [operator["stage"] for operator in plan["operators"]] == [1, 2]
    assert plan["operators"][1]["inputs"][0]["upstream"] == "aircraft"


def test_what_does_not_exist_is_an_error() -> None:
    shown = lakestate("nothing")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "No job is registered as 'nothing'" in shown.stderr


def test_an_option_has_a_value() -> None:
    result = lakestate("flights", "-o", "input")
    assert result.exit_code == 2
    assert "is not name=value" in result.output


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [(value.k, 1)]


def test_several_streams_and_the_operators_between(recwarn: pytest.WarningsRecorder) -> None:
    job, spark = StreamJob("mixed", root="/tmp/x", parallelism=3), DrySession()
    reader = spark.readStream.format("json").option("a", 1).options(b=2)
    one = job.from_stream(reader.schema("k string, v int").load("x"), "one", bounded=True)
    two = job.from_stream(spark.readStream.schema("k string, v int").csv("y"), "two")
    counted = one.union(two).key_by("k").process(Count(), "k string, n bigint", uid="count")
    mapped = counted.map(lambda row: row, "k string, n bigint")
    summed = mapped.key_by("k", order_by=["n"]).sum("n")
    summed.sink_to(MemorySink("m"), uid="out").sink_to(DiscardingSink())
    plan = explain_job(job)
    assert [(source.name, source.kind, source.bounded) for source in plan.sources] == [
        ("one", "json", True),
        ("two", "csv", False),
    ]
    first, last = plan.operators
    assert [(way.upstream, way.is_source, way.ship) for way in first.inputs] == [
        ("one", True, "HASH(k)"),
        ("two", True, "HASH(k)"),
    ]
    assert [(state.name, state.shape, state.type) for state in first.states] == [("count", "value", "bigint")]
    assert last.function == "sum(n)"
    assert last.generated_uid
    assert (last.stage, last.parallelism) == (2, 3)
    assert last.inputs[0].steps == (
        f"map({test_several_streams_and_the_operators_between.__name__}.<locals>.<lambda>)",
    )
    assert last.inputs[0].order_by == ("n",)
    assert [(sink.kind, sink.uid) for sink in last.sinks] == [
        ("MemorySink", "out"),
        ("DiscardingSink", f"{last.uid}.main.1"),
    ]


class Raw(Count, CheckpointedFunction):
    def initialize_state(self, context: StateInitializationContext) -> None:
        assert not [*context.get_raw_keyed_state_inputs(), *context.get_raw_operator_state_inputs()]

    def snapshot_state(self, context: Any) -> None: ...


class Remembered(Count):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("seen", "bigint")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(36)).build())
        self.seen = runtime_context.get_state(descriptor)


def test_a_time_to_live_is_shown() -> None:
    job = StreamJob("ttl", root="/tmp/x")
    stream = job.from_stream(DrySession().readStream.schema("k string").csv("y"))
    stream.key_by("k").process(Remembered(), "k string, n bigint", uid="ttl").sink_to(MemorySink("m"), uid="out")
    console = Console(file=io.StringIO(), width=200)
    explanation = explain_job(job)
    console.print(_tree(explanation))
    assert "state seen: value of bigint, for 1 day, 12:00:00" in console.file.getvalue()
    assert explanation.operators[0].states[0].ttl_ms == 36 * 3_600_000


def test_raw_states_are_shown_as_such() -> None:
    job = StreamJob("raw", root="/tmp/x")
    stream = job.from_stream(DrySession().readStream.schema("k string").csv("y"))
    stream.key_by("k").process(Raw(), "k string, n bigint", uid="raw").sink_to(MemorySink("m"), uid="out")
    console = Console(file=io.StringIO(), width=200)
    console.print(_tree(explain_job(job)))
    lines = [line.strip("│├└─ ") for line in console.file.getvalue().splitlines()]
    assert lines[3:6] == [
        "state count: value of bigint",
        "state _raw_keyed_state: bytes by key group",
        "state _raw_operator_state: bytes in partitions",
    ]


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return None

    def map2(self, value: Any) -> Any:
        return None


def test_two_inputs_have_their_own_keys_and_orders() -> None:
    job, spark = StreamJob("two", root="/tmp/x"), DrySession()
    one, two, three = (job.from_stream(spark.readStream.schema("k string, v int").csv(p), p) for p in "xyz")
    first = one.connect(two.broadcast()).map(Both(), "k string, v int", uid="first")
    keyed = first.connect(three).key_by("k", "k", order_by1=["v"])
    keyed.map(Both(), "k string, v int", uid="second")
    plan = explain_job(job)
    assert [operator.function for operator in plan.operators] == ["map(Both)", "map(Both)"]
    assert [(way.upstream, way.input, way.ship, way.order_by) for op in plan.operators for way in op.inputs] == [
        ("x", 1, "REBALANCE", ()),
        ("y", 2, "BROADCAST", ()),
        ("first", 1, "HASH(k)", ("v",)),
        ("z", 2, "HASH(k)", ()),
    ]


def test_operators_that_share_a_task() -> None:
    job = StreamJob("chained", root="/tmp/x")
    rows = job.from_stream(DrySession().readStream.schema("k string, v int").parquet("x"))
    one = rows.map(lambda row: row, "k string, v int", uid="one").enable_object_reuse()
    two = one.filter(bool, uid="two")
    count = two.key_by("k").process(Count(), "k string, n bigint", uid="count")
    count.filter(bool, uid="apart").disable_chaining()
    plan = explain_job(job)
    assert [(found.chain, found.stage) for found in plan.operators] == [
        (("one", "two"), 1),
        (("one", "two"), 1),
        (("count",), 2),
        (("apart",), 3),
    ]
    assert [found.inputs[0].ship for found in plan.operators] == ["REBALANCE", "FORWARD", "HASH(k)", "REBALANCE"]
    assert [found.strategy for found in plan.operators] == ["always", "always", "always", "never"]
    shown = io.StringIO()
    Console(width=200, file=shown).print(_tree(plan))
    lines = [line.strip("│├└─ ") for line in shown.getvalue().splitlines()]
    assert "two  filter(bool), stage 1, 1 subtasks, one task of one → two" in lines
    assert "input: FORWARD, as objects" in lines
    assert "count  Count, stage 2, 1 subtasks" in lines


def test_declared_operators_say_what_was_declared() -> None:
    job = StreamJob("declared", root="/tmp/x")
    rows = job.from_stream(DrySession().readStream.schema("k string, v int").parquet("x"))
    day = StateTtlConfig.new_builder(Time.days(1)).build()
    once = rows.key_by("k").deduplicate(ttl=day, uid="once")
    once.key_by("k").aggregate({"n": Aggregate.count(), "total": Aggregate.sum("v")}, uid="sums")
    plan = explain_job(job)
    assert [operator.function for operator in plan.operators] == [
        "deduplicate(ttl=86400000 ms)",
        "aggregate(count() as n, sum(v) as total)",
    ]


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_branches_that_meet_again() -> None:
    job = StreamJob("branches", root="/tmp/x")
    rows = job.from_stream(DrySession().readStream.schema("k string, v int").parquet("x"))
    split = rows.process(Split(), "k string, v int", uid="split")
    late = split.get_side_output(OutputTag("late", "k string, v int"))
    split.get_side_output(OutputTag("unread", "k string, v int"))
    count = split.key_by("k").process(Count(), "k string, v int", uid="count")
    other = late.key_by("k").process(Count(), "k string, v int", uid="other")
    meet = count.union(other).key_by("k").process(Count(), "k string, n bigint", uid="meet")
    meet.sink_to(DiscardingSink())
    other.filter(bool, uid="aside")
    plan = explain_job(job)
    assert {found.uid: found.stage for found in plan.operators} == {
        "split": 1,
        "count": 3,
        "other": 3,
        "meet": 5,
        "aside": 5,
    }
    assert [(way.upstream, way.output, way.shared) for found in plan.operators[1:] for way in found.inputs] == [
        ("split", "main", True),
        ("split", "late", True),
        ("count", "main", False),
        ("other", "main", True),
        ("other", "main", True),
    ]
    assert [found.chain for found in plan.operators] == [(found.uid,) for found in plan.operators]
    shown = io.StringIO()
    Console(width=200, file=shown).print(_tree(plan))
    lines = [line.strip("│├└─ ") for line in shown.getvalue().splitlines()]
    assert lines.count("split  Split, stage 1, 1 subtasks") == 1
    assert [lines.count(f"{uid}  as above") for uid in ("split", "other")] == [1, 1]
    assert "input: HASH(k), side output late, by an exchange that several operators read" in lines
    assert [line for line in lines if "without a sink" in line] == ["side output unread, without a sink"]


def dry_stream() -> Any:
    return DrySession().readStream.schema("k string").parquet("p")


@pytest.mark.parametrize(
    "use",
    [
        lambda spark: spark.read,
        lambda spark: spark.readStream.table("t"),
        lambda spark: spark.readStream.parquet("p"),
        lambda _: dry_stream().withColumn("v", None),
        lambda _: StreamJob("j", root="/tmp/x").from_stream(dry_stream()).select("upper(k) as u"),
    ],
)
def test_what_only_spark_knows_is_said(use: Any) -> None:
    with pytest.raises(NeedsSparkError, match="--spark"):
        use(DrySession())


def test_event_time_and_plain_columns_need_no_spark() -> None:
    job = StreamJob("timed", root="/tmp/x")
    rows = job.from_stream(DrySession().readStream.schema("k string, `a b` int, at timestamp").parquet("x"))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at + interval 1 day")
    timed = rows.assign_timestamps_and_watermarks(strategy).where("k <> ''").select("*", "cast(k as bigint) as n")
    renamed = timed.select("K", "`a b` as v", "n")
    assert renamed.columns.ddl() == "struct<k:string,v:int,n:bigint>"
    windowed = renamed.window_all(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(lambda one, _: one, uid="first")
    windowed.sink_to(DiscardingSink(), uid="out")
    [source] = explain_job(job).sources
    assert "at + interval 1 day" in source.event_time


def test_a_column_that_is_not_there_is_said_without_spark() -> None:
    with pytest.raises(JobDefinitionError, match="got the column w; the stream has k"):
        StreamJob("j", root="/tmp/x").from_stream(dry_stream()).select("w")
