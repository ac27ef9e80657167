"""A Spark session for one machine, set up for short epochs.

The measurements for these choices are in the architecture page, section 10.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession

from state_engine.spark.jars import connector_jars, delta_jars
from state_engine.spark.session.archive_options import archive_options

LOCAL_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        # Delta tables, by name and by path.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A micro-batch's own floor falls from 82 to 27 ms on a local disk.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Spark's own directory of a job is only read by the query that writes it: a start makes a new one. Spark would
        # keep 100 batches, and the log of a file source for ten minutes: thousands of files with short epochs.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0ms",
        # With more than 32 files in a batch Spark looks at them in a job of its own: a second before the first epoch of
        # a driver that comes back. On a local disk the driver looks at a thousand in a few ms.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        # 50 by default: reading a small Delta table then takes 9.3 s instead of 1.0 s.
        "spark.databricks.delta.snapshotPartitions": "2",
        # Adaptive execution would split an epoch into one job per shuffle; an epoch is one Spark job.
        "spark.sql.adaptive.enabled": "false",
        # Attempts of one task must be told apart when their output differs, and all that read it run again.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
        # Only the number of records limits a batch for Python. With a limit on bytes, Spark adds up the sizes of all
        # columns after each record, which takes longer than everything else that it does for a record.
        # With 2,500 records a row function is as fast, but a function over batches is not.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # A worker keeps the state it holds between epochs.
        "spark.python.worker.reuse": "true",
        # Tasks and workers use Unix sockets: over TCP a short epoch waits 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # Workers are forked from a process with all imports done: the first epoch starts seconds earlier.
        "spark.python.daemon.module": "state_engine.spark.worker.daemon",
        # When a worker dies, the message names the signal, and the Python line of a native crash.
        "spark.python.worker.faulthandler.enabled": "true",
        # Event times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # Nothing listens outside this machine, and a changed host name or a VPN breaks nothing.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # The interface costs memory per job and would take a port; progress bars garble the log.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
)
"""The settings of every local session; `extra` of `local_session` overrides them."""

_OF_ONE_MACHINE = (
    "spark.sql.streaming.checkpointFileManagerClass",  # renames in place: a disk's, not an object store's
    "spark.sql.sources.parallelPartitionDiscovery.threshold",  # likewise
    "spark.databricks.delta.snapshotPartitions",  # for small tables, and other tables on a cluster may be large
    "spark.sql.adaptive.enabled",  # switched off for the batches of a job, wherever it runs
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
)
CLUSTER_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {key: value for key, value in LOCAL_DEFAULTS.items() if key not in _OF_ONE_MACHINE}
)
"""Those of them that a session on a cluster needs too; `cluster_session` has them."""


def local_session(
    app_name: str = "lakestate",
    cores: str | int = "2",
    *,
    jars_folder: Path | None = None,
    shuffle_partitions: int = 2,
    memory: str = "2g",
    connectors: Collection[str] = (),
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns a session on this machine that reads and writes Delta.

    Like every `getOrCreate`, it returns the session that this process already has, if there is one; settings of the
    JVM (memory, jars, cores) then stay as they were.

    Args:
        app_name: Spark's name for the application.
        cores: Number of task slots, or `"*"` for one per core.
        jars_folder: A folder with Delta's jars, for machines without a network.
        shuffle_partitions: `spark.sql.shuffle.partitions`, small because epochs are.
        memory: Heap of the JVM.
        connectors: Spark's connectors whose jars the session gets, too: `kafka`.
        extra: Settings that are added to, or replace, the defaults; to `spark.jars` they are added.

    Raises:
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark looks for a name of this machine, and warns
    builder = SparkSession.Builder().master(f"local[{cores}]").appName(app_name)
    for key, value in session_settings(jars_folder, shuffle_partitions, memory, extra or {}, connectors).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def active_session() -> SparkSession:
    """Returns the session that this process has, or a local one."""
    return SparkSession.getActiveSession() or local_session()


def session_settings(
    jars_folder: Path | None = None,
    shuffle_partitions: int = 2,
    memory: str = "2g",
    extra: Mapping[str, str] = MappingProxyType({}),
    connectors: Collection[str] = (),
) -> dict[str, str]:
    """Returns all settings of `local_session` except the master and the name, for callers that make their own session.

    Raises:
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    settings = {
        **LOCAL_DEFAULTS,
        # The interpreter of the driver, not the first python3 on PATH.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.jars": ",".join(map(str, [*delta_jars(jars_folder), *connector_jars(connectors, jars_folder)])),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": driver_options(),
    }
    settings = with_extra(settings, extra)
    if "spark.sql.warehouse.dir" not in settings:
        settings["spark.sql.warehouse.dir"] = _warehouse()
    return settings


def with_extra(settings: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Returns settings with those of the caller, which replace ours; lists of files are joined."""
    lists = ("spark.jars", "spark.archives")
    joined = {name: f"{settings[name]},{extra[name]}" for name in lists if name in settings and name in extra}
    return {**settings, **extra, **joined}


def driver_options() -> str:
    """Returns Java options of a driver: where the settings of its log are, and the archive of Spark's classes."""
    logging = files("state_engine.spark") / "log4j2.properties"
    return f'-Dlog4j2.configurationFile="{logging}" {archive_options()}'


def _warehouse() -> str:
    """Makes a folder for tables without a path, which would otherwise land in the working directory."""
    folder = tempfile.mkdtemp(prefix="lakestate-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


__all__ = [
    "CLUSTER_DEFAULTS",
    "LOCAL_DEFAULTS",
    "active_session",
    "driver_options",
    "local_session",
    "session_settings",
    "with_extra",
]
