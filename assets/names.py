"""What the assets of one job are called."""

import re

import dagster as dg

KINDS = {"spark", "deltalake"}
JOB_TAG = "lakestate/job"
_TAKEN = ("sources", "sinks")  # an operator may have such a uid, too
MAX_RUNTIME_S = 3_600
"""A run that takes longer is ended by Dagster's run monitoring: its host may have died, and others want the pool."""


def dagster_name(job: str) -> str:
    """Returns the job's name as Dagster takes it for groups, pools and sensors: letters, digits and underscores.

    Two jobs whose names differ only in signs cannot stand in one code location; Dagster refuses them by name.
    """
    return re.sub(r"[^A-Za-z0-9]", "_", job)


def checkpoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/checkpoint`."""
    return dg.AssetKey([job, "checkpoint"])


def state_key(job: str, table: str) -> dg.AssetKey:
    """Returns the key of `<job>/<operator uid>/<state>`.

    Args:
        job: Name of the job.
        table: Folder of the state below the job's root; that of operator state begins with `_operator/`.
    """
    parts = table.split("/")
    return dg.AssetKey([job, "operators", *parts] if parts[0] in _TAKEN else [job, *parts])


def source_key(job: str, name: str) -> dg.AssetKey:
    """Returns the key of a source of a job, unless the code location has an asset of its own for it."""
    return dg.AssetKey([job, "sources", name])


def sink_key(job: str, uid: str) -> dg.AssetKey:
    """Returns the key of a sink of a job, unless the code location has an asset of its own for it."""
    return dg.AssetKey([job, "sinks", uid])


def savepoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/savepoint`."""
    return dg.AssetKey([job, "savepoint"])


def partitions_name(job: str) -> str:
    """Returns the name under which Dagster keeps the savepoints of a job."""
    return f"{job}_savepoints"


def savepoint_partitions(job: str) -> dg.DynamicPartitionsDefinition:
    """Returns the savepoints of a job as partitions: one partition, one savepoint."""
    return dg.DynamicPartitionsDefinition(name=partitions_name(job))


def retention_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/retention`."""
    return dg.AssetKey([job, "retention"])


def compaction_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/compaction`."""
    return dg.AssetKey([job, "compaction"])


def restored_state_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/restored_state`."""
    return dg.AssetKey([job, "restored_state"])


def rescaled_state_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/rescaled_state`."""
    return dg.AssetKey([job, "rescaled_state"])


def run_tags(job: str) -> dict[str, str]:
    """Returns the tags of runs that sensors and schedules ask for: whose they are, and when they give the pool back."""
    return {JOB_TAG: job, "dagster/max_runtime": str(MAX_RUNTIME_S)}


def stream_pool(job: str) -> str:
    """Returns the pool that lets one run at a time touch a stream."""
    return f"stream_{dagster_name(job)}"


__all__ = [
    "JOB_TAG",
    "KINDS",
    "MAX_RUNTIME_S",
    "checkpoint_key",
    "compaction_key",
    "dagster_name",
    "partitions_name",
    "rescaled_state_key",
    "restored_state_key",
    "retention_key",
    "run_tags",
    "savepoint_key",
    "savepoint_partitions",
    "sink_key",
    "source_key",
    "state_key",
    "stream_pool",
]
