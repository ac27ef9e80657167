"""Handlers of requests about the server and its jobs."""

import os
import time
from collections import Counter

from lakestate.rest import job_bodies as bodies
from lakestate.rest.calls import Call
from lakestate.rest.ids import vertex_id
from lakestate.rest.job_port import JobStatus, JobView, Operator

FLINK_VERSION = "2.3.0"
"""The Flink release that this REST API follows."""
TIMESTAMPS: tuple[str, ...] = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "RESTARTING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "SUSPENDED",
    "RECONCILING",
)
_TASK_STATES: dict[JobStatus, str] = {
    "CREATED": "created",
    "RUNNING": "running",
    "FAILING": "running",
    "FAILED": "failed",
    "CANCELLING": "canceling",
    "CANCELED": "canceled",
    "FINISHED": "finished",
}


def config(call: Call) -> bodies.Config:
    """Returns which API this is."""
    return bodies.Config(
        timezone_name=time.tzname[0],
        timezone_offset=-time.timezone * 1000,
        flink_version=FLINK_VERSION,
        flink_revision="lakestate",
        features=bodies.Features(),
    )


def overview(call: Call) -> bodies.Overview:
    """Counts the jobs of this process."""
    views = _views(call)
    states = Counter(view.state for view in views)
    subtasks = sum(op.parallelism for view in views if view.state == "RUNNING" for op in view.operators)
    return bodies.Overview(
        taskmanagers=1,
        slots_total=subtasks,
        slots_available=0,
        jobs_running=states["RUNNING"] + states["CREATED"] + states["FAILING"] + states["CANCELLING"],
        jobs_finished=states["FINISHED"],
        jobs_cancelled=states["CANCELED"],
        jobs_failed=states["FAILED"],
        flink_version=FLINK_VERSION,
        flink_commit="lakestate",
    )


def jobs(call: Call) -> bodies.JobIds:
    """Lists ids and states."""
    return bodies.JobIds(jobs=[bodies.JobIdStatus(id=view.job_id, status=view.state) for view in _views(call)])


def jobs_overview(call: Call) -> bodies.JobSummaries:
    """Lists the jobs, as `flink list` shows them."""
    return bodies.JobSummaries(jobs=[_summary(view) for view in _views(call)])


def job(call: Call) -> bodies.JobDetail:
    """Returns a job and its operators."""
    view = call.job.view()
    since = {str(state): at for state, at in view.since_ms.items()}
    return bodies.JobDetail(
        jid=view.job_id,
        name=view.name,
        state=view.state,
        start_time=view.start_ms,
        end_time=view.end_ms,
        duration=_duration(view),
        max_parallelism=max((op.max_parallelism for op in view.operators), default=-1),
        now=view.now_ms,
        timestamps={state: since.get(state, 0) for state in TIMESTAMPS},
        vertices=[_vertex(op, view) for op in view.operators],
        status_counts=_upper(_tasks(view.state, sum(op.parallelism for op in view.operators))),
        plan=bodies.Plan(jid=view.job_id, name=view.name, nodes=[_node(op) for op in view.operators]),
        sources=[bodies.SourceLag(**one._asdict()) for one in view.sources],
    )


def status(call: Call) -> bodies.StatusOnly:
    """Returns a job's state."""
    return bodies.StatusOnly(status=call.job.view().state)


def job_config(call: Call) -> bodies.JobConfig:
    """Returns how a job is configured."""
    view = call.job.view()
    parallelism = max((op.parallelism for op in view.operators), default=1)
    user_config = {"trigger-interval-ms": str(call.job.trigger_interval_ms())}
    execution = bodies.ExecutionConfig(job_parallelism=parallelism, user_config=user_config)
    return bodies.JobConfig(jid=view.job_id, name=view.name, execution_config=execution)


def exceptions(call: Call) -> bodies.JobExceptions:
    """Returns the failures of a job, and of attempts to stop it with a savepoint."""
    entries = [
        bodies.ExceptionEntry(
            exception_name=failure.facts.type,
            stacktrace=failure.text,
            timestamp=failure.at_ms,
            failure=failure.facts,
        )
        for failure in call.job.failures()
    ]
    return bodies.JobExceptions(exception_history=bodies.ExceptionHistory(entries=entries))


def incarnation(call: Call) -> bodies.Incarnation:
    """Returns which process runs a job, and its progress."""
    view = call.job.view()
    return bodies.Incarnation(
        jid=view.job_id,
        name=view.name,
        state=view.state,
        pid=os.getpid(),
        incarnation=view.incarnation,
        generation=view.generation,
        epoch=view.epoch,
        epochs=view.epochs,
        epoch_seconds=view.epoch_seconds,
        records=view.records,
        source_lag_records=sum(lags) if (lags := _lags(view)) else None,
    )


def _lags(view: JobView) -> list[int]:
    return [source.lag_records for source in view.sources if source.lag_records is not None]


def _views(call: Call) -> list[JobView]:
    return [one.view() for one in call.cluster.jobs.values()]


def _duration(view: JobView) -> int:
    return (view.now_ms if view.end_ms < 0 else view.end_ms) - view.start_ms


def _tasks(state: JobStatus, subtasks: int) -> dict[str, int]:
    return {name: subtasks if name == _TASK_STATES[state] else 0 for name in bodies.TASK_STATES}


def _upper(tasks: dict[str, int]) -> dict[str, int]:
    return {name.upper(): count for name, count in tasks.items()}


def _summary(view: JobView) -> bodies.JobSummary:
    subtasks = sum(op.parallelism for op in view.operators)
    return bodies.JobSummary(
        jid=view.job_id,
        name=view.name,
        start_time=view.start_ms,
        end_time=view.end_ms,
        duration=_duration(view),
        state=view.state,
        last_modification=view.changed_ms,
        tasks={"total": subtasks, **_tasks(view.state, subtasks)},
    )


def _vertex(operator: Operator, view: JobView) -> bodies.Vertex:
    return bodies.Vertex(
        id=vertex_id(operator.uid),
        name=operator.uid,
        max_parallelism=operator.max_parallelism,
        parallelism=operator.parallelism,
        status=_TASK_STATES[view.state].upper(),
        start_time=view.start_ms,
        end_time=view.end_ms,
        duration=_duration(view),
        tasks=_upper(_tasks(view.state, operator.parallelism)),
        metrics=bodies.VertexMetrics(read_records=operator.records_in, write_records=operator.records_out),
    )


def _node(operator: Operator) -> bodies.PlanNode:
    inputs = [bodies.PlanInput(id=vertex_id(uid), num=number) for number, uid in enumerate(operator.upstream)]
    return bodies.PlanNode(
        id=vertex_id(operator.uid), parallelism=operator.parallelism, description=operator.uid, inputs=inputs
    )
