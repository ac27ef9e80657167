"""Sends requests to the process that runs a job, at the address that its runner published or at a given one."""

import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from lakestate.control import (
    Answer,
    Endpoint,
    JobProcess,
    RequestRefusedError,
    RunnerUnreachableError,
    endpoint_at,
    fetch,
    find_endpoint,
    process_of,
    read_endpoint,
)
from lakestate.errors import AddressError, JobNotRunningError, UnknownTriggerError
from lakestate.failure_facts import FailureFacts
from lakestate.rest.bodies import KeyGroupsRestore, KeyGroupsResult, Triggered
from lakestate.rest.ends import EndedOperation, ended_as, find_end
from lakestate.rest.guard import TOKEN
from lakestate.rest.ids import is_id, job_id
from lakestate.rest.job_bodies import Incarnation, JobExceptions, SourceLag, StatusOnly
from lakestate.rest.triggers import Kind
from state_engine.errors import LakestateError
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.text import UNDECODABLE

_POLL_S = 0.1
_RESULTS: dict[str, Kind] = {
    "savepoints": "savepoint",
    "checkpoints": "checkpoint",
    "rescaling": "rescaling",
    "key-groups": "key-groups",
    "retention": "retention",
}
_ENDED = ("FINISHED", "CANCELED", "FAILED")


class OperationFailedError(LakestateError):
    """An operation that was requested of a job failed."""


class Process(NamedTuple):
    """What users may see of a process that holds a job: everything but the token.

    `kind` is one of: a `driver`, which has `url` and `incarnation` while it serves the job; a user's own `program`;
    a `restore` or a `compaction`. `pid` is null for an instant while the process starts.
    """

    url: str | None
    pid: int | None
    incarnation: str | None
    kind: str


class ProcessState(NamedTuple):
    """Such a process with its answers: its job's state, null if it does not answer, and its newest problem."""

    url: str | None
    pid: int | None
    incarnation: str | None
    kind: str
    state: str | None
    problem: str | None


def process_info(root: str, job: str) -> Process | None:
    """Returns what users may see of the process of this machine that holds a job; null if there is none."""
    process = process_of(root, job)
    return _told(process) if process is not None else None


def state_of(root: str, job: str) -> ProcessState | None:
    """Returns the process of this machine that holds a job, and the state that it reports; null if there is none."""
    process = process_of(root, job)
    if process is None:
        return None
    shown, endpoint = _told(process), process.endpoint
    if endpoint is None:
        return ProcessState(*shown, None, "It is starting, ending or hanging." if process.is_driver else None)
    path = f"/jobs/{job_id(job)}"
    try:
        state = msgspec.json.decode(fetch(endpoint, f"{path}/status"), type=StatusOnly).status
        seen = msgspec.json.decode(fetch(endpoint, f"{path}/exceptions"), type=JobExceptions).exception_history.entries
    except (OSError, RequestRefusedError, *UNDECODABLE) as error:
        if read_endpoint(root, job) != endpoint:
            return state_of(root, job)  # it has ended meanwhile, and another process may have started
        return ProcessState(*shown, None, f"It does not answer: {error}")
    problem = f"{seen[0].exception_name}: {seen[0].stacktrace}" if seen else None
    return ProcessState(*shown, state, problem)


def sources_of(root: str, job: str) -> list[SourceLag]:
    """Returns how far the sources of a job are behind, as its process tells; empty if it does not answer."""
    process = process_of(root, job)
    if process is None or process.endpoint is None:
        return []
    try:
        return msgspec.json.decode(fetch(process.endpoint, f"/jobs/{job_id(job)}"), type=_Sources).sources
    except (OSError, RequestRefusedError, *UNDECODABLE):
        return []


class _Sources(msgspec.Struct):
    sources: list[SourceLag] = []


def _told(process: JobProcess) -> Process:
    server, (pid, kind) = process.endpoint, process.holder
    return Process(server.url, pid, server.incarnation, kind) if server is not None else Process(None, pid, None, kind)


