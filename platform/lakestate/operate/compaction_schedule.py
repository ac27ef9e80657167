"""Requests compaction runs at the times of the policy."""

import dagster as dg

from lakestate.assets.names import compaction_key
from lakestate.operate.crons import build_cron_schedule


def build_compaction_schedule(
    job: str, cron: str, timezone: str = "UTC", *, key: dg.AssetKey | None = None
) -> dg.ScheduleDefinition:
    """Returns the schedule of `<job>/compaction`.

    Args:
        job: Name of the job.
        cron: Times of the runs.
        timezone: Time zone of `cron`.
        key: Key of the asset; by default `<job>/compaction`.

    Raises:
        JobDefinitionError: The times are invalid.
    """
    return build_cron_schedule(job, "compaction", key or compaction_key(job), cron, timezone)


__all__ = ["build_compaction_schedule"]
