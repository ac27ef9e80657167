"""The end of a job: batches that come after a stop are refused; checkpoints are discarded when it ends for good."""

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
"""How long a batch that comes after a stop waits for Spark to stop the query."""


def discard_checkpoints(job: JobDefinition, head: StoredManifest, end: JobEnd) -> None:
    """Discards a job's checkpoints if its configuration does not keep them after such an end.

    Nothing of the job runs any more.

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
    """Does the same for a job that has ended by itself; a failure is logged, and does not change how the job ended."""
    try:
        discard_checkpoints(job, head, end)
    except Exception as error:
        _log.warning("The checkpoints of job %r were not removed: %s", job.name, report_of(error))


def refuse_batch(batch: DataFrame, job: str) -> NoReturn:
    """Refuses a batch that comes after a stop, once Spark stops the query too.

    It waits on the query's own thread in the JVM, which the stop interrupts. Spark would log an error that it gets
    before that, or that reports no interruption, as the failure of a query.

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
