"""Functions over whole batches in jobs: restarts, another parallelism, the row form before and after, chains."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import Count, Input, assert_counts, count_job, run_all

from state_engine.api import KeyedBatchProcessFunction, OutputTag, Types, ValueStateDescriptor
from state_engine.spark import MemorySink

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


@pytest.mark.long  # test_shared_jobs.py has both forms on both backends
@pytest.mark.parametrize(
    ("files", "backends"),
    [
        pytest.param(1, ["heap", "rocksdb", "rocksdb", "heap"], marks=pytest.mark.long),
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
