"""Workload `wide`: rows of 30 columns of which an operator reads three, next to files that have only these three.

What is known to be unread is neither read from the files nor sent to the workers: the columns that `process(columns=…)`
leaves out (`row/columns`), that the function's code shows to be unread (`row/shown`), and that no aggregate names.
`row` gets all columns; `…/narrow` reads files that have only what is read.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.data import write_epoch
from benchmarks.forms.counting import OUTPUT, counts_of, epochs_per_second, has_counts, input_of, run_job
from benchmarks.forms.model import FormCase
from benchmarks.latency.functions import Count
from state_engine.api import Aggregate
from state_engine.spark import DiscardingSink, StreamJob

NUMBERS, TEXTS = 15, 11
NARROW = ["k", "file", "v"]


class Wide:
    """Writes wide and narrow files with the same records, and runs a form over one of them."""

    def __init__(self, case: FormCase) -> None:
        self._case = case
        self._work = Path(case.work)
        self.counts = self._written()

    def run(self, spark: SparkSession, form: str, name: str) -> float:
        """See `child.Stream`."""
        records = input_of(spark, self._work / ("narrow" if form.endswith("narrow") else "wide"), files=1)
        job = StreamJob(name, root=str(self._work / "root"), parallelism=2, max_parallelism=128)
        keyed = job.from_stream(records).key_by("k")
        if form.startswith("aggregate"):
            results = keyed.aggregate({"n": Aggregate.count(), "total": Aggregate.sum("v")}, uid="count")
        else:
            read = {"row": records.columns, "row/columns": ["file", "v"]}.get(form)
            results = keyed.process(Count(), OUTPUT, columns=read, uid="count")
        results.sink_to(DiscardingSink(), uid="out")
        return epochs_per_second(run_job(job), self._case)

    def is_right(self, form: str, name: str) -> bool:
        """See `child.Stream`."""
        return has_counts(self._work / "root", name, self.counts)

    def _written(self) -> Any:
        case, dice, counts = self._case, np.random.default_rng(1), np.zeros(self._case.keys, np.int64)
        for epoch in range(case.epochs):
            keys = dice.integers(0, case.keys, case.epoch)
            counts += counts_of(keys, case.keys)
            columns: dict[str, Any] = {
                "k": keys,
                "file": np.full(case.epoch, epoch),
                "v": dice.integers(0, 1_000, case.epoch),
            }
            for number in range(NUMBERS):
                columns[f"number_{number}"] = dice.integers(0, 1 << 40, case.epoch)
            for number in range(TEXTS):
                columns[f"text_{number}"] = [f"text number {one:012d}" for one in dice.integers(0, 1 << 30, case.epoch)]
            point = pa.StructArray.from_arrays([pa.array(keys), pa.array(columns["v"])], ["x", "y"])
            table = pa.table([*map(pa.array, columns.values()), point], names=[*columns, "point"])
            write_epoch(self._work / "wide", epoch, table, 1)
            write_epoch(self._work / "narrow", epoch, table.select(NARROW), 1)
        return counts


__all__ = ["NARROW", "Wide"]
