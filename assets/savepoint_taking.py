"""Takes a savepoint for a Dagster run: by the process that runs the job, or from the job's files."""

import logging
import time

from lakestate.control import RunnerUnreachableError
from lakestate.errors import JobNotRunningError
from lakestate.resources import RestClientResource, SparkSessionResource, StateStoreResource
from state_engine.errors import SavepointError
from state_engine.inspect import JobView
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint import SavepointRequest

_POLL_S = 0.2


class SavepointTaker:
    """Takes savepoints of a job, running or not.

    A running job takes the savepoint after its next epoch, so that the epoch that was running at the request is in it.
    It folds a canonical one by a Spark job. If its process does not answer, or if there is none, the savepoint is taken
    of the newest sealed epoch from the job's files.

    Args:
        job: Name of the job.
        state_store: Where the state is stored.
        rest_client: Sends requests to the running job.
        spark_session: Folds a canonical savepoint of a job that does not run; if None, this process does.
        log: Of the run.
    """

    def __init__(
        self,
        job: str,
        state_store: StateStoreResource,
        rest_client: RestClientResource,
        spark_session: SparkSessionResource | None,
        log: logging.Logger,
    ) -> None:
        self._job, self._state_store, self._rest_client = job, state_store, rest_client
        self._spark_session, self._log = spark_session, log

    def take(self, request: SavepointRequest, *, next_epoch_s: float = 0.0) -> Savepoint:
        """Takes a savepoint.

        Args:
            request: Which one.
            next_epoch_s: How long to wait for the next epoch of a running job; if none comes, none is running.

        Raises:
            LakestateError: It failed.
        """
        try:
            self._rest_client.job(self._job)
        except JobNotRunningError:
            return self._from_files(request)
        except RunnerUnreachableError as error:
            self._log.warning(f"{error} The newest sealed epoch is taken from the job's files.")
            return self._from_files(request)
        view = self._state_store.open_job(self._job)
        epoch = _await_epoch(view, next_epoch_s)
        self._log.info(f"{self._job} is running, and takes a savepoint after epoch {epoch}.")
        location = self._rest_client.savepoint(self._job, request)
        taken = view.savepoint(location.rstrip("/").rpartition("/")[2])
        if taken is None:
            raise SavepointError(
                f"Job {self._job!r} took the savepoint {location}, but the state store has none with this id.",
                action="Check that the root of the state store and the addresses of running jobs are of the same jobs.",
            )
        return taken

    def _from_files(self, request: SavepointRequest) -> Savepoint:
        session = self._spark_session if request.kind == "canonical" else None
        writer = session.savepoint_writer() if session is not None else None
        return self._state_store.take_savepoint(self._job, request, writer=writer)


def state_bytes_of(state_store: StateStoreResource, job: str) -> int:
    """Returns the size of the state at the newest checkpoint; 0 without one."""
    checkpoint = state_store.open_job(job).newest_checkpoint()
    return checkpoint.state_bytes if checkpoint is not None else 0


def _await_epoch(view: JobView, patience_s: float) -> str:
    """Waits for an epoch that is not sealed yet; returns the newest one, as text."""
    until = time.monotonic() + patience_s
    first = newest = view.newest()
    while first is not None and newest is not None and newest.hash == first.hash and time.monotonic() < until:
        time.sleep(_POLL_S)
        newest = view.newest()
    return f"{newest.manifest.generation}/{newest.manifest.epoch}" if newest is not None else "none"


__all__ = ["SavepointTaker", "state_bytes_of"]
