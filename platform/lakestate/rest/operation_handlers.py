"""Handlers of requests that change something (checkpoints, savepoints, the end of a job), and of their results."""

import traceback
from collections.abc import Callable

from lakestate.failure_facts import facts_of
from lakestate.rest import bodies
from lakestate.rest import retention_bodies as retention
from lakestate.rest.calls import Call, RefusedError, check_id
from lakestate.rest.end_requests import JobEndedError
from lakestate.rest.java_throwable import MAX_TEXT, serialized_throwable
from lakestate.rest.job_bodies import JobConfig
from lakestate.rest.job_handlers import job_config
from lakestate.rest.job_port import JobControl, Retained
from lakestate.rest.triggers import Key, Kind, Outcome, UnknownOperationError
from state_engine.causes import message_of, report_of
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.errors import JobDefinitionError, LakestateError
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.text import shorten

FLINK_EXCEPTION = "org.apache.flink.util.FlinkException"
JOB_NOT_FOUND = "org.apache.flink.runtime.messages.FlinkJobNotFoundException"


class UnknownJobError(LakestateError):
    """No job of this process has the id."""


def trigger_savepoint(call: Call) -> bodies.Triggered:
    """Takes a savepoint; with `cancel-job` the job is cancelled once the savepoint is taken."""
    body: bodies.SavepointTrigger = call.body
    if body.cancel_job and body.epoch is not None:
        raise RefusedError(400, "A job can be cancelled only with a savepoint of its last epoch.")
    request = body.request()

    def run(job: JobControl) -> str:
        return job.stop(request, drain=False, cancel=True) if body.cancel_job else job.trigger_savepoint(request)

    return _begin(call, "savepoint", body.trigger_id, run)


def stop(call: Call) -> bodies.Triggered:
    """Ends the job with a savepoint."""
    body: bodies.StopWithSavepoint = call.body
    return _begin(call, "savepoint", body.trigger_id, lambda job: job.stop(body.request(), drain=bool(body.drain)))


def trigger_checkpoint(call: Call) -> bodies.Triggered:
    """Takes a checkpoint; `FULL` folds the state from scratch."""
    body: bodies.CheckpointTrigger = call.body
    full = body.checkpoint_type == "FULL"
    return _begin(call, "checkpoint", body.trigger_id, lambda job: job.trigger_checkpoint(full=full))


def dispose_savepoint(call: Call) -> bodies.Triggered:
    """Removes a savepoint of one of the jobs, by its reported location."""
    body: bodies.SavepointDisposal = call.body

    def run() -> None:
        if not any(job.dispose(body.savepoint_path) for job in call.cluster.jobs.values()):
            raise RefusedError(404, f"No job of this process has a savepoint {body.savepoint_path}.")

    key = call.cluster.operations.begin("savepoint-disposal", "", _given(body.trigger_id), run)
    return bodies.Triggered(request_id=key.trigger_id)


def cancel(call: Call) -> bodies.Empty:
    """Ends the job after the current epoch, without a savepoint."""
    mode = call.query.get("mode", "cancel").lower()
    if mode != "cancel":
        raise RefusedError(400, f"The termination mode {mode[:64]!r} is not supported; stop with a savepoint instead.")
    try:
        call.job.cancel()
    except JobEndedError as error:
        raise RefusedError(409, str(error)) from error
    return bodies.Empty()


def savepoint_result(call: Call) -> bodies.SavepointResult:
    """Returns the result of a savepoint, or of a stop with one."""
    outcome = _look(call, "savepoint", call.path["jobid"])
    if outcome is None:
        return bodies.SavepointResult(status=_RUNNING, operation=None)
    if outcome.error is not None:
        return bodies.SavepointResult(status=_ENDED, operation=bodies.SavepointInfo(failure_cause=cause(outcome.error)))
    return bodies.SavepointResult(status=_ENDED, operation=bodies.SavepointInfo(location=str(outcome.result)))


