"""Dagster resource for a Spark session for bounded work: no JVM before its first use, and none after the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from state_engine.errors import JobDefinitionError

if TYPE_CHECKING:
    from dagster_pyspark import LazyPySparkResource
    from pyspark.sql import SparkSession

    from state_engine.spark import SparkWriter

_OF_THIS_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.pyspark.python")
"""Settings of a local session: with them a cluster could not reach the driver, or its workers would find no Python."""


class SparkSessionResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Provides a session that is created at its first use and ended with the run.

    For runs that end by themselves, such as a canonical savepoint of a large state. A stream has its own session, in
    its driver.

    A session with a master comes from Dagster's `LazyPySparkResource`, which itself never ends one. Workers of a
    cluster need Lakestate installed, as those of streams do.
    """

    master: str | None = Field(default=None, description="Such as local[4] or spark://host:7077. Default: local[2].")
    remote: str | None = Field(
        default=None, description="Address of a Spark Connect server, such as sc://host:15002, in place of a master."
    )
    app_name: str = Field(default="lakestate-dagster", description="Name of the Spark application.")
    config: dict[str, str] = Field(default={}, description="Additional Spark configuration.")

    _lazy: Any = PrivateAttr(default=None)
    _connected: Any = PrivateAttr(default=None)

    @property
    def session(self) -> "SparkSession":
        """The session; the first access creates it.

        Raises:
            JobDefinitionError: Both `master` and `remote` are set, or Spark Connect is not installed.
        """
        if self.master is not None and self.remote is not None:
            raise JobDefinitionError(
                "A Spark session has either a master or a remote server.",
                action="Leave out `master` or `remote` of the resource.",
            )
        if self.remote is not None:
            if self._connected is None:
                self._connected = self._connect(self.remote)
            session: SparkSession = self._connected
        else:
            if self._lazy is None:
                self._lazy = self._wrapped()
            session = self._lazy.spark_session
        return session

    @property
    def is_started(self) -> bool:
        """Whether the session has been created."""
        return self._lazy is not None or self._connected is not None

    def savepoint_writer(self) -> "SparkWriter":
        """Returns the writer that folds large states for canonical savepoints by a Spark job.

        Raises:
            JobDefinitionError: The session is one of Spark Connect, which cannot run such jobs.
        """
        from state_engine.spark import SparkWriter

        if self.remote is not None:
            raise JobDefinitionError(
                "A canonical savepoint cannot be written over Spark Connect, which cannot run Lakestate's tasks.",
                action="Give the resource a `master`.",
            )
        return SparkWriter(self.session)

    def _wrapped(self) -> "LazyPySparkResource":
        from dagster_pyspark import LazyPySparkResource

        from state_engine.spark.session.local import session_settings

        master = self.master or "local[2]"
        settings = session_settings()
        if not master.startswith("local"):
            for name in _OF_THIS_MACHINE:
                del settings[name]
        settings |= {"spark.master": master, "spark.app.name": self.app_name, **self.config}
        return LazyPySparkResource(spark_config=settings)

    def _connect(self, remote: str) -> "SparkSession":
        from pyspark.errors import PySparkImportError
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote(remote).appName(self.app_name)
        for name, value in self.config.items():
            builder = builder.config(name, value)
        try:
            return builder.create()
        except PySparkImportError as error:
            raise JobDefinitionError(
                f"Spark Connect cannot be used here: {error}.", action='Install "pyspark[connect]", or use a `master`.'
            ) from error

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["SparkSessionResource"]:
        """Ends the session after the run, if there is one."""
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the session; the next access creates another one."""
        lazy, self._lazy = self._lazy, None
        connected, self._connected = self._connected, None
        for session in (lazy.spark_session if lazy is not None else None, connected):
            if session is not None:
                session.stop()


__all__ = ["SparkSessionResource"]
