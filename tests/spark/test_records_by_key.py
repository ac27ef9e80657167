"""Records of large epochs reach a function key by key, but only if the author gives no order."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import run_all

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
EPOCHS, RECORDS, KEYS = 2, 30_000, 5_000


class Count(KeyedProcessFunction):
    """Emits how many records of the same key came so far, and how many records of all keys."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.calls = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.calls += 1
        yield value.n, value.k, count, self.calls


@pytest.mark.parametrize(
    ("order", "backend"),
    [
        pytest.param([], "rocksdb", id="free-rocksdb"),
        pytest.param(["n"], "heap", id="ordered-heap"),
        pytest.param([], "heap", id="free-heap", marks=pytest.mark.long),
        pytest.param(["n"], "rocksdb", id="ordered-rocksdb", marks=pytest.mark.long),
    ],
)
def test_a_key_has_its_records_in_their_order(spark, tmp_path: Path, backend: str, order: list[str]) -> None:
    (tmp_path / "in").mkdir()
    for epoch in range(EPOCHS):
        n = pa.array(range(epoch * RECORDS, (epoch + 1) * RECORDS))
        k = pa.array([number * 7919 % KEYS for number in range(RECORDS)])
        path = tmp_path / "in" / f"{epoch}.parquet"
        pq.write_table(pa.table({"n": n, "k": k}), path)
        os.utime(path, (1_600_000_000 + 10 * epoch,) * 2)
    stream = spark.readStream.schema("n bigint, k bigint").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    name = f"by-key-{backend}-{len(order)}"
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=1, state_backend=backend)
    counted = (
        job.from_stream(stream)
        .key_by("k", order_by=order)
        .process(Count(), "n bigint, k bigint, count bigint, calls bigint", uid="count")
    )
    counted.sink_to(MemorySink(name), uid="out")
    run_all(job)

    rows = sorted((row["n"], row["k"], row["count"], row["calls"]) for row in MemorySink(name).rows())
    assert len(rows) == EPOCHS * RECORDS
    assert all(count == n // KEYS + 1 for n, _, count, _ in rows)
    first = sorted((calls, k) for n, k, _, calls in rows if n < RECORDS)
    changes = sum(one[1] != other[1] for one, other in pairwise(first))
    assert changes == (RECORDS - 1 if order else KEYS - 1)


def test_rows_for_another_operator_keep_their_order(spark, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"n": range(RECORDS), "k": [number * 7919 % KEYS for number in range(RECORDS)]})
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    stream = spark.readStream.schema("n bigint, k bigint").parquet(str(tmp_path / "in"))
    job = StreamJob("by-key-second", root=str(tmp_path / "root"), parallelism=1)
    columns = "n bigint, k bigint, count bigint, calls bigint"
    counted = job.from_stream(stream).key_by("k").process(Count(), columns, uid="count")
    counted.key_by("count").process(Count(), columns, uid="second").sink_to(MemorySink("by-key-second"), uid="out")
    run_all(job)
    # The first operator counts in the order of `n`: 5,000 times 1, then 2, …; so the second one counts in that order.
    rows = sorted((row["n"], row["count"]) for row in MemorySink("by-key-second").rows())
    assert [count for _, count in rows] == [n % KEYS + 1 for n in range(RECORDS)]
