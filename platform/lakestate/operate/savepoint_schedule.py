"""Requests savepoints at the times of the policy."""

from datetime import UTC

import dagster as dg

from lakestate.assets.names import dagster_name
from lakestate.assets.translation import StreamKeys
from lakestate.code_version import code_version_of
from lakestate.operate.crons import named_definition
from lakestate.operate.savepoint_requests import attempts_of, look_at, request_savepoint
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Decision
from lakestate.resources import StateStoreResource
from state_engine.clock import SystemClock


def build_savepoint_schedule(
    job: str, policy: SavepointPolicy, *, keys: StreamKeys | None = None
) -> dg.ScheduleDefinition:
    """Returns the schedule that adds a partition of `<job>/savepoint` at its times, and requests the run that takes it.

    The partition has the name of the time, so that a repeated tick requests the same savepoint. For all times that were
    missed while Dagster was down, one savepoint is taken.

    Args:
        job: Name of the job.
        policy: Its times.
        keys: Asset keys of the stream, if they are translated.

    Raises:
        JobDefinitionError: The policy has no times, or invalid ones.
    """
    key = (keys or StreamKeys(job)).savepoint
    with named_definition(f"The times of savepoints of job {job!r}", policy.cron) as cron:

        @dg.schedule(
            cron,
            name=f"{dagster_name(job)}_savepoints",
            target=dg.AssetSelection.assets(key),
            execution_timezone=policy.timezone,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=(
                f"Adds a partition of `{job}/savepoint` at these times, and launches the run that takes it. If times "
                "were missed, one savepoint is taken for all of them. Stopped, none is taken by time."
            ),
        )
        def schedule_savepoint(
            context: dg.ScheduleEvaluationContext, state_store: StateStoreResource
        ) -> dg.RunRequest | dg.SkipReason:
            view, now_ms = state_store.open_job(job), SystemClock().now_ms()
            if view.newest() is None:
                return dg.SkipReason(f"{job} in {state_store.uri(job)} has no epoch yet.")
            due = Decision("cron", f"A savepoint was due by {cron}.")
            decision = policy.allow(due, look_at(context.instance, view, now_ms, key=key))
            attempts = attempts_of(context.instance, job)
            if decision.trigger is None:
                return dg.SkipReason(decision.reason)
            if attempts.under_way is not None:
                return dg.SkipReason(f"{decision.reason} {attempts.objection(now_ms)}")
            name = f"cron-{context.scheduled_execution_time.astimezone(UTC):%Y%m%dT%H%M%SZ}"
            version = code_version_of(job) if policy.on_new_code_version else None
            return request_savepoint(
                context.instance, job, policy, decision, partition=name, code_version=version, run_key=name
            )

    return schedule_savepoint


__all__ = ["build_savepoint_schedule"]
