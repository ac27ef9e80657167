"""Two Dagster jobs of one stream, for use in the UI: one starts its driver, the other stops it."""

from typing import Any, Literal

import dagster as dg
import msgspec
from pydantic import Field

from lakestate.assets.failures import named_failures, refused
from lakestate.assets.names import dagster_name, run_tags, stream_pool
from lakestate.resources import JobControlResource
from lakestate.start_request import StartRequest
from lakestate.supervision import Condition, wanted_of
from state_engine.savepoint import SavepointRequest

_START = (
    "Starts the driver of the stream `{job}` as a process of its own, supervised: it goes on after this run has "
    "ended, and is restarted when it fails. It resumes from its newest sealed epoch, with the options of its last "
    "start, unless the Launchpad gives others. A stream that runs already is never started twice."
)
_STOP = (
    "Stops the driver of the stream `{job}` between two epochs, after a savepoint; if the savepoint fails, the stream "
    "goes on. It stays stopped until a user starts it. State and tables are never deleted."
)


class StartConfig(dg.Config):
    """How a stream is started; an omitted setting is that of its last start."""

    options: dict[str, str] = Field({}, description="Options of the job. They replace those of the last start.")
    restore: str | None = Field(None, description="Start from a savepoint id, checkpoint:ID or epoch:GENERATION/EPOCH.")
    uid_mapping: dict[str, str] = Field({}, description="For restore: former uid of an operator to its current uid.")
    max_parallelism: int | None = Field(None, description="For restore: new number of key groups for all keys.")
    allow_non_restored_state: bool = Field(False, description="For restore: skip state of operators that are gone.")
    resume_state: list[str] = Field([], description="Operators, removed and added again, that get their old state.")
    discard_state: list[str] = Field([], description="Operators, removed and added again, that start without state.")
    keep_output: bool = Field(
        False, description="Keep the rows that sinks have, and leave out owed output that a sink cannot take."
    )
    adopt_sinks: bool = Field(False, description="Keep rows in the sinks that the state root does not know about.")
    allow_changed_sources: list[int] = Field([], description="Numbers of sources that are allowed to have changed.")
    parallelism: int | None = Field(None, description="Subtasks of every operator.")
    trigger_interval_ms: int | None = Field(None, ge=0, description="Time between the beginnings of two epochs, in ms.")
    cores: str | None = Field(None, description="Task slots of a Spark session on this machine, not on a cluster.")
    master: str | None = Field(
        None, description="Address of a cluster: spark://HOST:7077, yarn, k8s://https://HOST:443."
    )
    python: str | None = Field(None, description="The interpreter of the cluster's executors.")
    environment: str | None = Field(None, description="A packed environment that Spark sends to the executors.")
    conf: dict[str, str] | None = Field(
        None, description="Further settings of Spark, but no secrets. They replace those of the last start."
    )


class StopConfig(dg.Config):
    """How a stream is stopped."""

    savepoint: bool = Field(True, description="Take a savepoint first. If that fails, the stream goes on.")
    kind: Literal["native", "canonical"] = Field("native", description="A canonical savepoint can be moved elsewhere.")
    label: str = Field("", description="A short label.")
    note: str = Field("", description="A free-text note.")
    drain: bool = Field(False, description="End the input first, so that all windows and event-time timers fire.")


def build_stream_jobs(job: str, trigger_interval_ms: int | None = None) -> list[dg.JobDefinition]:
    """Returns `<job>_start` and `<job>_stop`, which never run together with a restore or a rescale of the stream.

    Args:
        job: Name of the job.
        trigger_interval_ms: For starts whose configuration gives none; None: that of the last start.
    """
    name, pool = dagster_name(job), stream_pool(job)

    @dg.op(name=f"start_{name}", pool=pool, description=_START.format(job=job))
    def start(context: dg.OpExecutionContext, config: StartConfig, job_control: JobControlResource) -> None:
        with named_failures():
            started = job_control.start(job, _request(job_control, job, config, trigger_interval_ms))
            context.log.info(f"{job} is starting as process {started.pid}.")
            seen = job_control.await_start(job)
        if seen.condition is Condition.FAILED:
            raise refused(f"{job} has not started: {seen.last_words.cause}", action=f"Its log: {job_control.log(job)}")
        context.add_output_metadata({"pid": started.pid, "condition": str(seen.condition), "url": seen.url or ""})

    @dg.op(name=f"stop_{name}", pool=pool, description=_STOP.format(job=job))
    def stop(context: dg.OpExecutionContext, config: StopConfig, job_control: JobControlResource) -> None:
        request = SavepointRequest(kind=config.kind, label=config.label, note=config.note, trigger="dagster")
        with named_failures():
            location = job_control.stop(job, savepoint=request if config.savepoint else None, drain=config.drain)
        metadata: dict[str, Any] = {"savepoint": location or "none", "drained": config.drain}
        context.add_output_metadata(metadata)

    return [_job_of(job, "start", start), _job_of(job, "stop", stop)]


def _job_of(job: str, verb: str, op: dg.OpDefinition) -> dg.JobDefinition:
    graph = dg.GraphDefinition(name=f"{dagster_name(job)}_{verb}", node_defs=[op])
    return graph.to_job(description=op.description, tags=run_tags(job))


def _request(
    job_control: JobControlResource, job: str, config: StartConfig, trigger_interval_ms: int | None
) -> StartRequest:
    before = wanted_of(job_control.root, job)
    last_request = before.request.restored() if before is not None else StartRequest()
    given = config.model_dump(exclude_defaults=True)
    if config.master or config.cores:  # a session of its own, without settings of the last one
        last_request = msgspec.structs.replace(
            last_request, cores=None, master=None, python=None, environment=None, conf={}
        )
    if trigger_interval_ms is not None:
        given.setdefault("trigger_interval_ms", trigger_interval_ms)
    request = msgspec.convert(msgspec.to_builtins(last_request) | given, StartRequest)
    request.check_session()
    return request


__all__ = ["StartConfig", "StopConfig", "build_stream_jobs"]
