"""Spark's query of a running job, and whether its engine still runs.

After its session was stopped, a query waits for ever and reports that it is active. After its JVM has ended, calls
raise whatever the broken connection gives. Here both are one named error.
"""

import json
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_engine.errors import EpochError, LakestateError, SparkLostError, StopRequestedError

_NO_CONNECTION = (Py4JError, OSError, EOFError)
"""What calls raise when their JVM is gone."""


class RunningQuery:
    """A streaming query.

    No method waits longer than it is told to, or for a JVM that has ended. All may be called from any thread.

    Args:
        query: Spark's own handle.
        session: The session that it belongs to.
        job: Name of the job, for messages.
    """

    def __init__(self, query: Any, session: SparkSession, job: str) -> None:
        self._query = query
        self._session = session
        self._job = job
        self._lost: SparkLostError | None = None

    @property
    def handle(self) -> Any:
        """Spark's own handle."""
        return self._query

    def lost(self) -> SparkLostError | None:
        """Returns the error that the engine is gone; None while it runs. Once gone, it stays gone."""
        if self._lost is None and (why := _why_lost(self._session)) is not None:
            self._lost = SparkLostError(
                f"{why} while job {self._job!r} ran. All that it has sealed is kept.",
                action="Start the job again, with a new session; stop a job before its session "
                "(`client.stop()`, then `spark.stop()`).",
            )
        return self._lost

    def await_end(self, within_s: float) -> bool:
        """Waits for the end of the query and returns whether it has ended, by itself or because it failed.

        Args:
            within_s: Seconds to wait at most, above 0.

        Raises:
            SparkLostError: The engine is gone, so Spark will never report the end.
        """
        try:
            if self._query.awaitTermination(within_s):
                return True
        except PySparkException:  # what it failed with
            return True
        except _NO_CONNECTION:
            if self.lost() is None:
                raise
        if (lost := self.lost()) is not None:
            raise lost
        return False

    @property
    def is_active(self) -> bool:
        """Whether it may begin another batch."""
        try:
            return bool(self._query.isActive) and self.lost() is None
        except _NO_CONNECTION:
            if self.lost() is None:
                raise
            return False

    def failure(self) -> BaseException | None:
        """Returns the query's error as Spark reports it; None if it has not failed, or the engine is gone."""
        try:
            return self.named(error) if (error := self._query.exception()) is not None else None
        except _NO_CONNECTION:
            if self.lost() is None:
                raise
            return None

    def last_progress(self) -> dict[str, Any] | None:
        """Returns the query's last progress as Spark's JSON; None before the first, or without an engine."""
        try:
            progress = self._query.lastProgress
        except _NO_CONNECTION:
            return None
        return dict(json.loads(progress.json)) if progress is not None else None

    def stop(self) -> None:
        """Stops the query and waits for its end; a query without an engine has ended."""
        try:
            self._query.stop()
        except Exception:
            if self.lost() is None:
                raise

    def named(self, error: BaseException) -> BaseException:
        """Returns the error with which a part of the job failed; if the engine is gone, and that is why, its error."""
        names_cause = isinstance(error, LakestateError) and type(error) not in (EpochError, StopRequestedError)
        lost = self.lost() if isinstance(error, Exception) and not names_cause else None
        if lost is None:
            return error
        if lost.__cause__ is None and error is not lost:
            lost.__cause__ = error
        return lost


def _why_lost(session: SparkSession) -> str | None:
    context: Any = session.sparkContext
    try:
        handle = context._jsc  # None after spark.stop()
        if handle is None or handle.sc().isStopped():
            return "The Spark session was stopped"
    except _NO_CONNECTION as error:
        if context._jsc is None:
            return "The Spark session was stopped"
        return f"Spark's JVM has ended, or does not answer ({type(error).__name__}),"
    return None


__all__ = ["RunningQuery"]
