"""What the assets of one job are called."""

import re

import dagster as dg

KINDS = {"spark", "deltalake"}


def dagster_name(job: str) -> str:
    """Returns the job's name as Dagster takes it for groups, pools and sensors: letters, digits and underscores.

    Two jobs whose names differ only in signs cannot stand in one code location; Dagster refuses them by name.
    """
    return re.sub(r"[^A-Za-z0-9]", "_", job)


def checkpoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/checkpoint`."""
    return dg.AssetKey([job, "checkpoint"])


def savepoint_key(job: str) -> dg.AssetKey:
    """Returns the key of `<job>/savepoint`."""
    return dg.AssetKey([job, "savepoint"])


def savepoint_partitions(job: str) -> dg.DynamicPartitionsDefinition:
    """Returns the savepoints of a job as partitions: one partition, one savepoint."""
    return dg.DynamicPartitionsDefinition(name=f"{job}_savepoints")


def stream_pool(job: str) -> str:
    """Returns the pool that lets one run at a time touch a stream."""
    return f"stream_{dagster_name(job)}"


__all__ = ["KINDS", "checkpoint_key", "dagster_name", "savepoint_key", "savepoint_partitions", "stream_pool"]
