"""Finds the process of this machine that holds a job, and sends requests to it.

The job's lock (`state_engine.storage.job_lock`) shows which process holds a job. The file
`<root>/<job>/_control/endpoint.json` contains the address at which it serves the job. Only `process_of` decides whether
a job runs on this machine.

The file also contains the server's token, if it requires one, so only its owner may read it. The runner keeps the file
locked: an unlocked file belongs to a process that has ended, whatever its process id. Readers of a bucket on other
machines cannot use an address of this machine. So for a root in an object store the file exists only where
`LAKESTATE_CONTROL` names a local folder for it.
"""

import contextlib
import fcntl
import http.client
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from lakestate.rest.bodies import Errors
from lakestate.rest.guard import TOKEN
from lakestate.rest.ids import job_id
from state_engine.errors import LakestateError
from state_engine.storage.job_lock import Holder, control_folder, holder, lock_folder
from state_engine.text import UNDECODABLE

_FILE = "endpoint.json"
_PATIENCE_S = 5.0
_REMEDIES = {401: f"Set {TOKEN} to the token that the job's process was started with."}


class RunnerUnreachableError(LakestateError):
    """The process of a running job lives, but does not answer."""


class RequestRefusedError(LakestateError):
    """A running job's server refused a request.

    Attributes:
        status: The answer's HTTP status.
    """

    status = 0


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the process of a running job listens, and which incarnation it is."""

    url: str
    pid: int
    incarnation: str
    token: str | None = None


class JobProcess(NamedTuple):
    """A process of this machine that holds a job, and the endpoint at which it serves the job.

    The endpoint is null while it does not serve the job: not yet, or not any more. `str` describes the process for
    people.
    """

    holder: Holder
    endpoint: Endpoint | None

    def __str__(self) -> str:
        return str(self.holder)

    @property
    def pid(self) -> int | None:
        """Its process id; null until its starter has written it down."""
        return self.holder.pid

    @property
    def is_driver(self) -> bool:
        """Whether it is a driver, which serves the job once the job runs."""
        return self.endpoint is not None or self.holder.kind == "driver"

    @property
    def is_silent(self) -> bool:
        """Whether it is a driver that serves no requests: it is starting, ending or hanging."""
        return self.is_driver and self.endpoint is None


class Answer(msgspec.Struct, frozen=True):
    """The fields of the server's answer that are read."""

    incarnation: str
    state: str = "RUNNING"
    pid: int = 0


def endpoint_path(root: str, job: str) -> Path | None:
    """Returns the path of a job's endpoint file; null if its control files have no place on this machine."""
    folder = control_folder(root, job)
    return folder / _FILE if folder is not None else None


@contextlib.contextmanager
def publish_endpoint(root: str, job: str, endpoint: Endpoint) -> Iterator[None]:
    """Publishes where the job is reached until the block ends; then removes the file, unless a later runner wrote one.

    Args:
        root: Of the storage.
        job: Name of the job.
        endpoint: What is published.
    """
    path = endpoint_path(root, job)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{_FILE}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, msgspec.json.encode(endpoint))
        os.replace(draft, path)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                path.unlink()
        os.close(descriptor)


def read_endpoint(root: str, job: str) -> Endpoint | None:
    """Returns the endpoint that the job's living process published, without a request to it; null if there is none."""
    path = endpoint_path(root, job)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            if _is_unlocked(file.fileno()):
                return None
            return msgspec.json.decode(file.read(), type=Endpoint)
    except (FileNotFoundError, NotADirectoryError, *UNDECODABLE):
        return None


def _is_unlocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def process_of(root: str, job: str) -> JobProcess | None:
    """Returns the process of this machine that holds a job, without a request to it; null if there is none."""
    endpoint, folder = read_endpoint(root, job), lock_folder(root, job)
    held = holder(folder) if folder is not None else None
    if endpoint is not None:
        return JobProcess(Holder(endpoint.pid, held.kind if held is not None else "driver"), endpoint)
    return JobProcess(held, None) if held is not None else None


