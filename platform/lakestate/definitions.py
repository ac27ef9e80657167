"""The code location: all registered jobs, with their state under `LAKESTATE_ROOT`.

The default root is where `lakestate demo --dir .lakestate` writes it, relative to the folder where Dagster is started.
"""

import os
from datetime import timedelta
from pathlib import Path

import dagster as dg

from lakestate.policies import (
    CheckLimits,
    ExponentialDelay,
    RescalePolicy,
    SavepointPolicy,
    StreamPolicies,
    StreamRetention,
)
from lakestate.registry import registered_jobs
from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions

ROOT = "LAKESTATE_ROOT"
DEFAULT_ROOT = ".lakestate/state"

DEFAULT_POLICIES = StreamPolicies(restart=ExponentialDelay(), savepoints=SavepointPolicy(record_taken_elsewhere=True))
"""For jobs of other distributions."""

POLICIES = {
    # Reads Kafka without end. More subtasks are proposed when it is behind.
    "visits": StreamPolicies(
        report_every=timedelta(seconds=10),
        fresh_within=timedelta(minutes=5),
        limits=CheckLimits(checkpoint_age=timedelta(minutes=5)),
        savepoints=SavepointPolicy(cron="30 * * * *", record_taken_elsewhere=True),
        restart=ExponentialDelay(),
        rescale=RescalePolicy(action="propose", max_parallelism=4),
    ),
    # Reads its input, then is idle. Users take savepoints; the policy takes one before a deployment and a rescale.
    "flights": StreamPolicies(
        report_every=timedelta(seconds=10),
        fresh_within=timedelta(hours=1),
        limits=CheckLimits(checkpoint_age=timedelta(hours=1)),
        savepoints=SavepointPolicy(on_new_code_version=True, before_rescale=True, record_taken_elsewhere=True),
        restart=ExponentialDelay(),
    ),
    # Never ends: policies run its savepoints, retention and compaction.
    "orders": StreamPolicies(
        report_every=timedelta(seconds=10),
        fresh_within=timedelta(minutes=5),
        limits=CheckLimits(checkpoint_age=timedelta(minutes=5)),
        savepoints=SavepointPolicy(
            cron="0 * * * *",
            growth_percent=100,
            failures_in_a_row=3,
            before_rescale=True,
            record_taken_elsewhere=True,
        ),
        restart=ExponentialDelay(),
        retention=StreamRetention(cron="15 * * * *", compaction_cron="30 3 * * *"),
        rescale=RescalePolicy(action="propose", max_parallelism=8),
    ),
}
"""How the jobs of this repository are operated."""

LEFT_OUT = frozenset({"fraud", "visits"})
"""Examples that need more than this repository keeps running: shown once they have a folder below a root on a disk."""


def load_definitions() -> dg.Definitions:
    """Returns the definitions of all registered jobs."""
    root = os.environ.get(ROOT) or str(Path(DEFAULT_ROOT).absolute())
    state_store = StateStoreResource(root=root)
    return dg.Definitions.merge(
        *(
            build_stream_definitions(job, state_store, POLICIES.get(job, DEFAULT_POLICIES))
            for job in registered_jobs()
            if job not in LEFT_OUT or os.path.isdir(os.path.join(root, job))
        )
    )


defs = load_definitions()

__all__ = ["DEFAULT_POLICIES", "DEFAULT_ROOT", "LEFT_OUT", "POLICIES", "ROOT", "defs", "load_definitions"]
