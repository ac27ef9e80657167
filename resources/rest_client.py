"""Dagster resource for the REST servers of running jobs."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from lakestate.errors import AddressError, JobNotRunningError
from lakestate.rest.bodies import CheckpointTrigger, KeyGroupsRestore, Rescaling, savepoint_trigger, stop_with_savepoint
from lakestate.rest.job_bodies import Incarnation, SourceLag
from lakestate.running_job import RunningJob
from state_engine.savepoint import SavepointRequest
from state_engine.savepoint.group_report import KeyGroupRestore

URLS = "LAKESTATE_URLS"
"""Environment variable: REST addresses of jobs, as `name=address`, with spaces between them."""


class RestClientResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Sends requests to the processes of running jobs. Every operation waits for its end; a failure has a named error.

    If a server requires a token, it is not a setting here: it comes from the environment, `LAKESTATE_REST_TOKEN`, or
    from the file in which a process of this machine publishes its address.

    All operations raise `JobNotRunningError` if no process runs the job, `RunnerUnreachableError` if its process does
    not answer, `RequestRefusedError` if it refuses, and `OperationFailedError` if the operation failed.
    """

    root: str = Field(description="Folder, file:// or object store address under which each job has a folder.")
    urls: dict[str, str] = Field(
        default={},
        description="REST addresses of jobs that run on other machines, or that keep their state in a bucket. Others "
        f"are read from the environment, {URLS}.",
    )

    def job(self, job: str) -> RunningJob:
        """Returns a job that a process runs."""
        return RunningJob(self.root, job, self.urls.get(job) or _urls_of_environment().get(job))

    def is_running(self, job: str) -> bool:
        """Returns whether a process holds the job and answers for it."""
        try:
            return self.job(job).goes_on()
        except JobNotRunningError:
            return False

    def savepoint(self, job: str, request: SavepointRequest | None = None) -> str:
        """Takes a savepoint and returns where it is."""
        return str(self.job(job).operate("savepoints", body=savepoint_trigger(request or SavepointRequest())).result)

    def checkpoint(self, job: str, *, full: bool = False) -> int:
        """Takes a checkpoint with the job's next epoch and returns its id."""
        body = CheckpointTrigger(checkpoint_type="FULL" if full else "CONFIGURED")
        return int(self.job(job).operate("checkpoints", body=body).result or 0)

    def rescale(self, job: str, parallelism: int | Mapping[str, int]) -> None:
        """Gives all operators, or some by uid, another parallelism."""
        running = self.job(job)
        if isinstance(parallelism, int):
            running.operate(f"rescaling?parallelism={parallelism}", method="PATCH")
        else:
            running.operate("rescaling", method="PATCH", body=Rescaling(operators=dict(parallelism)))

    def restore_key_groups(
        self,
        job: str,
        source: str,
        key_groups: Sequence[tuple[int, int]] | None = None,
        *,
        keys: Sequence[Any] | None = None,
        operators: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> KeyGroupRestore:
        """Restores key groups, as pairs of first and last, or keys from a savepoint or another source."""
        body = KeyGroupsRestore(
            source=source,
            key_groups=list(key_groups) if key_groups is not None else None,
            keys=list(keys) if keys is not None else None,
            operators=list(operators) if operators is not None else None,
            dry_run=dry_run,
        )
        return self.job(job).restore_key_groups(body)

    def stop(self, job: str, request: SavepointRequest | None = None, *, drain: bool = False) -> str:
        """Stops a job with a savepoint, waits until its process has released it, and returns where the savepoint is.

        For a supervised driver of this machine use `JobControlResource.stop`.
        """
        running = self.job(job)
        location = running.operate("stop", body=stop_with_savepoint(request or SavepointRequest(), drain=drain)).result
        running.await_end()
        return str(location)

    def incarnation(self, job: str) -> Incarnation:
        """Returns which process runs the job, and its progress."""
        return self.job(job).incarnation()

    def sources(self, job: str) -> list[SourceLag]:
        """Returns how far the job is behind its sources."""
        return self.job(job).sources()

    def metrics(self, job: str) -> str:
        """Returns the metrics of the job's process in Prometheus' text format."""
        return self.job(job).metrics()


def _urls_of_environment() -> Mapping[str, str]:
    pairs = [pair.partition("=") for pair in os.environ.get(URLS, "").split()]
    wrong = next((name for name, equals, url in pairs if not (equals and url)), None)
    if wrong is not None:
        raise AddressError(
            f"{wrong!r} in {URLS} is no address of a job.", action="Write `job=http://host:8081`, with spaces between."
        )
    return {name: url for name, _, url in pairs}


__all__ = ["URLS", "RestClientResource"]
