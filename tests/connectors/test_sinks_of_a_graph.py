"""What a job says about sinks in other systems when it is built, and how manifests and `explain` name them."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import Aggregate, KeyedProcessFunction, OutputTag
from state_engine.api.sinks import SinkConnection, SinkName, TransactionalSink, Upsert
from state_engine.errors import JobDefinitionError
from state_engine.log.records import SinkTable
from state_engine.spark import PostgresSink, StreamJob
from state_engine.spark.explain import explain_job
from state_engine.spark.graph.dry import DrySession
from state_engine.spark.graph.nodes import SinkNode, recorded

SIDE = OutputTag("side", "k string, n bigint")


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value.k, value.n


class OwnSink(TransactionalSink):
    @property
    def address(self) -> str:
        return "my queue"

    def connect(self, name: SinkName, columns: pa.Schema | None) -> SinkConnection:
        raise AssertionError("a job that is built connects to nothing")


def rows(job: StreamJob) -> Any:
    return job.from_stream(DrySession().readStream.schema("k string, shop string, n bigint").parquet("x"))


def keyed(*key: str) -> Any:
    return rows(StreamJob("job", root="/tmp/x")).key_by(*key).process(Nothing(), "k string, n bigint", uid="op")


def upserts(*keys: str, **options: Any) -> PostgresSink:
    return PostgresSink("t", "postgresql://h/d", mode="upsert", keys=list(keys), **options)


def test_keys_that_contain_the_key_of_the_operator_are_taken() -> None:
    keyed("k").sink_to(upserts("k"), uid="out")
    keyed("k").sink_to(upserts("n", "k"), uid="out")
    keyed("k").get_side_output(SIDE).sink_to(upserts("k"), uid="out")


def test_rows_that_may_come_from_several_subtasks_need_a_version() -> None:
    for stream, said in (
        (keyed("k", "shop"), "operator 'op' is keyed by k, shop"),
        (keyed("shop"), "operator 'op' is keyed by shop"),
        (rows(StreamJob("job", root="/tmp/x")).map(lambda r: r, "k string, n bigint", uid="op"), "'op' has no key"),
    ):
        with pytest.raises(JobDefinitionError, match=said):
            stream.sink_to(upserts("k"), uid="out")
        stream.sink_to(upserts("k", version_by="n"), uid="out")


def test_an_operator_in_the_same_task_keeps_the_key() -> None:
    mapped = keyed("k").map(lambda row: row, "k string, n bigint", uid="mapped")
    mapped.sink_to(upserts("k"), uid="out")
    with pytest.raises(JobDefinitionError, match="operator 'mapped' is keyed by k"):
        mapped.sink_to(upserts("n"), uid="out-2")


@pytest.mark.parametrize("options", [{"version_by": "x"}, {"op": "x"}], ids=["version_by", "op"])
def test_columns_that_do_not_exist_are_named(options: dict[str, str]) -> None:
    with pytest.raises(JobDefinitionError, match=r"has no column 'x'.*Choose from its columns: k, n"):
        keyed("k").sink_to(upserts("k", **options), uid="out")
    with pytest.raises(JobDefinitionError, match="has no column 'z'"):
        keyed("k").sink_to(upserts("k", "z"), uid="out")


def test_a_changelog_needs_op() -> None:
    stream = rows(StreamJob("job", root="/tmp/x")).key_by("k")
    changes = stream.aggregate({"n": Aggregate.count()}, changelog=True, uid="op")
    with pytest.raises(JobDefinitionError, match=r"is a changelog.*op='op'"):
        changes.sink_to(upserts("k"), uid="out")
    changes.sink_to(upserts("k", op="op"), uid="out")


def test_the_keys_of_a_changelog_are_those_of_its_rows() -> None:
    keyed = rows(StreamJob("job", root="/tmp/x")).key_by("shop")
    best = keyed.top_n(3, by="n", uid="best")
    for keys in (["shop"], ["shop", "k"], ["shop", "rank", "k"]):
        with pytest.raises(JobDefinitionError, match=r"one row for each shop, rank.*keys=\['shop', 'rank'\]"):
            best.sink_to(upserts(*keys, op="op"), uid="out")
    best.sink_to(upserts("rank", "shop", op="op"), uid="out")


def test_how_manifests_and_explain_name_them() -> None:
    job = StreamJob("job", root="/tmp/x")
    stream = rows(job).key_by("k").process(Nothing(), "k string, n bigint", uid="op")
    stream.sink_to(PostgresSink("t", "postgresql://ann@h/d", schema="s"), uid="a").sink_to(OwnSink(), uid="b")
    [operator] = explain_job(job).operators
    assert [(one.uid, one.kind, one.table) for one in operator.sinks] == [
        ("a", "PostgresSink", "h:5432/d/s.t"), ("b", "OwnSink", "my queue"),
    ]  # fmt: skip


def test_the_record_of_a_sink() -> None:
    sink = PostgresSink("t", "postgresql://ann@h/d", schema="s", mode="upsert", keys=["k"])
    known = recorded(SinkNode("a", "main", sink))
    assert known is not None
    assert (known.kind, known.table) == ("postgresql", "h:5432/d/s.t")
    assert known.options["uri"] == "postgresql://ann@h/d"
    assert recorded(SinkNode("b", "main", OwnSink())) == SinkTable(uid="b", kind="custom", table="my queue")
    assert sink.upsert == Upsert(("k",))


def test_two_sinks_of_one_job_on_one_table_are_refused() -> None:
    stream = keyed("k")
    stream.sink_to(PostgresSink("t", "postgresql://ann@h/d"), uid="a")
    with pytest.raises(JobDefinitionError, match=r"write to one table, h:5432/d/public.t"):
        stream.sink_to(PostgresSink("t", "postgresql://bob@h:5432/d"), uid="b")