def checkpoint_result(call: Call) -> bodies.CheckpointResult:
    """Returns the result of a checkpoint."""
    outcome = _look(call, "checkpoint", call.path["jobid"])
    if outcome is None:
        return bodies.CheckpointResult(status=_RUNNING, operation=None)
    if outcome.error is not None:
        info = bodies.CheckpointInfo(failure_cause=cause(outcome.error))
        return bodies.CheckpointResult(status=_ENDED, operation=info)
    assert isinstance(outcome.result, int)
    return bodies.CheckpointResult(status=_ENDED, operation=bodies.CheckpointInfo(checkpoint_id=outcome.result))


def disposal_result(call: Call) -> bodies.PlainResult:
    """Returns the result of the removal of a savepoint."""
    return _plain(_look(call, "savepoint-disposal", ""))


def rescale(call: Call) -> bodies.Triggered:
    """Gives all operators another `parallelism`, or those that the body names; nothing is restarted."""
    given, some = call.query.get("parallelism"), call.body.operators
    if (given is None) == (some is None):
        raise RefusedError(400, "Give either the query parameter parallelism, or operators in the body.")
    if given is not None and not (given.isascii() and given.isdecimal() and len(given) < 6):
        raise RefusedError(400, f"The query parameter parallelism is {given[:64]!r}, which is not a number.")
    wanted = int(given) if given is not None else dict(some)
    return _begin(call, "rescaling", None, lambda job: job.rescale(wanted))


def set_trigger(call: Call) -> JobConfig:
    """Sets the time between two epochs with input, `interval-ms`, until the job's end; returns the configuration."""
    given = call.query.get("interval-ms")
    if given is None or not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise RefusedError(400, "The query parameter interval-ms must be a number of milliseconds.")
    try:
        call.job.set_trigger_interval_ms(int(given))
    except JobEndedError as error:
        raise RefusedError(409, str(error)) from error
    return job_config(call)


def rescaling_result(call: Call) -> bodies.PlainResult:
    """Returns the result of a rescale."""
    return _plain(_look(call, "rescaling", call.path["jobid"]))


def restore_key_groups(call: Call) -> bodies.Triggered:
    """Restores the state of some key groups, or of some keys, from a savepoint, checkpoint or epoch."""
    body: bodies.KeyGroupsRestore = call.body
    if (body.key_groups is None) == (body.keys is None):
        raise RefusedError(400, "Give either key-groups or keys.")
    keys = None if body.keys is None else [tuple(key) if isinstance(key, list) else key for key in body.keys]

    def run(job: JobControl) -> KeyGroupRestore:
        return job.restore_key_groups(body.source, body.key_groups, keys, body.operators, dry_run=body.dry_run)

    return _begin(call, "key-groups", body.trigger_id, run)


def key_groups_result(call: Call) -> bodies.KeyGroupsResult:
    """Returns what a restore of key groups did, or would do."""
    outcome = _look(call, "key-groups", call.path["jobid"])
    if outcome is None:
        return bodies.KeyGroupsResult(status=_RUNNING, operation=None)
    if outcome.error is not None:
        return bodies.KeyGroupsResult(status=_ENDED, operation=bodies.KeyGroupsInfo(failure_cause=cause(outcome.error)))
    assert isinstance(outcome.result, KeyGroupRestore)
    return bodies.KeyGroupsResult(status=_ENDED, operation=bodies.KeyGroupsInfo(report=outcome.result))


def retain(call: Call) -> bodies.Triggered:
    """Deletes what the given rules do not keep and nothing else needs; a dry run only reports it."""
    body: retention.RetentionTrigger = call.body
    try:
        policy = RetentionPolicy(
            checkpoints=_keep(body.checkpoints),
            savepoints=_keep(body.savepoints) if body.savepoints is not None else None,
            pinned_labels=tuple(body.pinned_labels),
            strays=body.strays,
            grace_ms=body.grace_ms,
        )
    except JobDefinitionError as error:
        raise RefusedError(400, str(error)) from error
    return _begin(call, "retention", body.trigger_id, lambda job: job.retain(policy, dry_run=body.dry_run))


