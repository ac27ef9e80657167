"""Which operators share a task, by the built job. No JVM."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from state_engine.api import CoMapFunction, KeyedProcessFunction, OutputTag, ProcessFunction, WatermarkStrategy
from state_engine.errors import UnsupportedTopologyError
from state_engine.runtime.spec import OperatorSpec
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.driver.startup import _stream_edge
from state_engine.spark.graph.definition import spec_of
from state_engine.spark.graph.dry import DrySession
from state_engine.spark.graph.nodes import chains_of

COLUMNS = "k string, v int"


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [value]


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return [value]


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1


def same(row: Any) -> Any:
    return row


@pytest.fixture
def job() -> StreamJob:
    return StreamJob("j", root="/tmp/x")


def stream_of(job: StreamJob, name: str = "s") -> Any:
    return job.from_stream(DrySession().readStream.schema(COLUMNS).parquet("p"), name)


def keyed(stream: Any, uid: str) -> Any:
    return stream.key_by("k").process(Keyed(), COLUMNS, uid=uid)


def specs_of(job: StreamJob) -> list[OperatorSpec]:
    return [spec_of(node, job.settings) for node in job.operators]


def chains(job: StreamJob) -> list[list[str]]:
    return [[node.uid for node in chain] for chain in chains_of(job.operators)]


def test_what_several_operators_read_is_handed_on_by_an_exchange(job: StreamJob) -> None:
    one = stream_of(job).map(same, COLUMNS, uid="one")
    two = one.filter(bool, uid="two")
    assert chains(job) == [["one", "two"]]
    one.filter(bool, uid="three").map(same, COLUMNS, uid="four")
    assert chains(job) == [["one"], ["two"], ["three", "four"]]
    two.get_side_output(OutputTag("late", COLUMNS)).map(same, COLUMNS, uid="five")
    assert chains(job) == [["one"], ["two"], ["three", "four"], ["five"]]


def test_operators_without_key_after_any_operator(job: StreamJob) -> None:
    mapped = stream_of(job).map(same, COLUMNS, uid="map").filter(bool, uid="filter")
    flat = keyed(mapped, "keyed").process(Plain(), COLUMNS, uid="plain").flat_map(same, COLUMNS, uid="flat")
    keyed(flat, "last")
    assert chains(job) == [["map", "filter"], ["keyed", "plain", "flat"], ["last"]]


@pytest.mark.parametrize(
    "between",
    [
        lambda stream: stream.map(same, COLUMNS),
        lambda stream: stream.broadcast(),
    ],
    ids=["a step", "broadcast"],
)
def test_an_exchange_or_a_step_between_begins_a_task(job: StreamJob, between: Callable[[Any], Any]) -> None:
    between(stream_of(job).map(same, COLUMNS, uid="one")).map(same, COLUMNS, uid="two")
    assert chains(job) == [["one"], ["two"]]


def test_a_watermark_strategy_begins_a_task(job: StreamJob) -> None:
    stream_of(job).map(same, COLUMNS, uid="one").map(same, COLUMNS, uid="two")
    assert chains(job) == [["one", "two"]]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("v")
    two = job.operators[-1]
    two.edges = tuple(replace(edge, strategy=strategy) for edge in two.edges)  # the builder would need Spark for it
    assert chains(job) == [["one"], ["two"]]


def test_several_inputs_begin_a_task_and_others_may_follow(job: StreamJob) -> None:
    one = stream_of(job, "a").map(same, COLUMNS, uid="one")
    two = stream_of(job, "b").map(same, COLUMNS, uid="two")
    united = one.union(two).map(same, COLUMNS, uid="united").map(same, COLUMNS, uid="after")
    three = stream_of(job, "c").map(same, COLUMNS, uid="three")
    united.connect(three).map(Both(), COLUMNS, uid="both").filter(bool, uid="last")
    assert chains(job) == [["one"], ["two"], ["united", "after"], ["three"], ["both", "last"]]


def three(job: StreamJob) -> list[Any]:
    stream, streams = stream_of(job), []
    for uid in ("one", "two", "three"):
        stream = stream.map(same, COLUMNS, uid=uid)
        streams.append(stream)
    return streams


def test_start_new_chain_and_disable_chaining_concern_the_operator_before_them(job: StreamJob) -> None:
    _, two, _ = three(job)
    assert chains(job) == [["one", "two", "three"]]
    assert two.start_new_chain() is two
    assert chains(job) == [["one"], ["two", "three"]]
    assert two.disable_chaining() is two
    assert chains(job) == [["one"], ["two"], ["three"]]


def test_a_job_without_chaining(job: StreamJob) -> None:
    apart = StreamJob("apart", root="/tmp/x", operator_chaining=False)
    _, two, _ = three(apart)
    two.start_new_chain()
    assert chains(apart) == [["one"], ["two"], ["three"]]


def test_columns_are_made_where_they_are_read(job: StreamJob) -> None:
    for stream in three(job):
        stream.enable_object_reuse()
    specs = {spec.uid: (spec.keeps_rows, spec.writes_main) for spec in specs_of(job)}
    assert specs == {"one": (True, False), "two": (True, False), "three": (False, True)}

    with_sinks = StreamJob("with-sinks", root="/tmp/x")
    one, two, _ = three(with_sinks)
    one.enable_object_reuse().sink_to(MemorySink("m"), uid="m")
    two.enable_object_reuse().get_side_output(OutputTag("t", "k string")).sink_to(MemorySink("s"), uid="s")
    specs = {spec.uid: (spec.keeps_rows, spec.writes_main) for spec in specs_of(with_sinks)}
    assert specs == {"one": (True, True), "two": (True, False), "three": (False, True)}
    one.disable_object_reuse()
    two.disable_chaining()
    assert {(spec.keeps_rows, spec.writes_main) for spec in specs_of(with_sinks)} == {(False, True)}


@pytest.mark.parametrize("verb", ["start_new_chain", "disable_chaining", "enable_object_reuse", "disable_object_reuse"])
def test_only_an_operator_can_be_meant(job: StreamJob, verb: str) -> None:
    source = stream_of(job)
    mapped = source.map(same, COLUMNS, uid="one")
    for stream in (source, mapped.map(same, COLUMNS), mapped.get_side_output(OutputTag("t", "k string"))):
        with pytest.raises(UnsupportedTopologyError, match=verb):
            getattr(stream, verb)()


def test_the_driver_knows_which_edges_are_chained(job: StreamJob) -> None:
    one, _, _ = three(job)
    one.disable_chaining()
    edges = [_stream_edge(edge, chained=node.chained) for node in job.operators for edge in node.edges]
    assert [(edge.upstream, edge.chained) for edge in edges] == [(None, False), ("one", False), ("two", True)]
