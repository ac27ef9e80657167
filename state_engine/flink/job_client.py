"""`JobClient`, by PyFlink's name: a program that `execute_async` has started."""

import time
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from state_engine.errors import UnsupportedMethodError
from state_engine.flink.differences import JOB_CLIENT, Unlike
from state_engine.flink.results import JobExecutionResult
from state_engine.spark.driver.client import JobClient as SparkJobClient

T = TypeVar("T")


class JobStatus(Enum):
    """Where a job stands. Here it is created, runs, and then is finished, failed or canceled."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Says whether the job has ended for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Says whether the job has ended."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


class CompletableFuture(Generic[T]):
    """What a method of `JobClient` comes to; PyFlink's class of the same name.

    Args:
        wait: Gives the result, or raises what came in its stead.
        is_done: Whether that would return at once.
    """

    def __init__(self, wait: Callable[[], T], is_done: Callable[[], bool]) -> None:
        self._wait = wait
        self._is_done = is_done

    @classmethod
    def completed(cls, value: T) -> "CompletableFuture[T]":
        """Returns one that is done."""
        return cls(lambda: value, lambda: True)

    def done(self) -> bool:
        """Says whether the result is there, or what came in its stead."""
        return self._is_done()

    def result(self) -> T:
        """Waits for the result; raises what came in its stead."""
        return self._wait()

    def exception(self) -> BaseException | None:
        """Returns what came in place of a result; None if there is one, or nothing yet."""
        if not self._is_done():
            return None
        try:
            self._wait()
        except Exception as error:
            return error
        return None

    def cancel(self) -> bool:
        """Returns False: what waits for a job does not stop it. `JobClient.cancel()` does."""
        return False

    def cancelled(self) -> bool:
        """Returns False."""
        return False


class JobClient(Unlike):
    """A running job; PyFlink's class of the same name.

    Args:
        client: The job as Spark runs it.
        name: The job's name.
    """

    _not_there = JOB_CLIENT

    def __init__(self, client: SparkJobClient, name: str) -> None:
        self.client = client
        """The same job as `state_engine.spark.JobClient`, which tells of its epochs and takes checkpoints too."""
        self._name = name
        self._begun = time.monotonic()

    def get_job_id(self) -> str:
        """Returns the name of the job, under which its state lies."""
        return self._name

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Returns where the job stands."""
        return CompletableFuture.completed(JobStatus[self.client.state])

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Returns what the job comes to; waiting for it raises what the job failed with.

        A job that was canceled has a result as well.
        """

        def wait() -> JobExecutionResult:
            self.client.await_termination()
            return JobExecutionResult(self._name, round((time.monotonic() - self._begun) * 1000))

        return CompletableFuture(wait, lambda: self.client.state not in ("CREATED", "RUNNING"))

    def cancel(self) -> CompletableFuture[None]:
        """Ends the job behind the epoch at hand; its checkpoints stay or go as its `CheckpointConfig` says."""
        self.client.cancel()
        return CompletableFuture.completed(None)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint of the newest sealed epoch, and returns its id: a value of `execution.state-recovery.path`.

        Raises:
            UnsupportedMethodError: A directory was given.
        """
        _refuse_directory(savepoint_directory)
        return CompletableFuture.completed(self.client.trigger_savepoint().savepoint_id)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint of what it has come to, whose id is returned; if that fails it runs on.

        Args:
            advance_to_end_of_event_time: End the input first, so that every event-time timer fires.
            savepoint_directory: Not to be given.

        Raises:
            UnsupportedMethodError: A directory was given.
        """
        _refuse_directory(savepoint_directory)
        taken = self.client.stop_with_savepoint(drain=advance_to_end_of_event_time)
        return CompletableFuture.completed(taken.savepoint_id)


def _refuse_directory(savepoint_directory: str | None) -> None:
    if savepoint_directory is not None:
        raise UnsupportedMethodError(
            f"savepoint_directory={savepoint_directory!r}: savepoints lie in the job's folder below the state root.",
            action="Leave it out. A canonical savepoint is one that can be taken elsewhere.",
        )


__all__ = ["CompletableFuture", "JobClient", "JobStatus"]
