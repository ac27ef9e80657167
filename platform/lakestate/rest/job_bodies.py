"""Bodies about the server and its jobs, with Flink's names."""

import msgspec

from lakestate.failure_facts import FailureFacts
from lakestate.rest.job_port import JobStatus

TASK_STATES = (
    "created",
    "scheduled",
    "deploying",
    "running",
    "finished",
    "canceling",
    "canceled",
    "failed",
    "reconciling",
    "initializing",
)


class Features(msgspec.Struct, kw_only=True, rename="kebab"):
    """What Flink's web pages may offer."""

    web_submit: bool = False
    web_cancel: bool = True
    web_rescale: bool = False
    web_history: bool = False


class Config(msgspec.Struct, kw_only=True, rename="kebab"):
    """The server. `flink-version` is the Flink release that this REST API follows."""

    refresh_interval: int = 3000
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: Features


class Overview(msgspec.Struct, kw_only=True, rename="kebab"):
    """Counts of jobs; slots are the subtasks of those that run."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class JobIdStatus(msgspec.Struct, kw_only=True):
    """A job and its state."""

    id: str
    status: JobStatus


class JobIds(msgspec.Struct, kw_only=True):
    """All jobs of this process."""

    jobs: list[JobIdStatus]


class JobSummary(msgspec.Struct, kw_only=True, rename="kebab"):
    """A job in `flink list`. `tasks` counts subtasks by state, and in `total`."""

    jid: str
    name: str
    job_type: str = msgspec.field(default="STREAMING", name="jobType")
    scheduler_type: str = msgspec.field(default="Default", name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    state: JobStatus
    last_modification: int
    tasks: dict[str, int]
    pending_operators: int = 0


class JobSummaries(msgspec.Struct, kw_only=True):
    """All jobs of this process. Flink's `MultipleJobsDetails`."""

    jobs: list[JobSummary]


class StatusOnly(msgspec.Struct, kw_only=True):
    """A job's state."""

    status: JobStatus


class VertexMetrics(msgspec.Struct, kw_only=True, rename="kebab"):
    """What an operator read and wrote in the newest epoch."""

    read_records: int
    read_records_complete: bool = True
    write_records: int
    write_records_complete: bool = True


class Vertex(msgspec.Struct, kw_only=True, rename="kebab"):
    """An operator."""

    id: str
    name: str
    max_parallelism: int = msgspec.field(name="maxParallelism")
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: VertexMetrics


class PlanInput(msgspec.Struct, kw_only=True):
    """An edge from another operator."""

    id: str
    num: int
    exchange: str = "pipelined_bounded"
    ship_strategy: str = "HASH"


class PlanNode(msgspec.Struct, kw_only=True):
    """An operator and what feeds it."""

    id: str
    operator: str = ""
    parallelism: int
    operator_strategy: str = ""
    description: str
    optimizer_properties: dict[str, str] = {}
    inputs: list[PlanInput] = []


class Plan(msgspec.Struct, kw_only=True):
    """The operators as a graph."""

    jid: str
    name: str
    type: str = "STREAMING"
    nodes: list[PlanNode]


class SourceLag(msgspec.Struct, kw_only=True, rename="kebab"):
    """A source of a job. Not in Flink."""

    name: str
    lag_records: int | None
    lag_seconds: float | None = None


class JobDetail(msgspec.Struct, kw_only=True, rename="kebab"):
    """A job and its operators. Flink's `JobDetailsInfo`, and `sources`."""

    jid: str
    name: str
    is_stoppable: bool = msgspec.field(default=True, name="isStoppable")
    state: JobStatus
    job_type: str = "STREAMING"
    scheduler_type: str = msgspec.field(default="Default", name="schedulerType")
    start_time: int
    end_time: int
    duration: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    now: int
    timestamps: dict[str, int]
    vertices: list[Vertex]
    status_counts: dict[str, int]
    plan: Plan
    pending_operators: int = 0
    sources: list[SourceLag] = []


class ExecutionConfig(msgspec.Struct, kw_only=True, rename="kebab"):
    """How a job runs."""

    restart_strategy: str = "The process ends; its supervisor decides."
    job_parallelism: int
    object_reuse_mode: bool = False
    user_config: dict[str, str] = {}


class JobConfig(msgspec.Struct, kw_only=True, rename="kebab"):
    """How a job is configured."""

    jid: str
    name: str
    execution_config: ExecutionConfig


class ExceptionEntry(msgspec.Struct, kw_only=True, rename="camel"):
    """One failure. `failure` is not in Flink."""

    exception_name: str
    stacktrace: str
    timestamp: int
    failure: FailureFacts | None = None  # a process of an earlier release sends none


class ExceptionHistory(msgspec.Struct, kw_only=True):
    """Failures, newest first."""

    entries: list[ExceptionEntry]
    truncated: bool = False


class JobExceptions(msgspec.Struct, kw_only=True, rename="camel"):
    """What a job, or an attempt to stop it with a savepoint, failed with."""

    exception_history: ExceptionHistory


class Incarnation(msgspec.Struct, kw_only=True):
    """The process that runs a job, and its progress. Not in Flink."""

    jid: str
    name: str
    state: JobStatus
    pid: int
    incarnation: str
    generation: int
    epoch: int
    epochs: int
    epoch_seconds: float
    records: int
    source_lag_records: int | None = None
