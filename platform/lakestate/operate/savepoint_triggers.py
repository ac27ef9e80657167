"""Requests savepoints when a trigger of the policy wants one."""

from datetime import UTC, datetime

import dagster as dg

from lakestate.assets.names import dagster_name
from lakestate.assets.translation import StreamKeys
from lakestate.code_version import code_version_of
from lakestate.operate.savepoint_requests import attempts_of, look_at, request_savepoint
from lakestate.policies import SavepointPolicy
from lakestate.resources import StateStoreResource
from state_engine.clock import SystemClock


def build_savepoint_trigger_sensor(
    job: str, policy: SavepointPolicy, *, keys: StreamKeys | None = None
) -> dg.SensorDefinition:
    """Returns the sensor that adds a partition of `<job>/savepoint`, and requests the run that takes it.

    Its cursor is the code version that was seen first; later the newest savepoint contains the last version.

    Args:
        job: Name of the job.
        policy: Its triggers.
        keys: Asset keys of the stream, if they are translated.
    """
    key = (keys or StreamKeys(job)).savepoint

    @dg.sensor(
        name=f"{dagster_name(job)}_savepoint_triggers",
        minimum_interval_seconds=max(1, round(policy.look_every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        asset_selection=dg.AssetSelection.assets(key),
        description=(
            f"Adds a partition of `{job}/savepoint` and launches the run that takes it when the policy of the stream "
            "wants one; each tick gives the reason. Stopped, no savepoint is taken by these rules."
        ),
    )
    def trigger_savepoint(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        view = state_store.open_job(job)
        if view.newest() is None:
            return dg.SkipReason(f"{job} in {state_store.uri(job)} has no epoch yet.")
        version = code_version_of(job) if policy.on_new_code_version else None
        seen = context.cursor or version
        now_ms = SystemClock().now_ms()
        look = look_at(context.instance, view, now_ms, code_version=version, seen_version=seen, key=key)
        decision = policy.decide(look)
        attempts = attempts_of(context.instance, job)
        objection = attempts.objection(now_ms) if decision.trigger is not None else None
        if decision.trigger is None or objection is not None:
            why = decision.reason if objection is None else f"{decision.reason} {objection}"
            return dg.SensorResult(skip_reason=why, cursor=seen)
        name = attempts.partition or f"{decision.trigger}-{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
        request = request_savepoint(context.instance, job, policy, decision, partition=name, code_version=version)
        context.log.info(f"{decision.reason} Savepoint {request.partition_key} is requested.")
        return dg.SensorResult(run_requests=[request], cursor=seen)

    return trigger_savepoint


__all__ = ["build_savepoint_trigger_sensor"]
