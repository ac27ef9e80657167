"""Runs the Spark peers: its own stateful operators, with the RocksDB state store, and a query without state."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, expr, lit, session_window, window
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.spark_processors import HOUR_MS, MapAndList, RunningCount, Sessions
from benchmarks.model import (
    CONTENDERS,
    EMITTED,
    MAP_AND_LIST,
    PASS_THROUGH,
    RUNNING_COUNT,
    SESSIONS,
    TTL,
    WINDOWS,
    WORKER_MEMORY,
    Case,
    Outcome,
    Tables,
)
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.sessions import gap_ms
from benchmarks.workloads.windows import window_ms
from benchmarks.workloads.workload import CHECKS, checks
from state_engine.spark.session.local import LOCAL_DEFAULTS

DDL_TYPES = {"int": "bigint", "string": "string"}
MEMORY = "2g"
PEER_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Spark recommends this for short batches: upload the changes of a batch, not a snapshot.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Batches without records are not epochs, and with a time to live they would never end.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
STORES: Mapping[str, Mapping[str, str]] = {
    # Spark's tuning guide mentions it: counting rows needs a read for each write.
    "groupBy/uncounted": {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"},
    "groupBy/heap": {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        )
    },
}
"""Settings of contenders that keep their state in another way."""
NOT_FOR_PEERS = ("delta", "orderIndependentChecksum")
"""Marks of settings that only Lakestate needs: for Delta tables, and to distinguish attempts."""


class Program(NamedTuple):
    """What an author would write: a processor, its output columns, its time mode."""

    processor: StatefulProcessor
    emits: str
    time_mode: str = "None"


def run(case: Case) -> Outcome:
    """Runs one case and reads the state back from Spark's state store."""
    spark = session(case, STORES.get(case.engine))
    ends = EpochEnds()
    spark.streams.addListener(ends)
    checkpoint = str(Path(case.work) / "checkpoint")
    query = (
        _operator(case, read_stream(spark, case))
        .writeStream.format("noop")
        # Append emits a row when a window is over, as the others do; update emits one per epoch with its records.
        .outputMode("append" if _groups(case) and WORKLOADS[case.workload].timed else "update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    outcome = Outcome(ends.wait(case.epochs), _final(spark, case, checkpoint, ends))
    spark.stop()
    return outcome


def _groups(case: Case) -> bool:
    return CONTENDERS[case.engine].form.startswith("groupBy")


def read_stream(spark: SparkSession, case: Case) -> DataFrame:
    """Returns the input of a case, one epoch's files per batch."""
    columns = {"v": "bigint"} if case.workload == WORKER_MEMORY else WORKLOADS[case.workload].columns
    schema = ", ".join(f"{name} {kind}" for name, kind in {"k": DDL_TYPES[case.key_type], **columns}.items())
    reader = spark.readStream.schema(schema)
    return reader.option("maxFilesPerTrigger", case.files_per_epoch).parquet(case.inputs)


def _operator(case: Case, records: DataFrame) -> DataFrame:
    workload = WORKLOADS[case.workload]
    if workload.timed:
        records = records.withColumn("at", expr("timestamp_millis(t)")).withWatermark("at", "0 seconds")
    if case.workload == WINDOWS:
        return _observed(_windows(records, window_ms(case.keys)), workload.number)
    if _groups(case) and case.workload == SESSIONS:
        return _observed(_sessions(records, gap_ms(case.keys)), workload.number)
    if _groups(case):
        return records.groupBy("k").count()
    if case.engine == PASS_THROUGH:
        through = records.repartition(case.parallelism, "k").mapInArrow(lambda batches: batches, records.schema)
        return through.observe(PASS_THROUGH, count(lit(1)).alias(CHECKS[0]))
    processor, emits, time_mode = _program(case)
    rows = records.groupBy("k").transformWithState(
        statefulProcessor=processor, outputStructType=emits, outputMode="Update", timeMode=time_mode
    )
    return _observed(rows, workload.number) if workload.sums_emitted else rows


def _windows(records: DataFrame, size_ms: int) -> DataFrame:
    """Returns a row for each key and window."""
    grouped = records.groupBy(window("at", f"{size_ms} milliseconds"), "k")
    rows = grouped.agg(count(lit(1)).alias("n"), sum_of("v").alias("total"))
    return rows.selectExpr("k", "unix_millis(window.start) as start", "n", "total")


def _sessions(records: DataFrame, gap: int) -> DataFrame:
    """Returns a row for each session; a record exactly one gap after the last one is in it, as in other engines."""
    grouped = records.groupBy(session_window("at", f"{gap} milliseconds"), "k")
    return grouped.agg(count(lit(1)).alias("n")).select("k", "n")


def _program(case: Case) -> Program:
    return {
        RUNNING_COUNT: Program(RunningCount(), f"k {DDL_TYPES[case.key_type]}, n bigint"),
        MAP_AND_LIST: Program(MapAndList(), "k bigint, item int, n bigint, total bigint"),
        TTL: Program(RunningCount(HOUR_MS), "k bigint, n bigint", "ProcessingTime"),
        SESSIONS: Program(Sessions(gap_ms(case.keys)), "k bigint, n bigint", "EventTime"),
    }[case.workload]


def _observed(rows: DataFrame, number: str) -> DataFrame:
    """Sums the emitted rows in the JVM; in decimals, since Spark's integers do not overflow."""
    each = ("1", number, f"({number}) * ({number}) * k")
    sums = [expr(f"sum(cast({one} as decimal(38, 0)))").alias(name) for name, one in zip(CHECKS, each, strict=True)]
    return rows.observe(EMITTED, *sums)


def _final(spark: SparkSession, case: Case, checkpoint: str, ends: EpochEnds) -> Tables:
    """Reads all states back, and adds the sums that the query observed."""
    workload, reader = WORKLOADS[case.workload], spark.read.format("statestore")
    if case.engine == PASS_THROUGH:
        return {PASS_THROUGH: pa.table({CHECKS[0]: [ends.observed[CHECKS[0]]]})}
    if _groups(case):
        [name] = workload.states
        tables = {name: reader.load(checkpoint).selectExpr(*_columns_of_groups(case)).toArrow()}
    else:
        tables = {name: _flat(reader.option("stateVarName", name).load(checkpoint)) for name in workload.states}
    if workload.sums_emitted:
        tables[EMITTED] = checks(*(ends.observed[name] for name in CHECKS))
    return tables


def _columns_of_groups(case: Case) -> list[str]:
    """Returns the columns to read from the state of `groupBy`."""
    if case.workload == SESSIONS:
        return ["key.k", "value.count", f"unix_millis(value.session_window.end) - {gap_ms(case.keys)}"]
    return ["key.k", "unix_millis(key.window.start)", "value.*"] if case.workload == WINDOWS else ["key.k", "value.*"]


def _flat(state: DataFrame) -> pa.Table:
    """Returns key, user key and value of a state, without the time until which a value lives."""
    columns: list[str] = []
    for outer in state.schema:
        if isinstance(outer.dataType, StructType):
            names = outer.dataType.names
            columns += [f"{outer.name}.value.*"] if "ttlExpirationMs" in names else [f"{outer.name}.*"]
    return state.selectExpr(*columns).toArrow()


def session(case: Case, own: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a session with the settings of Lakestate's session that help any query, and no jars.

    Args:
        case: The case that it runs.
        own: Settings of the workload, which override all others.
    """
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
        **(own or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
