"""Requests retention runs at the times of the policy."""

import dagster as dg

from lakestate.assets.names import retention_key
from lakestate.operate.crons import build_cron_schedule


def build_retention_schedule(
    job: str, cron: str, timezone: str = "UTC", *, key: dg.AssetKey | None = None
) -> dg.ScheduleDefinition:
    """Returns the schedule of `<job>/retention`.

    Each run deletes what the run before it condemned, if they are further apart than the grace time.

    Args:
        job: Name of the job.
        cron: Times of the runs.
        timezone: Time zone of `cron`.
        key: Key of the asset; by default `<job>/retention`.

    Raises:
        JobDefinitionError: The times are invalid.
    """
    return build_cron_schedule(job, "retention", key or retention_key(job), cron, timezone)


__all__ = ["build_retention_schedule"]
