"""How a running job is reached: its runner says so in `<root>/<job>/_control/endpoint.json`.

The file holds where the job's REST server listens, and the token if it wants one, so only its owner may read it. The
runner keeps it locked: a file that nobody locks is of a process that is gone, whatever number it had. An address on
this machine is no use to the readers of a bucket, so for roots in object stores there is one only where
`LAKESTATE_CONTROL` names a local folder for it.
"""

import contextlib
import fcntl
import hashlib
import http.client
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from lakestate.rest.bodies import Errors
from lakestate.rest.ends import CONTROL
from lakestate.rest.guard import TOKEN
from lakestate.rest.ids import job_id
from state_engine.errors import LakestateError
from state_engine.storage.port import check_name

CONTROL_FOLDER = "LAKESTATE_CONTROL"
"""Environment variable: a local folder for the control files of jobs whose root is an object store."""

_FILE = "endpoint.json"
_PATIENCE_S = 5.0
_REMEDIES = {401: f"Set {TOKEN} to the token that the job's process was started with."}


class RunnerUnreachableError(LakestateError):
    """The process of a running job lives, and does not answer."""


class RequestRefusedError(LakestateError):
    """A running job's server does not do what it was asked for.

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


class Answer(msgspec.Struct, frozen=True):
    """As much of the server's answer as is looked at."""

    incarnation: str
    state: str = "RUNNING"
    pid: int = 0


def control_folder(root: str, job: str) -> Path | None:
    """Returns the local folder of a job's control files: `<root>/<job>/_control`, for a root in the file system.

    For another root it is one below `LAKESTATE_CONTROL`; null if that is not set.
    """
    check_name("job name", job)
    scheme, separator, _ = root.partition("://")
    if separator and scheme != "file":
        local = os.environ.get(CONTROL_FOLDER)
        address = hashlib.sha256(root.rstrip("/").encode()).hexdigest()[:16]
        return Path(local) / address / job if local else None
    return Path(unquote(urlsplit(root).path) if separator else root) / job / CONTROL


def endpoint_path(root: str, job: str) -> Path | None:
    """Returns the path of a job's endpoint file; null if its control files have no place on this machine."""
    folder = control_folder(root, job)
    return folder / _FILE if folder is not None else None


@contextlib.contextmanager
def publish_endpoint(root: str, job: str, endpoint: Endpoint) -> Iterator[None]:
    """Tells where the job is reached until the block ends; then removes the file, unless a later runner wrote its own.

    Args:
        root: Of the storage.
        job: Name of the job.
        endpoint: What is told.
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
    """Returns what the job's living process has told; nobody is asked. Null if there is none."""
    path = endpoint_path(root, job)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            if _is_unlocked(file.fileno()):
                return None
            return msgspec.json.decode(file.read(), type=Endpoint)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _is_unlocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_endpoint(root: str, job: str, *, ask: Callable[[Endpoint, str], bytes] | None = None) -> Endpoint | None:
    """Returns where a running job is reached, after asking whether it answers for this job and incarnation.

    Args:
        root: Of the storage.
        job: Name of the job.
        ask: Fetches a path from an endpoint; over HTTP by default.

    Returns:
        The endpoint; null if no process of this machine runs the job.

    Raises:
        RunnerUnreachableError: The process lives, and does not answer as this job: nobody may say that it has stopped.
    """
    endpoint = read_endpoint(root, job)
    if endpoint is None:
        return None
    why = "another job or incarnation answers"
    try:
        answer = msgspec.json.decode((ask or fetch)(endpoint, f"/jobs/{job_id(job)}/incarnation"), type=Answer)
        if answer.incarnation == endpoint.incarnation:
            return endpoint
    except (OSError, msgspec.DecodeError, RequestRefusedError) as error:
        why = str(error)
    if read_endpoint(root, job) != endpoint:
        return find_endpoint(root, job, ask=ask)  # it has ended meanwhile, and another may have begun
    raise RunnerUnreachableError(
        f"Process {endpoint.pid} holds job {job!r} and does not answer for it at {endpoint.url}: {why}.",
        action="Look whether it hangs. When it is ended, the job is reached through its files.",
    )


def endpoint_at(url: str, job: str) -> Endpoint | None:
    """Returns the endpoint of a job whose REST server has this address; null if it runs no such job.

    The token, if it wants one, is that of the environment.

    Raises:
        RequestRefusedError: The server does not answer whoever has no other token.
        RunnerUnreachableError: Nobody answers there.
    """
    asked = Endpoint(url=url.rstrip("/"), pid=0, incarnation="", token=os.environ.get(TOKEN))
    try:
        answer = msgspec.json.decode(fetch(asked, f"/jobs/{job_id(job)}/incarnation"), type=Answer)
    except RequestRefusedError as error:
        if error.status == 404:
            return None
        raise
    except (OSError, msgspec.DecodeError) as error:
        raise RunnerUnreachableError(
            f"Nobody answers for job {job!r} at {asked.url}: {error}.",
            action="Check address and port: the job's process was started with --rest-address and --rest-port.",
        ) from error
    return msgspec.structs.replace(asked, pid=answer.pid, incarnation=answer.incarnation)


def fetch(endpoint: Endpoint, path: str, *, method: str = "GET", body: msgspec.Struct | None = None) -> bytes:
    """Sends a request to a job's server and returns the answer's body.

    Args:
        endpoint: Where the job is reached.
        path: Of the route, with its query.
        method: Of the route.
        body: What is sent.

    Raises:
        RequestRefusedError: The server says why it does not.
        OSError: It cannot be reached, or does not answer to the end.
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
    except (OSError, msgspec.DecodeError):
        return f"The server answered with status {error.code}."


__all__ = [
    "CONTROL",
    "CONTROL_FOLDER",
    "Answer",
    "Endpoint",
    "RequestRefusedError",
    "RunnerUnreachableError",
    "control_folder",
    "endpoint_at",
    "endpoint_path",
    "fetch",
    "find_endpoint",
    "publish_endpoint",
    "read_endpoint",
]
