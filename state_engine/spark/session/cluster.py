"""A Spark session on a cluster: the settings that executors need, jars, and the interpreter of the Python workers."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlparse

from pyspark import SparkContext
from pyspark.sql import SparkSession

from state_engine.errors import SessionError
from state_engine.spark.jars import connector_jars, delta_jars
from state_engine.spark.session.executors import is_this_machine
from state_engine.spark.session.local import CLUSTER_DEFAULTS, LOCAL_DEFAULTS, driver_options, with_extra

_ENVIRONMENT = "lakestate-environment"
"""Name of the folder in which an executor unpacks the environment that it is sent, below its working directory."""


def cluster_session(
    master: str,
    app_name: str = "lakestate",
    *,
    python: str | None = None,
    environment: str | Path | None = None,
    jars_folder: Path | None = None,
    connectors: Collection[str] = (),
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Returns a session on a cluster that reads and writes Delta.

    A second call with the same master and interpreter returns the session that this process already has.

    Args:
        master: Address of the cluster, as Spark takes it: `spark://host:7077`, `yarn`, `k8s://https://host:443`.
        app_name: Spark's name for the application.
        python: The executors' interpreter, which has Lakestate: a path on their machines. By default that of the
            driver, or of the environment.
        environment: A packed environment (`conda pack`, `venv-pack`) that Spark sends to the executors; a path or an
            address that Spark can read.
        jars_folder: A folder with Delta's jars, for machines without a network.
        connectors: Spark's connectors whose jars the session gets, too: `kafka`.
        extra: Settings that are added to, or replace, those of the session; to `spark.jars` and `spark.archives` they
            are added.

    Raises:
        SessionError: The master is this machine; this process has, or had, a session of another kind; or there is no
            file at the path of the environment.
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    if is_this_machine(master):
        raise SessionError(f"{master!r} is no cluster but this machine.", action="Use local_session().")
    if environment is not None and not urlparse(str(environment)).scheme and not Path(environment).is_file():
        raise SessionError(
            f"There is no packed environment {str(environment)!r}.",
            action="Pack one, for instance by `conda pack -o environment.tar.gz`, and name its file.",
        )
    settings = cluster_settings(python, environment, jars_folder, connectors, extra or {})
    _refuse_another(master, settings)
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _refuse_another(master: str, settings: Mapping[str, str]) -> None:
    """Refuses to go on in a process whose session, or whose JVM, is of another kind."""
    running: Any = SparkContext._active_spark_context
    if running is not None and (running.master, running.pythonExec) != (master, settings["spark.pyspark.python"]):
        raise SessionError(
            f"This process has a session already: master {running.master!r}, interpreter {running.pythonExec!r}.",
            action="Use a new process, or stop a session of the same cluster first.",
        )
    gateway: Any = SparkContext._gateway
    if running is None and gateway is not None:
        host = gateway.jvm.System.getProperty("spark.driver.host")
        if host == LOCAL_DEFAULTS["spark.driver.host"] != settings.get("spark.driver.host"):
            raise SessionError(
                "The JVM of this process keeps the settings of a local session, although that was stopped: executors "
                f"would look for the driver at {host}.",
                action="Use a new process.",
            )


def cluster_settings(
    python: str | None = None,
    environment: str | Path | None = None,
    jars_folder: Path | None = None,
    connectors: Collection[str] = (),
    extra: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Returns all settings of `cluster_session` except the master and the name, for a builder of one's own.

    PySpark takes the interpreter of the executors from the environment: set `PYSPARK_PYTHON` to the value of
    `spark.pyspark.python` first.

    Raises:
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    settings = {
        **CLUSTER_DEFAULTS,
        "spark.jars": ",".join(map(str, [*delta_jars(jars_folder), *connector_jars(connectors, jars_folder)])),
        "spark.driver.extraJavaOptions": driver_options(),
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": python or sys.executable,
        # By default below the JVM's folder for temporary files, on YARN that of the container: too long a name.
        "spark.python.unix.domain.socket.dir": "/tmp",
    }
    if environment is not None:
        settings["spark.archives"] = f"{environment}#{_ENVIRONMENT}"
        settings["spark.pyspark.python"] = python or f"./{_ENVIRONMENT}/bin/python"
    return with_extra(settings, extra)


__all__ = ["cluster_session", "cluster_settings"]