class RunningJob:
    """A job that a process runs, and the requests to that process.

    Args:
        root: Of the storage, where a process of this machine has published its address; may be null with `url`.
        job: Name of the job.
        url: Address of the job's server, in place of the published one.

    Raises:
        JobNotRunningError: No process runs it there.
        RunnerUnreachableError: A process runs it, but does not answer.
        RequestRefusedError: The server requires another token.
    """

    def __init__(self, root: str | None, job: str, url: str | None = None) -> None:
        self._root, self._job, self._url = root, job, url
        self._endpoint = _endpoint_of(root, job, url)
        self._path = f"/jobs/{job_id(job)}"

    def cancel(self) -> None:
        """Asks the job to end after the current epoch."""
        self._fetch(self._path, method="PATCH")

    def begin(self, path: str, *, method: str = "POST", body: msgspec.Struct | None = None) -> str:
        """Begins an operation and returns its trigger id.

        Args:
            path: Below that of the job.
            method: Of the route.
            body: What is sent.

        Raises:
            RequestRefusedError: The server refuses to begin it.
            RunnerUnreachableError: The process has ended, or does not answer.
        """
        answer = self._fetch(f"{self._path}/{path}", method=method, body=body)
        return msgspec.json.decode(answer, type=Triggered).request_id

    def operate(self, path: str, *, method: str = "POST", body: msgspec.Struct | None = None) -> EndedOperation:
        """Begins an operation as `begin` does, waits for its end and returns it.

        Raises:
            OperationFailedError: It failed; the message says whether the job goes on.
        """
        trigger_id = self.begin(path, method=method, body=body)
        # The route of savepoints also has the result of a stop with a savepoint.
        results = {"stop": "savepoints"}.get(path.partition("?")[0], path.partition("?")[0])
        while (ended := self._look(results, trigger_id)) is None:
            time.sleep(_POLL_S)
        if ended.error is None:
            return ended
        raise self._failed(ended)

    def _failed(self, ended: EndedOperation | None) -> OperationFailedError:
        how = "The job goes on" if self.goes_on() else "The job does not run any more"
        why = f"{ended.error}: {ended.message}" if ended is not None else "the operation failed for an unknown reason"
        action = ended.action if ended is not None else None
        return OperationFailedError(f"{how}: {why}", action=action or "`lakestate status` shows the state of the job.")

    def look(self, trigger_id: str) -> EndedOperation | None:
        """Returns how an operation of the process has ended; null while it runs.

        Raises:
            UnknownTriggerError: The process knows no operation with this id.
            RunnerUnreachableError: It does not answer.
        """
        for results in _RESULTS:
            try:
                return self._look(results, trigger_id)
            except RequestRefusedError as error:
                if error.status != 404:
                    raise
        raise _unknown(self._job, trigger_id)

    def goes_on(self) -> bool:
        """Returns whether a process may still hold the job: one that does not answer has not necessarily ended."""
        try:
            answer = msgspec.json.decode(fetch(self._endpoint, f"{self._path}/incarnation"), type=Answer)
        except RequestRefusedError as error:
            return error.status != 404
        except (OSError, *UNDECODABLE) as error:
            is_gone = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            return self._is_held() if self._url is None else not is_gone
        return answer.incarnation == self._endpoint.incarnation and answer.state not in _ENDED

    def incarnation(self) -> Incarnation:
        """Returns which process runs the job, and its progress."""
        return msgspec.json.decode(self._fetch(f"{self._path}/incarnation"), type=Incarnation)

    def sources(self) -> list[SourceLag]:
        """Returns how far the job is behind its sources."""
        return msgspec.json.decode(self._fetch(self._path), type=_Sources).sources

    def metrics(self) -> str:
        """Returns the figures of the process as Prometheus reads them."""
        return self._fetch("/metrics").decode()

    def restore_key_groups(self, body: KeyGroupsRestore) -> KeyGroupRestore:
        """Restores key groups or keys between two epochs, and waits for the end; errors are those of `operate`."""
        trigger_id = self.begin("key-groups", body=body)
        while True:
            answer = self._fetch(f"{self._path}/key-groups/{trigger_id}")
            operation = msgspec.json.decode(answer, type=KeyGroupsResult).operation
            if operation is not None:
                break
            time.sleep(_POLL_S)
        if operation.report is None:
            raise self._failed(ended_from("key-groups", trigger_id, msgspec.json.decode(answer)))
        return operation.report

    def await_end(self) -> None:
        """Waits until the process has released the job, so that another one may start it."""
        while self._lives() if self._url is None else self.goes_on():
            time.sleep(_POLL_S)

    def _lives(self) -> bool:
        """Whether the process holds the job, even if it serves it no more: its engine may still be shutting down."""
        process = process_of(self._root, self._job) if self._root is not None else None
        return process is not None and process.pid == self._endpoint.pid

    def _is_held(self) -> bool:
        return self._root is not None and read_endpoint(self._root, self._job) == self._endpoint

    def _look(self, results: str, trigger_id: str) -> EndedOperation | None:
        try:
            answer = self._fetch(f"{self._path}/{results}/{trigger_id}")
        except RunnerUnreachableError:
            ended = find_end(self._root, self._job, trigger_id) if self._root is not None else None
            if ended is None:
                raise
            return ended
        return ended_from(_RESULTS[results], trigger_id, msgspec.json.decode(answer))

    def _fetch(self, path: str, *, method: str = "GET", body: msgspec.Struct | None = None) -> bytes:
        try:
            return fetch(self._endpoint, path, method=method, body=body)
        except OSError as error:
            raise RunnerUnreachableError(
                f"Process {self._endpoint.pid}, which ran job {self._job!r}, does not answer at "
                f"{self._endpoint.url}: {error}.",
                action="`lakestate status` shows whether it still runs.",
            ) from error


