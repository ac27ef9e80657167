"""Functions over whole batches in jobs: restarts, another parallelism, the row form before and after, chains."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import COUNTS, Count, Input, assert_counts, by_n, count_job, run_all

from state_engine.api import KeyedBatchProcessFunction, OutputTag, Types, ValueStateDescriptor
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
LATER = OutputTag("later", "n bigint")


class CountBatches(KeyedBatchProcessFunction):
    """Counts as `Count` does."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> Any:
        times = pc.add(pc.fill_null(self.count.get_many(keys), 0), pa.array(keys.running_counts()))
        self.count.put_many(keys, times)
        rows = pa.table({"times": times, "n": batch.column("n"), "k": batch.column("k")})
        return [rows, (LATER, rows.filter(pc.greater(rows["times"], 1)).select(["n"]))]


FORMS: list[tuple[Any, int]] = [(CountBatches(), 2), (CountBatches(), 3), (Count(), 2), (CountBatches(), 1)]


@pytest.mark.parametrize(
    ("files", "backends"),
    [
        (1, ["heap", "rocksdb", "rocksdb", "heap"]),
        pytest.param(2, ["heap"] * 4, marks=pytest.mark.long),
        pytest.param(2, ["rocksdb"] * 4, marks=pytest.mark.long),
    ],
    ids=["both", "heap", "rocksdb"],
)
def test_restarts_another_parallelism_and_the_other_form(
    spark: Any, tmp_path: Path, files: int, backends: list[str]
) -> None:
    source, sink = Input(tmp_path / "in"), MemorySink("forms")
    for (function, parallelism), backend in zip(FORMS, backends, strict=True):
        source.add_many(files)
        job = count_job(
            source.stream(spark), tmp_path / "root", "forms", sink, function, state_backend=backend,
            parallelism=parallelism,
        )  # fmt: skip
        run_all(job, parallelism=parallelism)
        assert_counts(tmp_path / "root", "forms", source.all)


def test_outputs_and_chained_functions(spark: Any, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(3)
    job = StreamJob("chained", root=str(tmp_path / "root"), parallelism=2)
    keyed = job.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
    counted = keyed.process(CountBatches(), COUNTS, uid="count")
    counted.map(lambda row: (row.n, 2 * row.times), "n bigint, twice bigint", uid="twice").sink_to(
        MemorySink("twice"), uid="twice-out"
    )
    counted.get_side_output(LATER).sink_to(MemorySink("later"), uid="later-out")
    run_all(job)
    seen: Counter[Any] = Counter()
    twice, later = [], []
    for row in sorted(source.all):
        seen[row.k] += 1
        twice.append((row.n, 2 * seen[row.k]))
        later.extend([(row.n,)] * (seen[row.k] > 1))
    assert by_n(MemorySink("twice").rows()) == twice
    assert by_n(MemorySink("later").rows()) == later
