"""Builds everything that Dagster knows of one stream: one function per kind of definition, one line per definition."""

from collections.abc import Mapping, Sequence
from functools import cache

import dagster as dg

from lakestate.assets import (
    StreamPlan,
    build_checkpoint_checks,
    build_compaction_asset,
    build_lineage,
    build_rescaled_state_asset,
    build_restored_state_asset,
    build_retention_asset,
    build_savepoint_asset,
)
from lakestate.assets.translation import StreamKeys, StreamTranslator
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.operate.compaction_schedule import build_compaction_schedule
from lakestate.operate.engine_savepoints import build_engine_savepoint_sensor
from lakestate.operate.health_sensor import build_health_sensor
from lakestate.operate.rescale_sensor import build_rescale_sensor
from lakestate.operate.retention_schedule import build_retention_schedule
from lakestate.operate.savepoint_schedule import build_savepoint_schedule
from lakestate.operate.savepoint_triggers import build_savepoint_trigger_sensor
from lakestate.operate.stream_jobs import build_stream_jobs
from lakestate.policies import StreamPolicies
from lakestate.resources import JobControlResource, RestClientResource, SparkSessionResource, StateStoreResource
from lakestate.stream_plans import known_plan
from state_engine.storage.port import check_name


def build_stream_definitions(
    job: str,
    state_store: StateStoreResource,
    policies: StreamPolicies | None = None,
    *,
    plan: StreamPlan | None = None,
    sources: Mapping[str, dg.AssetKey] | None = None,
    sinks: Mapping[str, dg.AssetKey] | None = None,
    translator: StreamTranslator | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Returns assets, checks, sensors, jobs and resources of one stream; it neither imports the job nor starts a JVM.

    Definitions of several streams can be merged if they share one `state_store` and one `executor`.

    Args:
        job: Name of the job.
        state_store: Where its state is stored.
        policies: How it is operated. By default its checkpoints and the health of its driver are reported, and nothing
            is changed.
        plan: What the job is made of (`read_plan`). For a registered job the default is the plan beside its module. The
            newest epoch adds what it contains. Without both, states appear in the lineage when the code location is
            loaded again.
        sources: Assets that represent its sources, by the names of the sources in the plan.
        sinks: Assets that represent its sinks, by the uids of the sinks.
        translator: Gives assets other keys, groups, owners, tags, kinds or descriptions; not the assets in `sources`
            and `sinks`.
        executor: What runs the steps of a run. By default the run's own process: a savepoint takes less time than the
            start of another process. None for the executor of the code location.

    Raises:
        JobDefinitionError: The name cannot be that of a job, or the translator gives keys that contradict each other.
    """
    check_name("job name", job)
    return build_definitions_of_plan(
        job,
        state_store,
        policies or StreamPolicies(),
        plan=known_plan(state_store, job, plan),
        sources=sources,
        sinks=sinks,
        translator=translator,
        executor=executor,
    )


def build_definitions_of_plan(
    job: str,
    state_store: StateStoreResource,
    policies: StreamPolicies,
    *,
    plan: StreamPlan,
    sources: Mapping[str, dg.AssetKey] | None = None,
    sinks: Mapping[str, dg.AssetKey] | None = None,
    translator: StreamTranslator | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Returns the same as `build_stream_definitions`, from a plan that is complete: the store is not read.

    Raises:
        JobDefinitionError: The translator gives keys that contradict each other.
    """
    keys = StreamKeys(job, translator, plan)
    lineage = build_lineage(
        job,
        plan,
        fresh_within=policies.fresh_within,
        sources=sources,
        sinks=sinks,
        uri=state_store.uri(job),
    )
    return dg.Definitions(
        assets=keys.translate([*lineage, *_assets(keys, policies)]),
        asset_checks=_checks(keys, policies),
        jobs=build_stream_jobs(job, policies.trigger_interval_ms),
        sensors=_sensors(keys, policies),
        schedules=_schedules(keys, policies),
        resources=_resources(state_store),
        executor=executor,
    )


def _assets(keys: StreamKeys, policies: StreamPolicies) -> Sequence[dg.AssetsDefinition]:
    job = keys.job
    return [
        build_restored_state_asset(job, savepoints=keys.savepoint),
        build_rescaled_state_asset(job, policies.savepoints),
        build_savepoint_asset(job, policies.savepoints),
        build_retention_asset(job, policies.retention, savepoints=keys.savepoint),
        build_compaction_asset(job, grace_ms=policies.retention.policy.grace_ms),
    ]


def _checks(keys: StreamKeys, policies: StreamPolicies) -> Sequence[dg.AssetChecksDefinition]:
    return [
        build_checkpoint_checks(keys.job, policies.limits, key=keys.checkpoint),
    ]


def _sensors(keys: StreamKeys, policies: StreamPolicies) -> Sequence[dg.SensorDefinition]:
    job, savepoints = keys.job, policies.savepoints
    return [
        build_checkpoint_sensor(
            job, every=policies.report_every, limits=policies.limits, sample_rows=policies.sample_rows, keys=keys
        ),
        build_health_sensor(job, policy=policies.restart, every=policies.watch_every, keys=keys),
        *(
            [build_rescale_sensor(job, policies.rescale, key=keys.rescaled_state)]
            if policies.rescale.action != "off"
            else []
        ),
        build_engine_savepoint_sensor(job, savepoints, keys=keys),
        *([build_savepoint_trigger_sensor(job, savepoints, keys=keys)] if savepoints.looks else []),
    ]


def _schedules(keys: StreamKeys, policies: StreamPolicies) -> Sequence[dg.ScheduleDefinition]:
    job, savepoints, keep = keys.job, policies.savepoints, policies.retention
    return [
        *([build_savepoint_schedule(job, savepoints, keys=keys)] if savepoints.cron else []),
        *([build_retention_schedule(job, keep.cron, keep.timezone, key=keys.retention)] if keep.cron else []),
        *(
            [build_compaction_schedule(job, keep.compaction_cron, keep.timezone, key=keys.compaction)]
            if keep.compaction_cron
            else []
        ),
    ]


def _resources(state_store: StateStoreResource) -> Mapping[str, object]:
    return {
        "state_store": state_store,
        "job_control": _of_root(JobControlResource, state_store.root),
        "rest_client": _of_root(RestClientResource, state_store.root),
        "spark_session": _SPARK_SESSION,
    }


_SPARK_SESSION = SparkSessionResource()


@cache  # definitions of several streams can be merged only if they share their resources
def _of_root(kind: type[JobControlResource | RestClientResource], root: str) -> object:
    return kind(root=root)


__all__ = ["build_definitions_of_plan", "build_stream_definitions"]
