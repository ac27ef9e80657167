"""Runs the peer Spark: its own stateful operators, in SQL, with the RocksDB state store."""

import os
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from benchmarks.data import write_files
from benchmarks.engines.epochs import EpochEnds
from benchmarks.engines.spark import session
from benchmarks.model import EMITTED, Case, Outcome, Tables
from benchmarks.nexmark.events import COLUMNS
from benchmarks.nexmark.queries import QUERIES, query_of, sql_of
from benchmarks.nexmark.rows import FACTOR, sums
from benchmarks.workloads.workload import CHECKS, checks

SETTINGS = {
    # Rows are compared by 64-bit sums, which overflow.
    "spark.sql.ansi.enabled": "false",
    # After the last record a batch without records emits the remaining rows.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
UNTIMED = ("q3", "q18")
"""Queries that need no watermark."""
REPLACING = "q18"
"""This query updates its rows, so its results are in its state. All others append final rows."""
END_T, END_ID = 4_000_000_000_000, -1
"""Spark's input has no end: an event of each kind in the far future ends it, and is not part of the results."""


def run(case: Case) -> Outcome:
    """Runs one case to the end of its input."""
    spark = session(case, SETTINGS)
    outcome = run_in(spark, case)
    spark.stop()
    return outcome


def run_in(spark: SparkSession, case: Case) -> Outcome:
    """Runs one case in a session with `SETTINGS`."""
    ends, query = EpochEnds(), query_of(case.workload)
    spark.streams.addListener(ends)
    for kind in QUERIES[query].reads:
        _read(spark, case, kind).createOrReplaceTempView(kind)
    rows = spark.sql(sql_of(case.workload, "spark"))
    checkpoint = str(Path(case.work) / "checkpoint")
    result = rows if query == REPLACING else _observed(rows)
    writer = result.writeStream.format("noop").outputMode("update" if query == REPLACING else "append")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    # After the last records more batches emit the remaining rows. These end the input, and do not count.
    return Outcome(ends.wait(case.epochs, more=True), _final(spark, query, checkpoint, ends))


def _read(spark: SparkSession, case: Case, kind: str) -> DataFrame:
    schema = ", ".join(f"{name} bigint" for name in COLUMNS[kind])
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", case.files_per_epoch)
    if query_of(case.workload) in UNTIMED:
        return reader.parquet(str(Path(case.inputs) / kind))
    records = reader.parquet(str(ended(case, kind)))
    return records.withColumn("at", expr("timestamp_millis(t)")).withWatermark("at", "0 seconds")


def ended(case: Case, kind: str) -> Path:
    """Returns a folder with the files of a kind of events, and one more epoch with the event that ends them."""
    folder = Path(case.work) / "inputs" / kind
    folder.mkdir(parents=True)
    for path in (Path(case.inputs) / kind).iterdir():
        os.link(path, folder / path.name)
    columns = COLUMNS[kind]
    last = pa.table({name: pa.array([END_T if name == "t" else END_ID], pa.int64()) for name in columns})
    write_files(folder, case.epochs, [last, *[last.slice(1)] * (case.files_per_epoch - 1)])
    return folder


def _observed(rows: DataFrame) -> DataFrame:
    """Sums the emitted rows in the JVM, as `rows.sums` does."""
    first, *others = rows.columns
    number = first
    for column in others:
        number = f"({number}) * {FACTOR}L + {column}"
    each = ("1L", number, f"({number}) * ({number}) * {first}")
    return rows.observe(EMITTED, *(expr(f"sum({one})").alias(name) for name, one in zip(CHECKS, each, strict=True)))


def _final(spark: SparkSession, query: str, checkpoint: str, ends: EpochEnds) -> Tables:
    """Returns the sums of the emitted rows; if later rows replace earlier ones, of the rows in the state store."""
    if query != REPLACING:
        return {EMITTED: checks(*(ends.observed[name] for name in CHECKS))}
    state = spark.read.format("statestore").load(checkpoint)
    return {EMITTED: sums(state.selectExpr("key.*", "value.valueWithExtremumOrdering", "value.max").toArrow())}


__all__ = ["SETTINGS", "run", "run_in"]
