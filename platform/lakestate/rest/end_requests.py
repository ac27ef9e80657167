"""Requests to end a job, handed to the thread that looks after it."""

import queue
from concurrent.futures import Future
from typing import Literal, NamedTuple, Protocol

from lakestate.rest.job_port import SavepointRequest
from state_engine.errors import LakestateError


class JobEndedError(LakestateError):
    """The job has ended, so that nothing can be asked of it."""


class EndRequest(NamedTuple):
    """A request to end the job. `done` gets the savepoint's location, null without savepoint, or what went wrong."""

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
    """A queue with one reader: the thread that started the job ends it, and nobody else does.

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
        """Queues a request and returns how it ends.

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
        """Carries out what was asked for, in order; returns whether the job has ended by it."""
        while not self._queue.empty():
            if job.carry_out(self._queue.get()):
                self.refuse()
                return True
        return False

    def refuse(self) -> None:
        """The job has ended: refuses what is asked for from now on, and what waits."""
        self._over = True
        while True:
            try:
                self._queue.get_nowait().done.set_exception(self.refusal())
            except queue.Empty:
                return

    def refusal(self) -> JobEndedError:
        """Returns what is said to whoever comes too late."""
        return JobEndedError(
            f"Job {self._job!r} has ended.", action="Its state is in its root: start it again, or work on its files."
        )


__all__ = ["EndRequest", "EndRequests", "EndsJob", "JobEndedError"]
