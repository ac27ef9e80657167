"""Asking the process that runs a job, as its runner has published it."""

import time
from typing import NamedTuple

import msgspec

from lakestate.commands.common import JobNotRunningError
from lakestate.control import RunnerUnreachableError, fetch, find_endpoint, read_endpoint
from lakestate.rest.bodies import (
    FailureCause,
    KeyGroupsRestore,
    KeyGroupsResult,
    PlainResult,
    SavepointResult,
    Triggered,
)
from lakestate.rest.ids import job_id
from state_engine.errors import LakestateError
from state_engine.savepoint.group_report import KeyGroupRestore

_POLL_S = 0.1


class OperationFailedError(LakestateError):
    """The job was asked for something, and it came to nothing."""


class Process(NamedTuple):
    """What may be told of a job's process: the token is not among it."""

    url: str
    pid: int
    incarnation: str


def process_of(root: str, job: str) -> Process | None:
    """Returns the process of this machine that holds a job, without asking it; null if there is none."""
    found = read_endpoint(root, job)
    return Process(found.url, found.pid, found.incarnation) if found is not None else None


class RunningJob:
    """A job that a process of this machine runs.

    Args:
        root: Of the storage.
        job: Name of the job.

    Raises:
        JobNotRunningError: No process of this machine does.
        RunnerUnreachableError: It lives, and does not answer.
    """

    def __init__(self, root: str, job: str) -> None:
        found = find_endpoint(root, job)
        if found is None:
            raise JobNotRunningError(
                f"No process of this machine runs job {job!r} under {root}.",
                action="Check root and name (`lakestate list`). A job that runs elsewhere is asked there, or by its "
                "REST server.",
            )
        self._root, self._job, self._endpoint = root, job, found
        self._path = f"/jobs/{job_id(job)}"

    def cancel(self) -> None:
        """Asks it to end after the epoch at hand."""
        self._fetch(self._path, method="PATCH")

    def operate(self, path: str, *, method: str = "POST", body: msgspec.Struct | None = None) -> str | None:
        """Begins an operation and waits for its end.

        Args:
            path: Below that of the job.
            method: Of the route.
            body: What is sent.

        Returns:
            The location of a savepoint, null for operations without one.

        Raises:
            OperationFailedError: It came to nothing; the job goes on.
            RunnerUnreachableError: The process is gone, or does not answer.
        """
        answer = self._fetch(f"{self._path}/{path}", method=method, body=body)
        path = path.partition("?")[0]
        # The result of an end with a savepoint is asked for as that of a savepoint.
        results = "savepoints" if path == "stop" else path
        request_id = msgspec.json.decode(answer, type=Triggered).request_id
        kind: type[SavepointResult] | type[PlainResult] = SavepointResult if results == "savepoints" else PlainResult
        while True:
            result = msgspec.json.decode(self._fetch(f"{self._path}/{results}/{request_id}"), type=kind)
            if result.operation is not None:
                break
            time.sleep(_POLL_S)
        if result.operation.failure_cause is not None:
            raise _failed(result.operation.failure_cause)
        return getattr(result.operation, "location", None)

    def restore_key_groups(self, body: KeyGroupsRestore) -> KeyGroupRestore:
        """Takes key groups or keys back, between two epochs, and waits for it; errors are those of `operate`."""
        answer = self._fetch(f"{self._path}/key-groups", method="POST", body=body)
        request_id = msgspec.json.decode(answer, type=Triggered).request_id
        while True:
            found = self._fetch(f"{self._path}/key-groups/{request_id}")
            operation = msgspec.json.decode(found, type=KeyGroupsResult).operation
            if operation is not None:
                break
            time.sleep(_POLL_S)
        if operation.report is None:
            raise _failed(operation.failure_cause)
        return operation.report

    def await_end(self) -> None:
        """Waits until the process has let go of the job, so that another one may start it."""
        while (found := read_endpoint(self._root, self._job)) is not None and found == self._endpoint:
            time.sleep(_POLL_S)

    def _fetch(self, path: str, *, method: str = "GET", body: msgspec.Struct | None = None) -> bytes:
        try:
            return fetch(self._endpoint, path, method=method, body=body)
        except OSError as error:
            raise RunnerUnreachableError(
                f"Process {self._endpoint.pid}, which ran job {self._job!r}, does not answer at "
                f"{self._endpoint.url}: {error}.",
                action="`lakestate status` shows whether it still runs.",
            ) from error


def _failed(cause: FailureCause | None) -> OperationFailedError:
    first = cause.stack_trace.partition("\n")[0] if cause is not None else "nobody knows why it failed"
    return OperationFailedError(
        f"The job goes on: {first.partition(': ')[2] or first}", action="`lakestate status` shows where it stands."
    )


__all__ = ["OperationFailedError", "Process", "RunningJob", "process_of"]
