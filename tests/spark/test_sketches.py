"""Sketches in jobs, and their states read by Spark's own functions."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support import Input, Record, records, run_all, with_epochs

from state_engine.api import Aggregate
from state_engine.inspect import state_sql
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
AGGREGATES = {
    "different": Aggregate.approx_count_distinct("n"),
    "values": Aggregate.approx_count_distinct("v"),
    "texts": Aggregate.approx_count_distinct("sub"),
    "median": Aggregate.approx_quantile("n", 0.5),
    "high": Aggregate.approx_quantile("v", 0.9),
}


@pytest.mark.long
def test_estimates_go_on_at_other_parallelisms_and_spark_reads_their_state(
    spark: Any, tmp_path: Path, started: Any
) -> None:
    source, root = Input(tmp_path / "in"), tmp_path / "root"

    def job(backend: str, parallelism: int) -> StreamJob:
        for _ in range(2):
            source.add(records(1500, keys=3, seed=len(source.all), first=len(source.all)))
        source.add([Record(len(source.all) + n, "few", "s", n) for n in range(10)])
        made = StreamJob("estimates", root=str(root), parallelism=parallelism, state_backend=backend)
        keyed = made.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        keyed.aggregate(AGGREGATES, uid="estimates").sink_to(MemorySink("estimates"), uid="out")
        return made

    run_all(job("heap", 2), parallelism=2)
    run_all(job("rocksdb", 3), parallelism=3)
    client = with_epochs(started(job("heap", 1).start(trigger_interval_ms=50)), 3, of_input=True)
    client.trigger_checkpoint().result(60)
    client.stop()
    results = {row["k"]: row for row in sorted(MemorySink("estimates").rows(), key=lambda row: row["different"])}
    of_key = defaultdict(list)
    for row in source.all:
        of_key[row.k].append(row)
    assert set(results) == set(of_key)
    for key, own in of_key.items():
        row, values = results[key], sorted(record.v for record in own)
        assert row["different"] == pytest.approx(len(own), rel=0 if key == "few" else 0.08)
        assert row["values"] == len(set(values))
        assert row["texts"] == len({record.sub for record in own})
        assert row["median"] in {record.n for record in own}
        below = sum(record.n <= row["median"] for record in own) / len(own)
        assert below == pytest.approx(0.5, abs=0.04)
        if len(own) <= 200:
            assert row["high"] == values[math.ceil(0.9 * len(values)) - 1]
    assert_read_by_spark(spark, root, source, results)


def assert_read_by_spark(spark: Any, root: Path, source: Input, found: dict[Any, Any]) -> None:
    """Compares Spark's estimates from the state tables with the results, and its own sketches with the stored ones."""

    def ask(state: str, expression: str, more: str = "") -> dict[Any, Any]:
        live = state_sql(str(root), "estimates", "estimates", state, "spark")
        return {row.k: row.r for row in spark.sql(f"SELECT k, {expression} AS r FROM ({live}) {more}").collect()}

    for name, column in (("different", "n"), ("values", "v"), ("texts", "sub")):
        state = f"approx_count_distinct_{column}"
        assert ask(state, "hll_sketch_estimate(value)") == {key: row[name] for key, row in found.items()}
    for name, column, q in (("median", "n", 0.5), ("high", "v", 0.9)):
        asked = ask(f"approx_quantile_{column}", f"kll_sketch_get_quantile_double(value, {q}D)")
        assert asked == {key: row[name] for key, row in found.items()}
    assert ask("approx_quantile_v", "kll_sketch_get_n_double(value)") == {
        key: sum(row.k == key for row in source.all) for key in found
    }
    spark.read.parquet(str(source.folder)).createOrReplaceTempView("read_anew")
    for name, column in (("values", "v"), ("texts", "sub")):  # if Spark hashed differently, a union would have more
        own = f"JOIN (SELECT k AS of, hll_sketch_agg({column}) AS own FROM read_anew GROUP BY k) ON k <=> of"
        united = ask(f"approx_count_distinct_{column}", "hll_sketch_estimate(hll_union(value, own))", own)
        assert united == {key: row[name] for key, row in found.items()}
