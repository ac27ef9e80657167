"""What the streams of these workloads share: files, one run, and the count of each key."""

from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.data import Longs
from benchmarks.forms.model import FormCase
from state_engine.inspect import read_state
from state_engine.spark import JobClient, StreamJob

PARTS = 2
"""Files of an epoch: Spark gives each to a task."""
OUTPUT = "k bigint, n bigint, file bigint"


def counts_of(records: Longs, keys: int) -> Longs:
    """Returns the number of records of each key, given the keys of records."""
    return np.bincount(records, minlength=keys)


def input_of(spark: SparkSession, folder: Path, files: int = PARTS) -> DataFrame:
    """Returns the files of a folder as a stream with `files` in an epoch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def run_job(job: StreamJob) -> JobClient:
    """Runs a job until its input ends."""
    client = job.start(available_now=True)
    client.await_termination()
    return client


def epochs_per_second(client: JobClient, case: FormCase) -> float:
    """Returns the records a second of all epochs but the first, by the time of the epochs."""
    seconds = [epoch.seconds for epoch in client.epochs if epoch.kind == "epoch"][1:]
    return case.epoch * len(seconds) / sum(seconds)


def batches_per_second(query: StreamingQuery) -> float:
    """Returns the records a second of all batches with records but the first, by the time of Spark's batches."""
    batches = [one for one in query.recentProgress if one["numInputRows"]][1:]
    seconds = sum(float(one["durationMs"]["triggerExecution"]) for one in batches) / 1_000
    return sum(int(one["numInputRows"]) for one in batches) / seconds


def has_counts(root: Path, job: str, counts: Longs) -> bool:
    """Returns whether the state of a job's operator `count` has these counts."""
    state = read_state(str(root), job, "count", "count")
    rows: list[dict[str, Any]] = state.select(["k", "value"]).to_pylist()
    return {row["k"]: row["value"] for row in rows} == {k: int(n) for k, n in enumerate(counts) if n}


__all__ = [
    "OUTPUT",
    "PARTS",
    "batches_per_second",
    "counts_of",
    "epochs_per_second",
    "has_counts",
    "input_of",
    "run_job",
]
