"""All policies of one stream, with their defaults. Pure."""

from dataclasses import dataclass, field
from datetime import timedelta

from lakestate.policies.limits import CheckLimits
from lakestate.policies.rescale import RescalePolicy
from lakestate.policies.restart import RestartPolicy
from lakestate.policies.retention import StreamRetention
from lakestate.policies.savepoints import SavepointPolicy


@dataclass(frozen=True, kw_only=True)
class StreamPolicies:
    """How one stream is operated. By default it is watched and reported, and nothing is changed.

    Attributes:
        report_every: Time between two looks for a new checkpoint; each look writes at most one event per asset.
        fresh_within: A checkpoint older than this makes `<job>/checkpoint` overdue; at least one minute. None for a
            stream that may be idle.
        watch_every: Time between two looks at the driver; it is restarted only at such a look.
        savepoints: When savepoints are taken automatically, and how close to each other.
        retention: What is kept, and when the rest is deleted.
        restart: When a driver that failed is restarted, if a user started the stream supervised. None: it is reported
            as failed, and not restarted.
        rescale: When a stream gets another parallelism.
        limits: Limits above which a check fails.
        trigger_interval_ms: Time between the beginnings of two epochs with input, where Dagster starts the stream; the
            first record after a pause does not wait. None: that of its last start, or the engine's.
        sample_rows: How many rows of each state Dagster shows; 0 for state that must not be copied there.
    """

    report_every: timedelta = timedelta(seconds=30)
    fresh_within: timedelta | None = None
    watch_every: timedelta = timedelta(seconds=10)
    savepoints: SavepointPolicy = field(default_factory=SavepointPolicy)
    retention: StreamRetention = field(default_factory=StreamRetention)
    restart: RestartPolicy | None = None
    rescale: RescalePolicy = field(default_factory=RescalePolicy)
    limits: CheckLimits = field(default_factory=CheckLimits)
    trigger_interval_ms: int | None = None
    sample_rows: int = 5


__all__ = ["StreamPolicies"]
