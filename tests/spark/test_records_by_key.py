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


COUNTED = "n bigint, k bigint, count bigint, calls bigint"


@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("heap", marks=pytest.mark.long)])
def test_a_key_has_its_records_in_their_order(spark, tmp_path: Path, backend: str) -> None:
    (tmp_path / "in").mkdir()
    for epoch in range(EPOCHS):
        n = pa.array(range(epoch * RECORDS, (epoch + 1) * RECORDS))
        k = pa.array([number * 7919 % KEYS for number in range(RECORDS)])
        path = tmp_path / "in" / f"{epoch}.parquet"
        pq.write_table(pa.table({"n": n, "k": k}), path)
        os.utime(path, (1_600_000_000 + 10 * epoch,) * 2)
    job = StreamJob(f"by-key-{backend}", root=str(tmp_path / "root"), parallelism=1, state_backend=backend)

    def counted(uid: str, order: list[str]) -> Any:
        reader = spark.readStream.schema("n bigint, k bigint").option("maxFilesPerTrigger", 1)
        keyed = job.from_stream(reader.parquet(str(tmp_path / "in"))).key_by("k", order_by=order)
        counts = keyed.process(Count(), COUNTED, uid=uid)
        counts.sink_to(MemorySink(f"by-key-{uid}"), uid=f"{uid}-out")
        return counts

    counted("free", [])
    counted("ordered", ["n"])
    first = counted("first", [])  # rows for another operator keep their order
    first.key_by("count").process(Count(), COUNTED, uid="second").sink_to(MemorySink("by-key-second"), uid="second-out")
    run_all(job)

    for uid, changed in {"free": KEYS - 1, "ordered": RECORDS - 1, "first": RECORDS - 1}.items():
        rows = sorted((row["n"], row["k"], row["count"], row["calls"]) for row in MemorySink(f"by-key-{uid}").rows())
        assert len(rows) == EPOCHS * RECORDS
        assert all(count == n // KEYS + 1 for n, _, count, _ in rows)
        first = sorted((calls, k) for n, k, _, calls in rows if n < RECORDS)
        assert sum(one[1] != other[1] for one, other in pairwise(first)) == changed, uid
    # The first operator counts in the order of `n`: 5,000 times 1, then 2, …; so the second one counts in that order.
    second = sorted((row["n"], row["count"]) for row in MemorySink("by-key-second").rows())
    assert [count for n, count in second if n < RECORDS] == [n % KEYS + 1 for n in range(RECORDS)]