def find_endpoint(root: str, job: str, *, ask: Callable[[Endpoint, str], bytes] | None = None) -> Endpoint | None:
    """Returns where a running job is reached, after checking that it answers for this job and incarnation.

    Args:
        root: Of the storage.
        job: Name of the job.
        ask: Fetches a path from an endpoint; over HTTP by default.

    Returns:
        The endpoint; null if no process of this machine runs the job.

    Raises:
        RunnerUnreachableError: The process lives, but does not answer as this job. It must not be reported as stopped.
    """
    process = process_of(root, job)
    if process is None:
        return None
    endpoint = process.endpoint
    if endpoint is None:
        raise _serves_nothing(job, process)
    why = "another job or incarnation answers"
    try:
        answer = msgspec.json.decode((ask or fetch)(endpoint, f"/jobs/{job_id(job)}/incarnation"), type=Answer)
        if answer.incarnation == endpoint.incarnation:
            return endpoint
    except (OSError, *UNDECODABLE, RequestRefusedError) as error:
        why = str(error)
    if read_endpoint(root, job) != endpoint:
        return find_endpoint(root, job, ask=ask)  # it has ended meanwhile, and another process may have started
    raise RunnerUnreachableError(
        f"Process {endpoint.pid} holds job {job!r} and does not answer for it at {endpoint.url}: {why}.",
        action="Check whether it hangs. Once it has ended, commands use the job's files.",
    )


def _serves_nothing(job: str, process: JobProcess) -> RunnerUnreachableError:
    if process.is_silent:
        return RunnerUnreachableError(
            f"{process} holds job {job!r} and serves no requests: it is starting, ending or hanging.",
            action="Wait; if that does not help, end it with `lakestate stop --kill`. Sealed epochs are kept.",
        )
    return RunnerUnreachableError(
        f"{process} holds job {job!r} and serves no requests.",
        action="End it where it was started, or kill its process with `lakestate stop --kill`. Sealed epochs are kept.",
    )


def endpoint_at(url: str, job: str) -> Endpoint | None:
    """Returns the endpoint of a job whose REST server has this address; null if it runs no such job.

    The token, if the server requires one, comes from the environment.

    Raises:
        RequestRefusedError: The server refuses the request, such as for a wrong token.
        RunnerUnreachableError: No server answers there.
    """
    endpoint = Endpoint(url=url.rstrip("/"), pid=0, incarnation="", token=os.environ.get(TOKEN))
    try:
        answer = msgspec.json.decode(fetch(endpoint, f"/jobs/{job_id(job)}/incarnation"), type=Answer)
    except RequestRefusedError as error:
        if error.status == 404:
            return None
        raise
    except (OSError, *UNDECODABLE) as error:
        raise RunnerUnreachableError(
            f"No server answers for job {job!r} at {endpoint.url}: {error}.",
            action="Check address and port: the job's process was started with --rest-address and --rest-port.",
        ) from error
    return msgspec.structs.replace(endpoint, pid=answer.pid, incarnation=answer.incarnation)


def fetch(endpoint: Endpoint, path: str, *, method: str = "GET", body: msgspec.Struct | None = None) -> bytes:
    """Sends a request to a job's server and returns the answer's body.

    Args:
        endpoint: Where the job is reached.
        path: Of the route, with its query.
        method: Of the route.
        body: What is sent.

    Raises:
        RequestRefusedError: The server refuses; the message has its reason.
        OSError: It cannot be reached, or its answer is cut off.
    """
    headers = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token is not None else {}
    data = msgspec.json.encode(body) if body is not None else None
    request = urllib.request.Request(endpoint.url + path, data=data, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy: it is this machine
    try:
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            return bytes(answer.read())
    except http.client.HTTPException as error:
        raise ConnectionError(f"the answer was cut off: {error!r}") from error
    except urllib.error.HTTPError as error:
        with error:
            refused = RequestRefusedError(_reason(error), action=_REMEDIES.get(error.code, "See docs/rest.md."))
        refused.status = error.code
        raise refused from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return f"{'; '.join(msgspec.json.decode(error.read(), type=Errors).errors)} (status {error.code})"
    except (OSError, *UNDECODABLE):
        return f"The server answered with status {error.code}."


__all__ = [
    "Answer",
    "Endpoint",
    "JobProcess",
    "RequestRefusedError",
    "RunnerUnreachableError",
    "endpoint_at",
    "endpoint_path",
    "fetch",
    "find_endpoint",
    "process_of",
    "publish_endpoint",
    "read_endpoint",
]
