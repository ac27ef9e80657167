"""The streams of `latency` and `failover`: a count for each key, or a copy, from a folder of files to a Delta table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from benchmarks.engines.spark import MEMORY, PEER_SETTINGS
from benchmarks.latency.functions import Count, CountProcessor
from benchmarks.latency.model import Engine
from state_engine.api import EmbeddedRocksDBStateBackend, HashMapStateBackend
from state_engine.spark import DeltaSink, JobClient, StreamJob, local_session

OUTPUT = "k bigint, n bigint, file bigint"


class Running(NamedTuple):
    """A stream that runs.

    Attributes:
        query: Spark's query.
        stop: What stops it.
        client: Of Lakestate's job.
    """

    query: Any
    stop: Callable[[], None]
    client: JobClient | None = None


def session_for(engine: Engine, work: Path) -> SparkSession:
    """Returns a session for two subtasks.

    Args:
        engine: What runs in it.
        work: Folder for what Spark spills.
    """
    extra = {"spark.local.dir": str(work / "local"), "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    if engine == "spark/transformWithState":
        extra |= PEER_SETTINGS
    return local_session("benchmark-latency", "2", shuffle_partitions=2, memory=MEMORY, extra=extra)


def start(engine: Engine, work: Path, spark: SparkSession, trigger_interval_ms: int = 0) -> Running:
    """Starts the stream of an engine, or starts it again where it ended.

    Args:
        engine: What runs.
        work: Folder with the input in `in`; `table`, state and Spark's directory are in it too.
        spark: Its session.
        trigger_interval_ms: Of Lakestate.
    """
    stream = spark.readStream.schema("k bigint, file bigint").parquet(str(work / "in"))
    table = str(work / "table")
    if engine.startswith("lakestate"):
        backend = EmbeddedRocksDBStateBackend() if engine.endswith("rocksdb") else HashMapStateBackend()
        if isinstance(backend, EmbeddedRocksDBStateBackend):
            backend.set_db_storage_paths(str(work / "rocksdb"))
        job = StreamJob("latency", root=str(work / "root"), parallelism=2, max_parallelism=128, state_backend=backend)
        counts = job.from_stream(stream).key_by("k").process(Count(), OUTPUT, uid="count")
        counts.sink_to(DeltaSink(table), uid="out")
        client = job.start(trigger_interval_ms=trigger_interval_ms)
        return Running(client.query, client.stop, client)
    if engine == "spark/transformWithState":
        stream = stream.groupBy("k").transformWithState(
            statefulProcessor=CountProcessor(),
            outputStructType=OUTPUT,
            outputMode="Append",  # Delta takes no updates
            timeMode="None",
        )
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(work / "checkpoint"))
    query = writer.outputMode("append").start(table)
    return Running(query, query.stop)


__all__ = ["OUTPUT", "Running", "session_for", "start"]
