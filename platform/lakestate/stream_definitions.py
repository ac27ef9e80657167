"""Everything that Dagster knows of one stream."""

from datetime import timedelta

import dagster as dg

from lakestate.assets import build_checkpoint_spec, build_savepoint_asset
from lakestate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.resources import StateStoreResource
from state_engine.storage.port import check_name


def build_stream_definitions(
    job: str,
    state_store: StateStoreResource,
    *,
    report_every: timedelta = timedelta(seconds=30),
    fresh_within: timedelta | None = None,
) -> dg.Definitions:
    """Returns the assets, the sensor and the resource of one stream; it neither imports the job nor starts a JVM.

    Definitions of several streams can be merged if they share one `state_store`.

    Args:
        job: Name of the job.
        state_store: Where its state lies.
        report_every: Time between two looks for a new checkpoint; each look writes at most one event.
        fresh_within: A checkpoint older than this makes `<job>/checkpoint` overdue; at least one minute. None for a
            stream that is allowed to rest.

    Raises:
        JobDefinitionError: The name cannot be that of a job.
    """
    check_name("job name", job)
    return dg.Definitions(
        assets=[build_checkpoint_spec(job, fresh_within=fresh_within), build_savepoint_asset(job)],
        sensors=[build_checkpoint_sensor(job, every=report_every)],
        resources={"state_store": state_store},
        executor=dg.in_process_executor,  # a savepoint takes less time than another process
    )


__all__ = ["build_stream_definitions"]
