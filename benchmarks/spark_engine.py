"""The peers: a running count by Spark's own stateful operators, with the RocksDB state store; and no state at all."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.epochs import PASSED, EpochEnds
from benchmarks.model import PASS_THROUGH, WORKER_MEMORY, Case, Outcome
from state_engine.spark.session import LOCAL_DEFAULTS

DDL_TYPES = {"int": "bigint", "string": "string"}
MEMORY = "2g"
PEER_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Spark's own advice for short batches: upload the changes of a batch, not a snapshot.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
NOT_FOR_PEERS = ("delta", "orderIndependentChecksum")
"""Marks of settings that serve only Lakestate: Delta's tables, and the telling apart of attempts."""


class RunningCount(StatefulProcessor):
    """Counts the records of a key and emits the count with each record."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        held = self.count.get()
        n = held[0] if held is not None else 0
        for _ in rows:
            n += 1
            yield Row(k=key[0], n=n)
        self.count.update((n,))

    def close(self) -> None: ...


def run(case: Case) -> Outcome:
    """Runs one case and reads the state back from Spark's state store."""
    spark = _session(case)
    ends = EpochEnds()
    spark.streams.addListener(ends)
    checkpoint = str(Path(case.work) / "checkpoint")
    query = (
        _operator(case, read_stream(spark, case))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    ended = ends.wait(case.epochs)
    if case.engine == PASS_THROUGH:
        outcome = Outcome(ended, pa.table({"records": [ends.passed]}))
    else:
        outcome = Outcome(ended, _final_counts(spark, case, checkpoint).toArrow())
    spark.stop()
    return outcome


def read_stream(spark: SparkSession, case: Case) -> DataFrame:
    """Returns the input of a case, one epoch's files per batch."""
    schema = f"k {DDL_TYPES[case.key_type]}" + (", v bigint" if case.workload == WORKER_MEMORY else "")
    reader = spark.readStream.schema(schema)
    return reader.option("maxFilesPerTrigger", case.files_per_epoch).parquet(case.inputs)


def _operator(case: Case, records: DataFrame) -> DataFrame:
    if case.engine == "groupBy":
        return records.groupBy("k").count()
    if case.engine == PASS_THROUGH:
        through = records.repartition(case.parallelism, "k").mapInArrow(lambda batches: batches, records.schema)
        return through.observe(PASSED, count(lit(1)).alias(PASSED))
    return records.groupBy("k").transformWithState(
        statefulProcessor=RunningCount(),
        outputStructType=f"k {DDL_TYPES[case.key_type]}, n bigint",
        outputMode="Update",
        timeMode="None",
    )


def _final_counts(spark: SparkSession, case: Case, checkpoint: str) -> DataFrame:
    reader = spark.read.format("statestore")
    if case.engine == "transformWithState":
        return reader.option("stateVarName", "count").load(checkpoint).selectExpr("key.k as k", "value.n as n")
    return reader.load(checkpoint).selectExpr("key.k as k", "value.count as n")


def _session(case: Case) -> SparkSession:
    """The settings of Lakestate's own session wherever they serve any query, and no jars."""
    builder = SparkSession.Builder().master(f"local[{case.parallelism}]").appName(f"benchmark-{case.engine}")
    shared = {k: v for k, v in LOCAL_DEFAULTS.items() if not any(mark in k + v for mark in NOT_FOR_PEERS)}
    settings = {
        **shared,
        **PEER_SETTINGS,
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": str(case.parallelism),
        "spark.driver.memory": MEMORY,
        "spark.local.dir": str(Path(case.work) / "local"),
        "spark.sql.warehouse.dir": str(Path(case.work) / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
