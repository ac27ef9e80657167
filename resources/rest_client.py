"""The servers of running jobs, as a Dagster resource."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from lakestate.errors import JobNotRunningError
from lakestate.rest.bodies import CheckpointTrigger, KeyGroupsRestore, Rescaling, savepoint_trigger, stop_with_savepoint
from lakestate.rest.job_bodies import Incarnation
from lakestate.running_job import RunningJob
from state_engine.savepoint import SavepointRequest
from state_engine.savepoint.group_report import KeyGroupRestore


class RestClientResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Asks the processes of running jobs. Every operation waits for its end, and says by name why it came to nothing.

    The token, where a server wants one, is no setting: it comes from the environment, `LAKESTATE_REST_TOKEN`, or from
    the file in which the process of this machine has said where it listens.

    All operations raise `JobNotRunningError` if nobody runs the job, `RunnerUnreachableError` if its process does not
    answer, `RequestRefusedError` if it refuses, and `OperationFailedError` if what was asked for failed.
    """

    root: str = Field(description="Folder, file:// or object store address under which each job has a folder.")
    urls: dict[str, str] = Field(
        default={},
        description="Addresses of the servers of jobs that run on other machines, or keep their state in a bucket.",
    )

    def job(self, job: str) -> RunningJob:
        """Returns a job that some process runs."""
        return RunningJob(self.root, job, self.urls.get(job))

    def is_running(self, job: str) -> bool:
        """Says whether a process holds the job and answers for it."""
        try:
            return self.job(job).goes_on()
        except JobNotRunningError:
            return False

    def savepoint(self, job: str, wanted: SavepointRequest | None = None) -> str:
        """Takes a savepoint and returns where it is."""
        return str(self.job(job).operate("savepoints", body=savepoint_trigger(wanted or SavepointRequest())).result)

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
        """Takes key groups, as pairs of first and last, or keys back to where they were at a savepoint."""
        body = KeyGroupsRestore(
            source=source,
            key_groups=list(key_groups) if key_groups is not None else None,
            keys=list(keys) if keys is not None else None,
            operators=list(operators) if operators is not None else None,
            dry_run=dry_run,
        )
        return self.job(job).restore_key_groups(body)

    def stop(self, job: str, wanted: SavepointRequest | None = None, *, drain: bool = False) -> str:
        """Stops a job with a savepoint, waits until its process has let go of it, and returns where the savepoint is.

        A driver of this machine that is supervised is stopped by `JobControlResource.stop`.
        """
        running = self.job(job)
        location = running.operate("stop", body=stop_with_savepoint(wanted or SavepointRequest(), drain=drain)).result
        running.await_end()
        return str(location)

    def incarnation(self, job: str) -> Incarnation:
        """Returns the process that runs the job, and how far it is."""
        return self.job(job).incarnation()

    def metrics(self, job: str) -> str:
        """Returns the figures of the job's process as Prometheus reads them."""
        return self.job(job).metrics()


__all__ = ["RestClientResource"]
