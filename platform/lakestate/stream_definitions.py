"""Everything that Dagster knows of one stream: one function per kind of definition, one line per definition."""

from collections.abc import Sequence

import dagster as dg

from lakestate.assets import build_checkpoint_spec, build_savepoint_asset
from lakestate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.policies import StreamPolicies
from lakestate.resources import StateStoreResource
from state_engine.storage.port import check_name


def build_stream_definitions(
    job: str,
    state_store: StateStoreResource,
    policies: StreamPolicies | None = None,
    *,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Returns the assets, the sensor and the resource of one stream; it neither imports the job nor starts a JVM.

    Definitions of several streams can be merged if they share one `state_store` and one `executor`.

    Args:
        job: Name of the job.
        state_store: Where its state lies.
        policies: How it is operated; by default its checkpoints are reported, and nothing happens by itself.
        executor: What runs the steps of a run. By default the run's own process: a savepoint takes less time than
            another process. None for that of the code location.

    Raises:
        JobDefinitionError: The name cannot be that of a job.
    """
    check_name("job name", job)
    policies = policies or StreamPolicies()
    return dg.Definitions(
        assets=_assets(job, policies),
        sensors=_sensors(job, policies),
        resources={"state_store": state_store},
        executor=executor,
    )


def _assets(job: str, policies: StreamPolicies) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    return [
        build_checkpoint_spec(job, fresh_within=policies.fresh_within),
        build_savepoint_asset(job),
    ]


def _sensors(job: str, policies: StreamPolicies) -> Sequence[dg.SensorDefinition]:
    return [
        build_checkpoint_sensor(job, every=policies.report_every),
    ]


__all__ = ["build_stream_definitions"]
