"""Workload `skew`: keys of which one has a fifth of the records, and keys by Zipf's law, next to uniform ones.

The forms are `<function>/<subtasks>/<keys>`. All records of a key are of one subtask, so a heavy key keeps the others
waiting. With 16 subtasks on two cores other subtasks run meanwhile.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.data import Longs, write_epoch
from benchmarks.engines.lakestate_batches import RunningCountOfBatches
from benchmarks.forms.counting import OUTPUT, PARTS, counts_of, epochs_per_second, has_counts, input_of, run_job
from benchmarks.forms.model import FormCase
from benchmarks.latency.functions import Count
from state_engine.spark import DiscardingSink, StreamJob

KEYS = ("uniform", "one key", "zipf")
SHARE = 0.2
"""Of the records, those of the one key."""
EXPONENT = 1.1


class Skew:
    """Writes files of each kind of keys, and runs a form over one kind."""

    def __init__(self, case: FormCase) -> None:
        self._case = case
        self._work = Path(case.work)
        self.counts = {kind: self._written(kind) for kind in KEYS}

    def run(self, spark: SparkSession, form: str, name: str) -> float:
        """See `child.Stream`."""
        function, subtasks, kind = form.split("/")
        job = StreamJob(name, root=str(self._work / "root"), parallelism=int(subtasks), max_parallelism=128)
        keyed = job.from_stream(input_of(spark, self._work / kind)).key_by("k")
        if function == "row":
            results = keyed.process(Count(), OUTPUT, uid="count")
        else:
            results = keyed.process(RunningCountOfBatches(), "k bigint, n bigint", uid="count")
        results.sink_to(DiscardingSink(), uid="out")
        return epochs_per_second(run_job(job), self._case)

    def is_right(self, form: str, name: str) -> bool:
        """See `child.Stream`."""
        return has_counts(self._work / "root", name, self.counts[form.split("/")[2]])

    def _written(self, kind: str) -> Longs:
        case, dice, counts = self._case, np.random.default_rng(1), np.zeros(self._case.keys, np.int64)
        for epoch in range(case.epochs):
            keys = drawn(dice, kind, case.keys, case.epoch)
            counts += counts_of(keys, case.keys)
            table = pa.table({"k": pa.array(keys), "file": pa.array(np.full(case.epoch, epoch))})
            write_epoch(self._work / kind, epoch, table, PARTS)
        return counts


def drawn(dice: np.random.Generator, kind: str, keys: int, records: int) -> Longs:
    """Returns the keys of records.

    Args:
        dice: Where the numbers come from.
        kind: One of `KEYS`. By Zipf's law the key of rank r has a share in proportion to r ** -1.1.
        keys: Number of keys.
        records: Number of records.
    """
    if kind == "zipf":
        weights = np.arange(1, keys + 1) ** -EXPONENT
        return dice.choice(keys, records, p=weights / weights.sum())
    uniform = dice.integers(0, keys, records)
    return uniform if kind == "uniform" else np.where(dice.random(records) < SHARE, 0, uniform)


__all__ = ["KEYS", "SHARE", "Skew", "drawn"]
