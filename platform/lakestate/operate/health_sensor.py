"""Keeps supervised streams running: restarts a driver that failed, and reports one that hangs.

Without a restart strategy it only reports, and writes nothing beside the job's state: another code location, such as
that of a branch, may watch a stream that a first one keeps running.

It never starts a job that no user has started (`lakestate start`, `JobControlResource.start`), and never restarts one
that a user has stopped. All that a tick has to remember is stored beside the job's state. So a tick that dies, or a new
Dagster instance, neither forgets a failure nor counts it twice.
"""

import random
from datetime import timedelta

import dagster as dg

from lakestate.assets.metadata import Metadata
from lakestate.assets.names import dagster_name
from lakestate.assets.translation import StreamKeys
from lakestate.policies.restart import Failure, GiveUp, Jitter, NoRestart, RestartPolicy
from lakestate.resources.job_control import JobControlResource
from lakestate.supervision import Condition, Heartbeat, NoControlFolderError, Wanted
from state_engine.clock import SystemClock

EVERY = timedelta(seconds=10)


class StreamFailedError(Exception):
    """A stream has failed, and its restart strategy allows no further restart."""


def build_health_sensor(
    job: str,
    *,
    policy: RestartPolicy | None = None,
    every: timedelta = EVERY,
    keys: StreamKeys | None = None,
) -> dg.SensorDefinition:
    """Returns the sensor that watches a supervised stream, and keeps it running if there is a strategy for it.

    Args:
        job: Name of the job.
        policy: When a driver that failed is restarted, and what happens to one that hangs. None to report only.
        every: Time between two looks; a driver is restarted only at a look.
        keys: Asset keys of the stream, if they are translated.
    """
    watch, restarts = policy or NoRestart(), policy is not None
    checkpoint = (keys or StreamKeys(job)).checkpoint

    @dg.sensor(
        name=f"{dagster_name(job)}_health",
        minimum_interval_seconds=max(1, round(every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=_describe_sensor(job, policy),
    )
    def keep_running(
        context: dg.SensorEvaluationContext, job_control: JobControlResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            seen = job_control.status(job, hangs_after=watch.hangs_after)
        except NoControlFolderError as error:
            return dg.SkipReason(f"Not supervised: {error}")
        if seen.condition is Condition.HANGS and seen.wanted is not None:
            return _tell_or_replace(context, checkpoint, job, seen, job_control, watch)
        if seen.condition is Condition.FAILED and seen.wanted is not None:
            if not restarts:
                return _tell_failure(context, checkpoint, job, seen)
            return _restart(context, checkpoint, job, seen.wanted, seen.last_words.cause, job_control, watch)
        return dg.SkipReason(describe(job, seen))

    return keep_running


def describe(job: str, seen: Heartbeat) -> str:
    """Describes the state of a driver that needs no action."""
    place = f"epoch {seen.generation}/{seen.epoch}" if seen.generation else "no epoch yet"
    match seen.condition:
        case Condition.UNKNOWN:
            return f"{job} is not supervised: it was not started here by `lakestate start`."
        case Condition.RUNNING:
            return f"{job} runs as process {seen.pid}: {place}, {seen.state or 'it does not answer at the moment'}."
        case Condition.STARTING:
            return f"{job} is starting as process {seen.pid or '…'}: {place}."
        case Condition.STOPPED:
            return f"{job} was stopped by request, and stays stopped: {place}."
        case Condition.ENDED:
            return f"{job} has ended as requested, or at the end of its input: {place}."
    return f"{job}: {seen.condition}, {place}."


def _describe_sensor(job: str, policy: RestartPolicy | None) -> str:
    if policy is None:
        return f"Reports when the driver of the stream `{job}` has failed or hangs, and changes nothing."
    return (
        f"Restarts the driver of the stream `{job}` when it has failed ({policy.strategy}), if it was started "
        f"supervised (`lakestate start`, `{dagster_name(job)}_start`). It never starts a stream that no user has "
        "started or that a user has stopped, and stopping this sensor does not stop the stream. Restarts, failures and "
        "hangs are observations of the checkpoint asset."
    )


def _tell_failure(
    context: dg.SensorEvaluationContext, checkpoint: dg.AssetKey, job: str, seen: Heartbeat
) -> dg.SensorResult | dg.SkipReason:
    """Reports a driver that has failed, once per start, and leaves the restart to others."""
    wanted = seen.wanted
    assert wanted is not None
    cause = seen.last_words.cause
    message = f"{job} has failed, and no restart strategy is set: {cause}"
    mark = f"failed {_newest_start(wanted)}"
    if context.cursor == mark:
        return dg.SkipReason(message)
    event = _observation(checkpoint, job, "failed", cause, wanted, reason="No restart strategy is set.")
    return dg.SensorResult(asset_events=[event], cursor=mark, skip_reason=message)


def _newest_start(wanted: Wanted) -> int:
    return wanted.attempts[-1].started_at if wanted.attempts else wanted.since


def _tell_or_replace(
    context: dg.SensorEvaluationContext,
    checkpoint: dg.AssetKey,
    job: str,
    seen: Heartbeat,
    control: JobControlResource,
    policy: RestartPolicy,
) -> dg.SensorResult | dg.SkipReason:
    """Handles a driver that hangs: ends and restarts it if the policy says so; otherwise reports it, once per start."""
    wanted = seen.wanted
    assert wanted is not None
    cause = f"Process {seen.pid} has neither answered nor sealed an epoch for {seen.silent_ms / 1000:.0f} s."
    if policy.replace_hanging and wanted.state == "running":
        control.end_hanging(job)
        return _restart(context, checkpoint, job, wanted, f"It hung and was ended. {cause}", control, policy)
    mark = f"hangs {_newest_start(wanted)}"
    if context.cursor == mark:
        return dg.SkipReason(f"{job} hangs: {cause}")
    event = _observation(checkpoint, job, "hangs", cause, wanted)
    return dg.SensorResult(asset_events=[event], cursor=mark, skip_reason=f"{job} hangs: {cause}")


def _restart(
    context: dg.SensorEvaluationContext,
    checkpoint: dg.AssetKey,
    job: str,
    seen: Wanted,
    cause: str,
    control: JobControlResource,
    policy: RestartPolicy,
) -> dg.SensorResult | dg.SkipReason:
    """Handles a driver that has failed: restarts it when its delay has passed, or gives up."""
    if seen.gave_up:
        return dg.SkipReason(f"{job} has failed and is not restarted: {seen.gave_up} {_last_cause(seen)}")
    wanted = control.note_failure(job, seen, cause)
    if wanted is None:
        return _overtaken(job)
    decision = policy.decide(failures_of(wanted), jitter_of(job))
    if isinstance(decision, GiveUp):
        return _give_up(context, checkpoint, job, wanted, decision.reason, control)
    wait_ms = decision.at - SystemClock().now_ms()
    if wait_ms > 0:
        return dg.SkipReason(f"{job} is restarted in {wait_ms / 1000:.0f} s. {_last_cause(wanted)}")
    started = control.restart(job, wanted)
    if started is None:
        return _overtaken(job)
    event = _observation(
        checkpoint, job, "restarted", _last_cause(wanted), wanted, restarts=started.restarts, pid=started.pid
    )
    message = f"Restarted {job} as process {started.pid}, restart {started.restarts}. {_last_cause(wanted)}"
    return dg.SensorResult(asset_events=[event], skip_reason=message)


def _give_up(
    context: dg.SensorEvaluationContext,
    checkpoint: dg.AssetKey,
    job: str,
    wanted: Wanted,
    reason: str,
    control: JobControlResource,
) -> dg.SkipReason:
    """Records that there are no more restarts, and fails the tick, so that users are alerted.

    A tick that fails loses its events, so the event is written to the event log directly, and first: if a later step
    fails, the next tick repeats all steps.

    Raises:
        StreamFailedError: Always, unless the job was started or stopped meanwhile.
    """
    context.instance.report_runless_asset_event(
        _observation(checkpoint, job, "failed", _last_cause(wanted), wanted, reason=reason)
    )
    if control.give_up(job, wanted, reason) is None:
        return _overtaken(job)
    raise StreamFailedError(
        f"{job} has failed and is not restarted: {reason} {_last_cause(wanted)} "
        f"Remove the cause, then start it: `lakestate start {job}`."
    )


def failures_of(wanted: Wanted) -> list[Failure]:
    """Returns the failures since a user last started the job, oldest first."""
    return [Failure(one.started_at, one.ended_at) for one in wanted.attempts if one.ended_at is not None]


def jitter_of(job: str) -> Jitter:
    """Returns a function that gives a pseudo-random number from -1 to 1, always the same one for the same failure."""
    return lambda failed_at: random.Random(f"{job} {failed_at}").uniform(-1, 1)


def _last_cause(wanted: Wanted) -> str:
    return wanted.attempts[-1].cause if wanted.attempts else ""


def _overtaken(job: str) -> dg.SkipReason:
    return dg.SkipReason(f"Another request has started or stopped {job} meanwhile.")


def _observation(
    checkpoint: dg.AssetKey,
    job: str,
    what: str,
    cause: str,
    wanted: Wanted,
    *,
    restarts: int | None = None,
    pid: int | None = None,
    reason: str = "",
) -> dg.AssetObservation:
    metadata: Metadata = {
        "health": dg.MetadataValue.text(what),
        "cause": dg.MetadataValue.text(cause),
        "restarts": dg.MetadataValue.int(wanted.restarts if restarts is None else restarts),
        "pid": dg.MetadataValue.int(pid) if pid is not None else dg.MetadataValue.null(),
        "reason": dg.MetadataValue.text(reason),
    }
    return dg.AssetObservation(
        asset_key=checkpoint, description=f"The driver of {job}: {what}. {cause}", metadata=metadata
    )


__all__ = ["EVERY", "StreamFailedError", "build_health_sensor", "describe", "failures_of", "jitter_of"]
