"""Names of one job's Dagster definitions: asset keys, group, pool, partitions, tags, and links to its lineage.

The lineage shows only the last part of an asset key, so the last parts of all keys of a job differ. Names contain
letters, digits, `.`, `_` and `-`; a dot in a name is doubled, so that `a.b` of state `c` and `a` of state `b.c` differ.
"""

import re

import dagster as dg

KINDS = {"spark", "deltalake"}
JOB_TAG = "lakestate/job"
MAX_RUNTIME_S = 3_600
"""Dagster's run monitoring ends a longer run: its host may have died, and other runs wait for the pool."""


def dagster_name(job: str) -> str:
    """Returns the job's name as Dagster accepts it for groups, pools and sensors: letters, digits and underscores.

    Two jobs with names that differ only in other characters cannot be in one code location: Dagster raises an error
    that names the duplicate definition.
    """
    return re.sub(r"[^A-Za-z0-9]", "_", job)


def states_group(job: str) -> str:
    """Returns the group of the states of a job, nested in the job's own group."""
    return f"{dagster_name(job)}/states"


def sources_group(job: str) -> str:
    """Returns the group of the sources of a job, nested in the job's own group."""
    return f"{dagster_name(job)}/sources"


def sinks_group(job: str) -> str:
    """Returns the group of the sinks of a job, nested in the job's own group."""
    return f"{dagster_name(job)}/sinks"


def checkpoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/checkpoint`."""
    return dg.AssetKey([job, "checkpoint"])


def state_key(job: str, table: str) -> dg.AssetKey:
    """Returns the key of `<job>/states/<operator uid>.<state>`; SQL has the same name for the state.

    Args:
        job: Name of the job.
        table: Folder of the state below the job's root; that of operator state begins with `_operator/`.
    """
    return dg.AssetKey([job, "states", ".".join(map(_doubled, table.split("/")))])


def source_key(job: str, name: str) -> dg.AssetKey:
    """Returns the key of `<job>/sources/<name>_source`; not used if the code location has its own asset for it."""
    return dg.AssetKey([job, "sources", f"{_doubled(name)}_source"])


def sink_key(job: str, uid: str) -> dg.AssetKey:
    """Returns the key of `<job>/sinks/<uid>_sink`; not used if the code location has its own asset for the sink."""
    return dg.AssetKey([job, "sinks", f"{_doubled(uid)}_sink"])


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


def lineage_path(job: str, *, nested: bool = False) -> str:
    """Returns the path of Dagster's lineage with the group of a job expanded.

    Dagster's page reads the groups from the parameter `expanded`. `global@global:` is its prefix for a group that may
    span code locations, as all groups do by default.

    Args:
        job: Name of the job.
        nested: Whether the groups of its sources, states and sinks are expanded, too.
    """
    groups = [dagster_name(job), *([sources_group(job), states_group(job), sinks_group(job)] if nested else [])]
    return "/asset-groups?expanded=" + ",".join(f"global@global:{group}" for group in groups)


def run_tags(job: str) -> dict[str, str]:
    """Returns the tags of runs that sensors and schedules request: their job, and how long they may hold the pool."""
    return {JOB_TAG: job, "dagster/max_runtime": str(MAX_RUNTIME_S)}


def stream_pool(job: str) -> str:
    """Returns the pool that allows only one run at a time for a stream."""
    return f"stream_{dagster_name(job)}"


def _doubled(name: str) -> str:
    return name.replace(".", "..")


__all__ = [
    "JOB_TAG",
    "KINDS",
    "MAX_RUNTIME_S",
    "checkpoint_key",
    "compaction_key",
    "dagster_name",
    "lineage_path",
    "partitions_name",
    "rescaled_state_key",
    "restored_state_key",
    "retention_key",
    "run_tags",
    "savepoint_key",
    "savepoint_partitions",
    "sink_key",
    "sinks_group",
    "source_key",
    "sources_group",
    "state_key",
    "states_group",
    "stream_pool",
]
