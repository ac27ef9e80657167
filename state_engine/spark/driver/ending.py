"""The end of a job: what becomes of batches behind a stop, and what it lets go when it ends for good."""

import logging
from typing import NoReturn

from pyspark.sql import DataFrame

from state_engine.causes import report_of
from state_engine.checkpoint import externalized
from state_engine.checkpoint.externalized import JobEnd
from state_engine.errors import StopRequestedError
from state_engine.log.manifest import StoredManifest
from state_engine.spark.graph.definition import JobDefinition

_log = logging.getLogger(__name__)
_LONGEST_STOP_MS = 10_000
"""So long a batch that comes behind a stop waits for Spark to stop the query."""


def discard_checkpoints(job: JobDefinition, head: StoredManifest, end: JobEnd) -> None:
    """Removes what shall not outlive a job that has ended so; nothing of it runs any more.

    Args:
        job: The job.
        head: The newest manifest that this driver has sealed.
        end: How it ended.

    Raises:
        LakestateError: Checkpoints were not removed.
    """
    if externalized.discards(job.settings.checkpoint_config.get_externalized_checkpoint_retention(), end):
        externalized.discard_checkpoints(job.root, job.name, head.hash)


def try_to_discard_checkpoints(job: JobDefinition, head: StoredManifest, end: JobEnd) -> None:
    """The same for a job that has ended by itself: how that was does not depend on it."""
    try:
        discard_checkpoints(job, head, end)
    except Exception as error:
        _log.warning("The checkpoints of job %r were not removed: %s", job.name, report_of(error))


def refuse_batch(batch: DataFrame, job: str) -> NoReturn:
    """Refuses a batch that comes behind a stop, once Spark stops the query too.

    It waits on the query's own thread in the JVM, which the stop interrupts: an error that Spark gets before that, or
    that tells of no interruption, is logged as the failure of a query.

    Raises:
        StopRequestedError: Always.
    """
    cause: BaseException | None = None
    try:
        batch.sparkSession.sparkContext._jvm.java.lang.Thread.sleep(_LONGEST_STOP_MS)  # type: ignore[union-attr]
    except Exception as interrupted:
        cause = interrupted
    raise StopRequestedError(f"Job {job!r} is stopping.", action="Nothing.") from cause


def log_no_stops() -> None:
    """Keeps py4j from logging, with two tracebacks, that a batch was refused or cut off by a stop."""
    logging.getLogger("py4j.clientserver").addFilter(_is_no_stop)


def _is_no_stop(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], StopRequestedError))


__all__ = ["discard_checkpoints", "log_no_stops", "refuse_batch", "try_to_discard_checkpoints"]
