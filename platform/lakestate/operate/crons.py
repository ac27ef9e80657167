"""Shared code of a stream's schedules: a named error for invalid times, and schedules whose runs need only a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from lakestate.assets.names import dagster_name, run_tags
from state_engine.errors import JobDefinitionError


@contextmanager
def named_definition(what: str, cron: str | None) -> Iterator[str]:
    """Yields the times for a schedule that is defined in the block, and names them in an error about them.

    Args:
        what: What they are, for the message.
        cron: The times.

    Raises:
        JobDefinitionError: They, or their time zone, are invalid.
    """
    try:
        yield cron or ""
    except dg.DagsterInvalidDefinitionError as error:
        raise JobDefinitionError(
            f"{what} are {cron!r}: {error}",
            action="Give five fields as crontab has them, such as `0 3 * * *`, and a time zone such as Europe/Berlin.",
        ) from error


def build_cron_schedule(job: str, what: str, key: dg.AssetKey, cron: str, timezone: str) -> dg.ScheduleDefinition:
    """Returns a schedule that requests runs of an asset without partitions.

    Args:
        job: Name of the job.
        what: What the asset does, which names the schedule.
        key: Of the asset.
        cron: Times of the runs.
        timezone: Time zone of `cron`.

    Raises:
        JobDefinitionError: The times are invalid.
    """
    with named_definition(f"The times of {what} of job {job!r}", cron):

        @dg.schedule(
            cron,
            name=f"{dagster_name(job)}_{what}",
            target=dg.AssetSelection.assets(key),
            execution_timezone=timezone,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=(
                f"Launches a run of `{key.to_user_string()}` at these times, as Materialize does. Stopped, {what} runs "
                f"only when a user materialises it; the stream `{job}` goes on."
            ),
        )
        def ask(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
            return dg.RunRequest(run_key=context.scheduled_execution_time.isoformat(), tags=run_tags(job))

    return ask


__all__ = ["build_cron_schedule", "named_definition"]