def retention_result(call: Call) -> retention.RetentionResult:
    """Returns what retention did, or would do."""
    outcome = _look(call, "retention", call.path["jobid"])
    if outcome is None:
        return retention.RetentionResult(status=_RUNNING, operation=None)
    if outcome.error is not None:
        return retention.RetentionResult(
            status=_ENDED, operation=retention.RetentionInfo(failure_cause=cause(outcome.error))
        )
    assert isinstance(outcome.result, Retained)
    return retention.RetentionResult(status=_ENDED, operation=retention.RetentionInfo(summary=_summary(outcome.result)))


def _plain(outcome: Outcome | None) -> bodies.PlainResult:
    if outcome is None:
        return bodies.PlainResult(status=_RUNNING, operation=None)
    failure = cause(outcome.error) if outcome.error is not None else None
    return bodies.PlainResult(status=_ENDED, operation=bodies.PlainInfo(failure_cause=failure))


_RUNNING = bodies.QueueStatus(id="IN_PROGRESS")
_ENDED = bodies.QueueStatus(id="COMPLETED")


def _begin(call: Call, kind: Kind, trigger_id: str | None, run: Callable[[JobControl], object]) -> bodies.Triggered:
    """Starts an operation on the job of the path. As in Flink, without a job the operation fails, not the request."""
    job_id, jobs = check_id("jobid", call.path["jobid"]), call.cluster.jobs

    def run_on_job() -> object:
        if job_id not in jobs:
            raise UnknownJobError(f"Could not find Flink job ({job_id})")
        return run(jobs[job_id])

    key = call.cluster.operations.begin(kind, job_id, _given(trigger_id), run_on_job)
    return bodies.Triggered(request_id=key.trigger_id)


def _given(trigger_id: str | None) -> str | None:
    return check_id("triggerId", trigger_id) if trigger_id is not None else None


def _look(call: Call, kind: Kind, job_id: str) -> Outcome | None:
    key = Key(kind, job_id and check_id("jobid", job_id), check_id("triggerid", call.path["triggerid"]))
    try:
        return call.cluster.operations.registry.look(key)
    except UnknownOperationError as error:
        raise RefusedError(404, str(error)) from error


def cause(error: BaseException) -> bodies.FailureCause:
    """Returns a failure in Flink's shape."""
    name = JOB_NOT_FOUND if isinstance(error, UnknownJobError) else FLINK_EXCEPTION
    text = message_of(error) if isinstance(error, RefusedError) else report_of(error)
    if isinstance(error, LakestateError):
        text = f"{type(error).__name__}: {text}"
    stack = shorten(f"{name}: {text}\n{''.join(traceback.format_tb(error.__traceback__))}", MAX_TEXT)
    return bodies.FailureCause(
        class_name=name,
        stack_trace=stack,
        serialized_throwable=serialized_throwable(name, text, stack),
        failure=facts_of(error),
    )


def _keep(rules: retention.Rules) -> Keep:
    return Keep(last=rules.last, for_ms=rules.for_ms, hourly=rules.hourly, daily=rules.daily, weekly=rules.weekly)


def _summary(retained: Retained) -> retention.RetentionSummary:
    plan, report = retained.plan, retained.report
    removals = [
        retention.RemovalInfo(path=removal.path, bytes=removal.bytes, kind=removal.kind, reason=removal.reason)
        for removal in plan.removals[: retention.LISTED]
    ]
    summary = retention.RetentionSummary(
        dry_run=report is None,
        files=len(plan.removals),
        bytes=plan.bytes,
        removals=removals,
        savepoints=[*plan.savepoints, *(one.savepoint_id for one in plan.disposals)],
        checkpoints=list(plan.checkpoints),
        oldest_epoch=plan.oldest_epoch,
        abandoned=[one.directory for one in plan.abandoned],
        unlisted=[one.savepoint_id for one in plan.unlisted],
    )
    if report is not None:
        summary.removed, summary.removed_bytes = len(report.removed), report.bytes
        summary.spared, summary.waiting = len(report.spared), report.waiting
        summary.disposed, summary.in_use = list(retained.disposed), list(retained.in_use)
    return summary
