"""Names of one job's Dagster definitions: asset keys, group, pool, partitions and tags."""

import re

import dagster as dg

KINDS = {"spark", "deltalake"}
JOB_TAG = "lakestate/job"
_TAKEN = ("sources", "sinks")  # an operator may have such a uid, too
MAX_RUNTIME_S = 3_600
"""Dagster's run monitoring ends a longer run: its host may have died, and other runs wait for the pool."""


def dagster_name(job: str) -> str:
    """Returns the job's name as Dagster accepts it for groups, pools and sensors: letters, digits and underscores.

    Two jobs with names that differ only in other characters cannot be in one code location: Dagster raises an error
    that names the duplicate definition.
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
    """Returns the key of a source of a job; not used if the code location has its own asset for the source."""
    return dg.AssetKey([job, "sources", name])


def sink_key(job: str, uid: str) -> dg.AssetKey:
    """Returns the key of a sink of a job; not used if the code location has its own asset for the sink."""
    return dg.AssetKey([job, "sinks", uid])


def savepoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/savepoint`."""
    return dg.AssetKey([job, "savepoint"])


def partitions_name(job: str) -> str:
    """Returns the name of the dynamic partitions with the savepoints of a job."""
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
    """Returns the tags of runs that sensors and schedules request: their job, and how long they may hold the pool."""
    return {JOB_TAG: job, "dagster/max_runtime": str(MAX_RUNTIME_S)}


def stream_pool(job: str) -> str:
    """Returns the pool that allows only one run at a time for a stream."""
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
