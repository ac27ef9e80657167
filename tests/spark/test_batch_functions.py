"""Functions over whole batches in jobs of many starts, with the row form before and after."""

from pathlib import Path
from typing import Any

import pytest
from shared_jobs.states import CountBatches
from support import Count, Input, assert_counts, count_job, run_all

from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark


FORMS: list[tuple[Any, int]] = [(CountBatches(), 2), (CountBatches(), 3), (Count(), 2), (CountBatches(), 1)]


@pytest.mark.long  # test_shared_jobs.py has both forms on both backends
@pytest.mark.parametrize(
    ("files", "backends"),
    [
        (1, ["heap", "rocksdb", "rocksdb", "heap"]),
        (2, ["heap"] * 4),
        (2, ["rocksdb"] * 4),
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
