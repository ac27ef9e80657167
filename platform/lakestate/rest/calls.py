"""The arguments and results of handlers, and the error by which they refuse a request."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from lakestate.rest.ids import is_id
from lakestate.rest.job_port import JobControl
from lakestate.rest.operations import Operations


class RefusedError(Exception):
    """A request is refused with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Cluster(NamedTuple):
    """The jobs of this process, and the operations on them."""

    jobs: Mapping[str, JobControl]
    operations: Operations
    now_ms: Callable[[], int]

    def job(self, job_id: str) -> JobControl:
        """Returns the job with an id.

        Raises:
            RefusedError: The text is not an id, or no job has it.
        """
        job_id = check_id("jobid", job_id)
        if job_id not in self.jobs:
            raise RefusedError(404, f"Job {job_id} not found")
        return self.jobs[job_id]


def check_id(name: str, text: str) -> str:
    """Returns an id in lower case, in which ids are stored. Like Flink, it accepts upper case too.

    Raises:
        RefusedError: The text is not an id.
    """
    lowered = text.lower()
    if not is_id(lowered):
        raise RefusedError(
            400, f"Cannot resolve path parameter ({name}) from value {text[:64]!r}: an id has 32 hexadecimal digits."
        )
    return lowered


class Call(NamedTuple):
    """A request: path parameters, query parameters, and the body as the struct that the route names."""

    cluster: Cluster
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    @property
    def job(self) -> JobControl:
        """The job that the path names.

        Raises:
            RefusedError: There is none.
        """
        return self.cluster.job(self.path["jobid"])


class Text(NamedTuple):
    """An answer that is not a struct."""

    content: bytes
    media_type: str


Handler = Callable[[Call], msgspec.Struct | Text]

__all__ = ["Call", "Cluster", "Handler", "RefusedError", "Text", "check_id"]
