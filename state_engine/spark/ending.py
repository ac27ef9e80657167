"""What a job lets go when it ends for good."""

import logging
from typing import TYPE_CHECKING

from state_engine.causes import report_of
from state_engine.checkpoint.externalized import JobEnd, discard_checkpoints, discards
from state_engine.log.manifest import StoredManifest

if TYPE_CHECKING:
    from state_engine.spark.job import StreamJob

_log = logging.getLogger(__name__)


def let_checkpoints_go(job: "StreamJob", head: StoredManifest, end: JobEnd) -> None:
    """Removes what shall not outlive a job that has ended so; nothing of it runs any more.

    Args:
        job: The job.
        head: The newest manifest that this driver has sealed.
        end: How it ended.

    Raises:
        LakestateError: Checkpoints were not removed.
    """
    if discards(job.checkpoint_config.get_externalized_checkpoint_retention(), end):
        discard_checkpoints(job.root, job.name, head.hash)


def try_to_let_checkpoints_go(job: "StreamJob", head: StoredManifest, end: JobEnd) -> None:
    """The same for a job that has ended by itself: how that was does not depend on it."""
    try:
        let_checkpoints_go(job, head, end)
    except Exception as error:
        _log.warning("The checkpoints of job %r were not removed: %s", job.name, report_of(error))


__all__ = ["let_checkpoints_go", "try_to_let_checkpoints_go"]
