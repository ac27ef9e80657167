"""A Spark session on a cluster: the settings that executors need, jars, and the interpreter of the Python workers."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from state_engine.errors import SessionError
from state_engine.spark.jars import connector_jars, delta_jars
from state_engine.spark.session.executors import is_this_machine
from state_engine.spark.session.local import CLUSTER_DEFAULTS, driver_options

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

    A second call with the same master returns the session that this process already has.

    Args:
        master: Address of the cluster, as Spark takes it: `spark://host:7077`, `yarn`, `k8s://https://host:443`.
        app_name: Spark's name for the application.
        python: The executors' interpreter, which has Lakestate: a path on their machines. By default that of the
            driver, or of the environment.
        environment: A packed environment (`venv-pack`, `conda pack`) that Spark sends to the executors; a path or an
            address that Spark can read.
        jars_folder: A folder with Delta's jars, for machines without a network.
        connectors: Spark's connectors whose jars the session gets, too: `kafka`.
        extra: Settings that are added to, or replace, those of the session.

    Raises:
        SessionError: The master is this machine, this process has a session with another master, or the environment is
            a path at which there is no file.
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    if is_this_machine(master):
        raise SessionError(f"{master!r} is no cluster but this machine.", action="Use local_session().")
    if environment is not None and "://" not in str(environment) and not Path(environment).is_file():
        raise SessionError(
            f"There is no packed environment {str(environment)!r}.",
            action="Pack one, for instance by `venv-pack -o environment.tar.gz`, and name its file.",
        )
    running = SparkContext._active_spark_context
    if running is not None and running.master != master:
        raise SessionError(
            f"This process has a session already, with the master {running.master!r}.",
            action="Stop it first, or begin with cluster_session().",
        )
    settings = cluster_settings(python, environment, jars_folder, connectors, extra or {})
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def cluster_settings(
    python: str | None = None,
    environment: str | Path | None = None,
    jars_folder: Path | None = None,
    connectors: Collection[str] = (),
    extra: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Returns all settings of `cluster_session` except the master and the name, for `spark-submit` or a builder.

    Raises:
        JarsUnavailableError: Delta's jars are neither cached nor available.
    """
    settings = {
        **CLUSTER_DEFAULTS,
        "spark.jars": ",".join(map(str, [*delta_jars(jars_folder), *connector_jars(connectors, jars_folder)])),
        "spark.driver.extraJavaOptions": driver_options(),
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": python or sys.executable,
    }
    if environment is not None:
        settings["spark.archives"] = f"{environment}#{_ENVIRONMENT}"
        settings["spark.pyspark.python"] = python or f"./{_ENVIRONMENT}/bin/python"
    return settings | dict(extra)


__all__ = ["cluster_session", "cluster_settings"]
