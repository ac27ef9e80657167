"""The route table: it defines the routes of the server, of its OpenAPI document and of `docs/rest.md`."""

from typing import Literal, NamedTuple

import msgspec

from lakestate.rest import bodies, checkpoint_bodies, job_bodies, job_handlers, retention_bodies
from lakestate.rest import checkpoint_handlers as checkpoints
from lakestate.rest import operation_handlers as operations
from lakestate.rest.calls import Handler
from lakestate.rest.metrics import metrics


class Route(NamedTuple):
    """One route. The first line of the handler's docstring is its summary."""

    method: Literal["GET", "POST", "PATCH"]
    path: str
    handler: Handler
    answer: type[msgspec.Struct] | None
    body: type[msgspec.Struct] | None = None
    status: int = 200
    query: tuple[str, ...] = ()
    is_flinks: bool = True

    @property
    def summary(self) -> str:
        """What the route is for."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


JOB = "/jobs/{jobid}"

ROUTES = (
    Route("GET", "/config", job_handlers.config, job_bodies.Config),
    Route("GET", "/overview", job_handlers.overview, job_bodies.Overview),
    Route("GET", "/jobs", job_handlers.jobs, job_bodies.JobIds),
    Route("GET", "/jobs/overview", job_handlers.jobs_overview, job_bodies.JobSummaries),
    Route("GET", JOB, job_handlers.job, job_bodies.JobDetail),
    Route("PATCH", JOB, operations.cancel, bodies.Empty, status=202, query=("mode",)),
    Route("GET", f"{JOB}/status", job_handlers.status, job_bodies.StatusOnly),
    Route("GET", f"{JOB}/config", job_handlers.job_config, job_bodies.JobConfig),
    Route(
        "PATCH",
        f"{JOB}/trigger",
        operations.set_trigger,
        job_bodies.JobConfig,
        query=("interval-ms",),
        is_flinks=False,
    ),
    Route("GET", f"{JOB}/exceptions", job_handlers.exceptions, job_bodies.JobExceptions),
    Route("GET", f"{JOB}/incarnation", job_handlers.incarnation, job_bodies.Incarnation, is_flinks=False),
    Route("GET", f"{JOB}/checkpoints", checkpoints.checkpoint_statistics, checkpoint_bodies.Statistics),
    Route(
        "POST",
        f"{JOB}/checkpoints",
        operations.trigger_checkpoint,
        bodies.Triggered,
        bodies.CheckpointTrigger,
        status=202,
    ),
    Route("GET", f"{JOB}/checkpoints/config", checkpoints.checkpoint_config, checkpoint_bodies.CheckpointConfigInfo),
    Route(
        "GET",
        f"{JOB}/checkpoints/details/{{checkpointid}}",
        checkpoints.checkpoint_details,
        checkpoint_bodies.Checkpoint,
    ),
    Route("GET", f"{JOB}/checkpoints/{{triggerid}}", operations.checkpoint_result, bodies.CheckpointResult),
    Route(
        "POST",
        f"{JOB}/savepoints",
        operations.trigger_savepoint,
        bodies.Triggered,
        bodies.SavepointTrigger,
        status=202,
    ),
    Route("GET", f"{JOB}/savepoints/{{triggerid}}", operations.savepoint_result, bodies.SavepointResult),
    Route("POST", f"{JOB}/stop", operations.stop, bodies.Triggered, bodies.StopWithSavepoint, status=202),
    Route(
        "PATCH",
        f"{JOB}/rescaling",
        operations.rescale,
        bodies.Triggered,
        bodies.Rescaling,
        status=202,
        query=("parallelism",),
        is_flinks=False,
    ),
    Route("GET", f"{JOB}/rescaling/{{triggerid}}", operations.rescaling_result, bodies.PlainResult, is_flinks=False),
    Route(
        "POST",
        f"{JOB}/key-groups",
        operations.restore_key_groups,
        bodies.Triggered,
        bodies.KeyGroupsRestore,
        status=202,
        is_flinks=False,
    ),
    Route(
        "GET", f"{JOB}/key-groups/{{triggerid}}", operations.key_groups_result, bodies.KeyGroupsResult, is_flinks=False
    ),
    Route(
        "POST",
        f"{JOB}/retention",
        operations.retain,
        bodies.Triggered,
        retention_bodies.RetentionTrigger,
        status=202,
        is_flinks=False,
    ),
    Route(
        "GET",
        f"{JOB}/retention/{{triggerid}}",
        operations.retention_result,
        retention_bodies.RetentionResult,
        is_flinks=False,
    ),
    Route("POST", "/savepoint-disposal", operations.dispose_savepoint, bodies.Triggered, bodies.SavepointDisposal),
    Route("GET", "/savepoint-disposal/{triggerid}", operations.disposal_result, bodies.PlainResult),
    Route("GET", "/metrics", metrics, None, is_flinks=False),
)

__all__ = ["ROUTES", "Route"]
