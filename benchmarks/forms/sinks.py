"""Workload `sinks`: a stream with no sink to speak of, one Delta table, and six; and Spark, which copies the stream.

The function emits a row for each record. With `six` it emits each to the main output or to one of five side outputs,
which costs time whatever becomes of them. `spark/copy` has neither a function nor state: it writes the records as they
are to a Delta table.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.data import Longs, write_epoch
from benchmarks.engines.lakestate_batches import RunningCountOfBatches
from benchmarks.forms.counting import OUTPUT, PARTS, batches_per_second, counts_of, has_counts, input_of, run_job
from benchmarks.forms.functions import APART, CountApart
from benchmarks.forms.model import FormCase
from benchmarks.latency.functions import Count
from state_engine.spark import DeltaSink, DiscardingSink, StreamJob


class Sinks:
    """Writes files, and runs a form over them."""

    def __init__(self, case: FormCase) -> None:
        self._case = case
        self._work = Path(case.work)
        self.counts = self._written()

    def run(self, spark: SparkSession, form: str, name: str) -> float:
        """See `child.Stream`; the time of Spark's batches includes that of commits."""
        records = input_of(spark, self._work / "in")
        if form == "spark/copy":
            return batches_per_second(self._copy(records, name))
        function, sink = form.split("/")
        job = StreamJob(name, root=str(self._work / "root"), parallelism=2, max_parallelism=128)
        keyed = job.from_stream(records).key_by("k")
        if function == "vectorised":
            results = keyed.process(RunningCountOfBatches(), "k bigint, n bigint", uid="count")
        else:
            results = keyed.process(CountApart() if "six" in sink else Count(), OUTPUT, uid="count")
        outputs = {"out": results}
        if "six" in sink:
            outputs |= {tag.tag_id: results.get_side_output(tag) for tag in APART}
        for uid, rows in outputs.items():
            table = self._work / "tables" / name / uid
            rows.sink_to(DiscardingSink() if sink.endswith("none") else DeltaSink(str(table)), uid=uid)
        client = run_job(job)
        assert client.query is not None
        return batches_per_second(client.query)

    def is_right(self, form: str, name: str) -> bool:
        """See `child.Stream`."""
        if form != "spark/copy" and not has_counts(self._work / "root", name, self.counts):
            return False
        tables = sorted((self._work / "tables" / name).glob("*"))
        if form.endswith("none"):
            return not tables
        rows = pa.concat_tables(DeltaTable(str(table)).to_pyarrow_table() for table in tables)
        return len(tables) == (1 + len(APART) if "six" in form else 1) and is_each_once(
            rows, self.counts, counted=form != "spark/copy"
        )

    def _copy(self, records: DataFrame, name: str) -> StreamingQuery:
        writer = records.writeStream.format("delta").trigger(availableNow=True)
        place = str(self._work / "root" / name)
        query = writer.option("checkpointLocation", place).start(str(self._work / "tables" / name / "out"))
        query.awaitTermination()
        return query

    def _written(self) -> Longs:
        case, dice, counts = self._case, np.random.default_rng(1), np.zeros(self._case.keys, np.int64)
        for epoch in range(case.epochs):
            keys = dice.integers(0, case.keys, case.epoch)
            counts += counts_of(keys, case.keys)
            values = dice.integers(0, 1_000, case.epoch)
            columns = {"k": keys, "file": np.full(case.epoch, epoch), "v": values}
            write_epoch(self._work / "in", epoch, pa.table({n: pa.array(c) for n, c in columns.items()}), PARTS)
        return counts


def is_each_once(rows: pa.Table, counts: Longs, *, counted: bool) -> bool:
    """Returns whether there is a row for each record; and where they are `counted`, whether keys are counted from 1 up.

    Args:
        rows: Column `k`, and `n` if they are counted.
        counts: Number of records of each key.
        counted: Whether each row has the number of its key's records so far.
    """
    if not np.array_equal(np.bincount(rows.column("k").to_numpy(), minlength=len(counts)), counts):
        return False
    if not counted:
        return True
    ordered = rows.select(["k", "n"]).sort_by([("k", "ascending"), ("n", "ascending")])
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return bool(pc.all(pc.equal(ordered.column("n"), pa.array(np.arange(len(rows)) - starts + 1))).as_py())


__all__ = ["Sinks", "is_each_once"]
