"""Log lines about a clock that was set: at a start, and while a driver runs."""

import logging

_log = logging.getLogger(__name__)

HOUR_MS = 3_600_000


def log_difference(job: str, processing_time: int, now_ms: int) -> None:
    """Logs, at a start, that the clock is more than an hour away from the newest epoch.

    A clock that is ahead usually means that the job did not run for hours.

    Args:
        job: Name of the job.
        processing_time: Processing time of its newest sealed epoch, in ms.
        now_ms: Time by the clock of this machine.
    """
    hours = (now_ms - processing_time) / HOUR_MS
    if hours > 1:
        _log.info(
            "The clock is %.1f hours ahead of the newest epoch of job %r: timers that became due meanwhile fire now.",
            hours, job,
        )  # fmt: skip
    elif hours < -1:
        _log.warning(
            "The clock is %.1f hours behind the newest epoch of job %r: its processing time does not advance until the "
            "clock has caught up. If a clock was wrong, restore the newest epoch with reset_processing_time=True "
            "(`lakestate restore %s --from latest --reset-processing-time`).",
            -hours, job, job,
        )  # fmt: skip


def log_step(job: str, step_ms: int) -> None:
    """Logs a step of the clock while the job's driver runs; a step of 0 means that the clock is back."""
    if step_ms:
        _log.warning(
            "The clock of this machine jumped by %.0f seconds. Processing time of job %r goes on as if it had not; if "
            "the clock is right now, start the job again.",
            step_ms / 1000, job,
        )  # fmt: skip
    else:
        _log.warning("The clock of this machine is back where processing time of job %r is.", job)


__all__ = ["log_difference", "log_step"]
