"""`JobClient`, with PyFlink's name: a program that `execute_async` has started."""

import time
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from state_engine.errors import UnsupportedMethodError
from state_engine.flink.differences import JOB_CLIENT, PyFlinkCounterpart
from state_engine.flink.results import JobExecutionResult
from state_engine.spark.driver.client import JobClient as SparkJobClient

T = TypeVar("T")


class JobStatus(Enum):
    """The status of a job. Jobs here use only CREATED, RUNNING, and then FINISHED, FAILED or CANCELED."""

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
        """Returns whether the job has ended for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Returns whether the job has ended."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


class CompletableFuture(Generic[T]):
    """The future result of a method of `JobClient`; PyFlink's class of the same name.

    Args:
        wait: Waits for the result and returns it, or raises the error.
        is_done: Whether `wait` would return at once.
    """

    def __init__(self, wait: Callable[[], T], is_done: Callable[[], bool]) -> None:
        self._wait = wait
        self._is_done = is_done

    @classmethod
    def completed(cls, value: T) -> "CompletableFuture[T]":
        """Returns a future that is done."""
        return cls(lambda: value, lambda: True)

    def done(self) -> bool:
        """Returns whether there is a result or an error."""
        return self._is_done()

    def result(self) -> T:
        """Waits for the result and returns it, or raises the error."""
        return self._wait()

    def exception(self) -> BaseException | None:
        """Returns the error; None if there is a result, or nothing yet."""
        if not self._is_done():
            return None
        try:
            self._wait()
        except Exception as error:
            return error
        return None

    def cancel(self) -> bool:
        """Returns False: a future does not stop its job. `JobClient.cancel()` does."""
        return False

    def cancelled(self) -> bool:
        """Returns False."""
        return False


class JobClient(PyFlinkCounterpart):
    """A running job; PyFlink's class of the same name.

    Args:
        client: The client of the Spark job.
        name: The job's name.
    """

    _unsupported = JOB_CLIENT

    def __init__(self, client: SparkJobClient, name: str) -> None:
        self.client = client
        """The same job as `state_engine.spark.JobClient`, which also reports epochs and takes checkpoints."""
        self._name = name
        self._begun = time.monotonic()

    def get_job_id(self) -> str:
        """Returns the name of the job, under which its state is stored."""
        return self._name

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Returns the status of the job."""
        return CompletableFuture.completed(JobStatus[self.client.state])

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Returns the future result of the job; its `result()` raises the error with which the job failed.

        A canceled job has a result too.
        """

        def wait() -> JobExecutionResult:
            self.client.await_termination()
            return JobExecutionResult(self._name, round((time.monotonic() - self._begun) * 1000))

        return CompletableFuture(wait, lambda: self.client.state not in ("CREATED", "RUNNING"))

    def cancel(self) -> CompletableFuture[None]:
        """Ends the job after the current epoch; `CheckpointConfig` decides whether checkpoints are kept or deleted."""
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
        """Stops the job with a savepoint of its last state, and returns the savepoint's id; if that fails, it runs on.

        Args:
            advance_to_end_of_event_time: End the input first, so that every event-time timer fires.
            savepoint_directory: Must be None.

        Raises:
            UnsupportedMethodError: A directory was given.
        """
        _refuse_directory(savepoint_directory)
        taken = self.client.stop_with_savepoint(drain=advance_to_end_of_event_time)
        return CompletableFuture.completed(taken.savepoint_id)


def _refuse_directory(savepoint_directory: str | None) -> None:
    if savepoint_directory is not None:
        raise UnsupportedMethodError(
            f"savepoint_directory={savepoint_directory!r}: savepoints are in the job's folder below the state root.",
            action="Remove it. To move a savepoint elsewhere, take a canonical one.",
        )


__all__ = ["CompletableFuture", "JobClient", "JobStatus"]
