"""Spark's query of a running job, and whether there is still an engine behind it.

A query of a session that was stopped waits for ever and says that it is active. One whose JVM has ended raises whatever
the broken connection gives. Here both are one named error.
"""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from state_engine.errors import EpochError, LakestateError, SparkLostError, StopRequestedError

_NO_CONNECTION = (Py4JError, OSError, EOFError)
"""What calls raise whose JVM is gone."""


class RunningQuery:
    """A streaming query.

    Nothing here waits longer than it is told to, or for a JVM that has ended. From any thread.

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
        """Returns that there is no engine any more; null while there is. Once it is gone it stays so."""
        if self._lost is None and (why := _why_lost(self._session)) is not None:
            self._lost = SparkLostError(
                f"{why} while job {self._job!r} ran. All that it has sealed is kept.",
                action="Start the job again, with a new session; stop a job in front of its session "
                "(`client.stop()`, then `spark.stop()`).",
            )
        return self._lost

    def await_end(self, within_s: float) -> bool:
        """Waits for the end of the query and returns whether it has ended, of itself or because it failed.

        Args:
            within_s: Seconds to wait at most, above 0.

        Raises:
            SparkLostError: Nobody will ever say that it has ended.
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
        """Returns what it failed with as Spark says it; null if it has not, or nobody can say."""
        try:
            return self.named(told) if (told := self._query.exception()) is not None else None
        except _NO_CONNECTION:
            if self.lost() is None:
                raise
            return None

    def stop(self) -> None:
        """Ends it and waits for that; one without an engine has ended."""
        try:
            self._query.stop()
        except Exception:
            if self.lost() is None:
                raise

    def named(self, error: BaseException) -> BaseException:
        """Returns the error that something of the job failed with: that the engine is gone, where that is why."""
        says_why = isinstance(error, LakestateError) and type(error) not in (EpochError, StopRequestedError)
        lost = self.lost() if isinstance(error, Exception) and not says_why else None
        if lost is None:
            return error
        if lost.__cause__ is None and error is not lost:
            lost.__cause__ = error
        return lost


def _why_lost(session: SparkSession) -> str | None:
    context: Any = session.sparkContext
    try:
        handle = context._jsc  # null behind spark.stop()
        if handle is None or handle.sc().isStopped():
            return "The Spark session was stopped"
    except _NO_CONNECTION as error:
        if context._jsc is None:
            return "The Spark session was stopped"
        return f"Spark's JVM has ended, or does not answer ({type(error).__name__}),"
    return None


__all__ = ["RunningQuery"]
