"""A queue of requests to end a job, for the thread that the job belongs to."""

import queue
from concurrent.futures import Future
from typing import Literal, NamedTuple, Protocol

from lakestate.rest.job_port import SavepointRequest
from state_engine.errors import LakestateError


class JobEndedError(LakestateError):
    """The job has ended, so it takes no requests."""


class EndRequest(NamedTuple):
    """A request to end the job. `done` gets the savepoint's location, null without savepoint, or the error."""

    final: Literal["FINISHED", "CANCELED"]
    savepoint: SavepointRequest | None
    drain: bool
    done: "Future[str | None]"


class EndsJob(Protocol):
    """Carries out such a request."""

    def carry_out(self, request: EndRequest) -> bool:
        """Ends the job; returns whether it has ended."""
        ...


class EndRequests:
    """A queue with one reader: only the thread that started the job ends it.

    Args:
        job: Name of the job, for messages.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._queue: queue.SimpleQueue[EndRequest] = queue.SimpleQueue()
        self._over = False

    def ask(
        self,
        final: Literal["FINISHED", "CANCELED"],
        savepoint: SavepointRequest | None = None,
        *,
        drain: bool = False,
    ) -> "Future[str | None]":
        """Queues a request and returns the future of its result.

        Raises:
            JobEndedError: The job has ended.
        """
        if self._over:
            raise self.refusal()
        request = EndRequest(final, savepoint, drain, Future())
        self._queue.put(request)
        if self._over:
            self.refuse()
        return request.done

    def serve(self, job: EndsJob) -> bool:
        """Carries out the requests in order; returns whether one of them has ended the job."""
        while not self._queue.empty():
            if job.carry_out(self._queue.get()):
                self.refuse()
                return True
        return False

    def refuse(self) -> None:
        """Refuses all waiting and later requests, because the job has ended."""
        self._over = True
        while True:
            try:
                self._queue.get_nowait().done.set_exception(self.refusal())
            except queue.Empty:
                return

    def refusal(self) -> JobEndedError:
        """Returns the error for requests that come too late."""
        return JobEndedError(
            f"Job {self._job!r} has ended.", action="Its state is in its root: start it again, or work on its files."
        )


__all__ = ["EndRequest", "EndRequests", "EndsJob", "JobEndedError"]