def outcome_of(root: str | None, job: str, trigger_id: str, url: str | None = None) -> EndedOperation | None:
    """Returns how an operation has ended, whether the process that ran it still lives or not; null while it runs.

    Raises:
        UnknownTriggerError: No such operation is known (any more).
        RunnerUnreachableError: A process that may know it does not answer.
    """
    if not is_id(trigger_id):
        raise _unknown(job, trigger_id)
    try:
        return RunningJob(root, job, url).look(trigger_id)
    except (JobNotRunningError, RunnerUnreachableError, UnknownTriggerError):
        ended = find_end(root, job, trigger_id) if root is not None else None
        if ended is not None:
            return ended
        raise


def _endpoint_of(root: str | None, job: str, url: str | None) -> Endpoint:
    if url is not None:
        endpoint = endpoint_at(checked_url(url), job)
        where = f"The server at {url} does not run job {job!r}."
    elif root is not None:
        endpoint = find_endpoint(root, job)
        where = f"No process of this machine runs job {job!r} under {root}."
    else:
        raise AddressError(
            f"It is not known where job {job!r} runs.",
            action="Give --root or LAKESTATE_ROOT, or --url or LAKESTATE_URL.",
        )
    if endpoint is None:
        raise JobNotRunningError(
            where,
            action="Check root and name (`lakestate list`). For a job that runs elsewhere, or that has its root in a "
            "bucket, give the address of its REST server: --url.",
        )
    return endpoint


def checked_url(url: str) -> str:
    """Returns the address of a server.

    Raises:
        AddressError: It is invalid, or it contains a secret, which all users of this machine would see.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AddressError("This is not the address of a server.", action="Give one such as http://host:8081.")
    if parts.username is not None or parts.password is not None or parts.query:
        raise AddressError(
            "An address must not contain a key or a signature.", action=f"Put secrets into the environment: {TOKEN}."
        )
    return url


def ended_from(kind: Kind, trigger_id: str, answer: Any) -> EndedOperation | None:
    """Reads the answer about an operation of any kind; null while the operation runs."""
    operation = answer.get("operation")
    if operation is None:
        return None
    result = operation.get("location", operation.get("checkpointId"))
    cause = operation.get("failure-cause")
    return ended_as(kind, trigger_id, 0, result, _facts(cause) if cause is not None else None)


def _facts(cause: Any) -> FailureFacts:
    """Reads the facts of a failure; a process of an earlier release sends only the text."""
    if "failure" not in cause:
        return FailureFacts(
            type=str(cause["class"]), message=str(cause["stack-trace"]).partition("\n  File ")[0].strip()
        )
    return msgspec.convert(cause["failure"], FailureFacts)


def _unknown(job: str, trigger_id: str) -> UnknownTriggerError:
    return UnknownTriggerError(
        f"No operation {trigger_id[:64]!r} of job {job!r} is known.",
        action="Check the id. A process knows the operations of the last five minutes; after it ended, those of the "
        "five minutes before its end are known. `lakestate savepoints list` and `lakestate checkpoints` show what was "
        "completed.",
    )


__all__ = [
    "OperationFailedError",
    "Process",
    "ProcessState",
    "RunningJob",
    "checked_url",
    "ended_from",
    "outcome_of",
    "process_info",
    "state_of",
]
