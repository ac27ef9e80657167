"""Columns that an operator does not read are not read from a source, and its records do not have them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import Input, run_all

from state_engine.api import Aggregate, KeyedProcessFunction, Types, ValueStateDescriptor, WatermarkStrategy
from state_engine.errors import JobDefinitionError
from state_engine.spark import MemorySink, StreamJob
from state_engine.spark.graph.dry import DrySession

WIDE = "n bigint, k string, sub string, v bigint"


class Fields(KeyedProcessFunction):
    """Emits the names of the record's fields, the number of the key's records, and the record's event time."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.k, ",".join(value.as_dict()), count, ctx.timestamp(), value.v


def dry_stream() -> Any:
    return StreamJob("j", root="/tmp/x").from_stream(DrySession().readStream.schema(WIDE).parquet("p"))


def columns_of(stream: Any) -> list[str]:
    """Returns the columns of the operator that a stream comes from."""
    [edge] = stream.feeding()
    return list(edge.origin.input.names)


def test_a_function_names_what_it_reads() -> None:
    def processed(**given: Any) -> list[str]:
        keyed = dry_stream().key_by("k", order_by=["n"])
        return columns_of(keyed.process(Fields(), "k string, fields string", uid="f", **given))

    assert processed() == ["n", "k", "sub", "v"], "it has a use of its record that is no attribute"
    assert processed(columns=["v"]) == ["n", "k", "v"]
    assert processed(columns="v") == ["n", "k", "v"]
    assert processed(columns=[]) == ["n", "k"]
    assert processed(columns=["v", "sub", "n"]) == ["n", "k", "sub", "v"]
    with pytest.raises(JobDefinitionError, match="w"):
        processed(columns=["w"])


class Amounts(KeyedProcessFunction):
    """Reads one column."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), value.v


def test_what_a_functions_code_shows_is_read_and_no_more() -> None:
    def processed(stream: Any, **given: Any) -> list[str]:
        return columns_of(stream.key_by("k").process(Amounts(), WIDE, uid="f", **given))

    assert processed(dry_stream()) == ["k", "v"]
    assert processed(dry_stream(), columns=["v", "sub"]) == ["k", "sub", "v"]
    operator = dry_stream().map(lambda row: row, WIDE, uid="m")
    assert processed(operator) == ["n", "k", "sub", "v"]
    tuples = dry_stream().returns(replace(dry_stream().columns, carrier=tuple))
    assert processed(tuples) == ["n", "k", "sub", "v"], "a tuple has all its fields"
    with pytest.raises(JobDefinitionError, match="columns for records of the form"):
        processed(tuples, columns=["v"])


def test_aggregates_of_a_source_name_what_they_read() -> None:
    aggregates = {"total": Aggregate.sum("v"), "records": Aggregate.count()}

    def keyed() -> Any:
        return dry_stream().key_by("k")

    assert columns_of(keyed().aggregate(aggregates, uid="a")) == ["k", "v"]
    assert columns_of(keyed().aggregate(aggregates, changelog=True, uid="a")) == ["k", "v"]
    assert columns_of(keyed().aggregate({"records": Aggregate.count()}, uid="a")) == ["k"]
    with pytest.raises(JobDefinitionError, match="'w'"):
        keyed().aggregate({"total": Aggregate.sum("w")}, uid="a")
    operator = keyed().process(Fields(), WIDE, uid="f")
    assert columns_of(operator.key_by("k").aggregate(aggregates, uid="a")) == ["n", "k", "sub", "v"]


@pytest.mark.spark
def test_only_these_are_read_and_event_times_stay(spark: Any, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    job = StreamJob("reads", root=str(tmp_path / "root"), parallelism=2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("n")
    stream = job.from_stream(source.stream(spark)).assign_timestamps_and_watermarks(strategy)
    output = "k string, fields string, count bigint, at bigint, v bigint"
    stream.key_by("k").process(Fields(), output, columns=["v"], uid="f").sink_to(MemorySink("reads"), uid="out")
    client = run_all(job, parallelism=2)
    rows = MemorySink("reads").rows()
    assert {row["fields"] for row in rows} == {"k,v"}
    assert sorted((row["at"], row["k"], row["v"]) for row in rows) == sorted((r.n, r.k, r.v) for r in source.all)
    assert len({(row["k"], row["count"]) for row in rows}) == len(rows)
    plan = client.query._jsq.explainInternal(False)
    [read] = {line.split("ReadSchema: ")[1] for line in plan.splitlines() if "ReadSchema" in line}
    assert "sub" not in read
    assert "v:bigint" in read
