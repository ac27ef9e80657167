"""Runs `wide` in its own process: `python -m benchmarks.wide_child <case.json>`."""

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.engines.spark import MEMORY
from benchmarks.latency.functions import Count
from benchmarks.wide import ROWS, Form, WideCase, WideRow
from state_engine.api import Aggregate
from state_engine.inspect import read_state
from state_engine.spark import DiscardingSink, StreamJob, local_session

NUMBERS, TEXTS = 15, 11
NARROW = ["k", "file", "v"]
OUTPUT = "k bigint, n bigint, file bigint"


def main(path: str) -> None:
    """Runs all forms in turn, and writes the rows of the report."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=WideCase)
    work = Path(case.work)
    truth = _write(case)
    spark = local_session(
        "benchmark-wide", "2", shuffle_partitions=2, memory=MEMORY, extra={"spark.local.dir": str(work / "local")}
    )
    speeds, right = defaultdict[Form, list[float]](list), defaultdict[Form, bool](lambda: True)
    for number in range(case.rounds):
        for form in case.forms:
            name = f"{form.replace('/', '-')}-{number}"
            speeds[form].append(_run(case, spark, form, name))
            right[form] &= _counts(str(work / "root"), name, form) == truth
    spark.stop()
    rows = [
        WideRow(
            form=form,
            keys=case.keys,
            epoch_records=case.epoch,
            runs=len(speeds[form]),
            records_per_second=round(median(speeds[form])),
            results_equal=right[form],
        )
        for form in case.forms
    ]
    (work / ROWS).write_bytes(msgspec.json.encode(rows))


def _write(case: WideCase) -> dict[int, int]:
    """Writes wide and narrow files with the same records; returns the number of records of each key."""
    dice, counts = np.random.default_rng(1), np.zeros(case.keys, np.int64)
    for kind in ("wide", "narrow"):
        (Path(case.work) / kind).mkdir()
    for epoch in range(case.epochs):
        keys = dice.integers(0, case.keys, case.epoch)
        counts += np.bincount(keys, minlength=case.keys)
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
        pq.write_table(table, Path(case.work) / "wide" / f"e{epoch:04d}.parquet")
        pq.write_table(table.select(NARROW), Path(case.work) / "narrow" / f"e{epoch:04d}.parquet")
    return {key: int(count) for key, count in enumerate(counts) if count}


def _run(case: WideCase, spark: SparkSession, form: Form, name: str) -> float:
    """Runs a form as a job of this name, and returns its records a second."""
    work = Path(case.work)
    folder = str(work / ("narrow" if form.endswith("narrow") else "wide"))
    schema = spark.read.parquet(folder).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    job = StreamJob(name, root=str(work / "root"), parallelism=2, max_parallelism=128)
    keyed = job.from_stream(reader.parquet(folder)).key_by("k")
    if form.startswith("aggregate"):
        results = keyed.aggregate({"n": Aggregate.count(), "total": Aggregate.sum("v")}, uid="count")
    else:
        read = {"row": schema.names, "row/columns": ["file", "v"]}.get(form)
        results = keyed.process(Count(), OUTPUT, columns=read, uid="count")
    results.sink_to(DiscardingSink(), uid="out")
    client = job.start(available_now=True)
    client.await_termination()
    seconds = [epoch.seconds for epoch in client.epochs if epoch.kind == "epoch"][1:]
    return case.epoch * len(seconds) / sum(seconds)


def _counts(root: str, job: str, form: Form) -> dict[int, int]:
    state = read_state(root, job, "count", "count")
    rows: list[dict[str, Any]] = state.select(["k", "value"]).to_pylist()
    return {row["k"]: row["value"] for row in rows}


if __name__ == "__main__":
    main(sys.argv[1])
