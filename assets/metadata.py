"""Metadata that checkpoints, states and savepoints share, so that their pages have the same plots."""

from typing import Any

import dagster as dg

from lakestate.assets.names import lineage_path
from state_engine.checkpoint.table import CheckpointRow

Metadata = dict[str, dg.MetadataValue[Any]]
MARK_ID = "checkpoint_id"
MARK_MANIFEST = "manifest"


def lineage_link(job: str) -> Metadata:
    """Returns the entry that every asset of a job has: a link to its lineage."""
    return {"lineage": dg.MetadataValue.url(lineage_path(job))}


def size_metadata(
    *, generation: int, epoch: int, seconds: float, size: int, rows: int | None, keys: int | None, uri: str
) -> Metadata:
    """Returns the entries that every checkpoint and savepoint has.

    Args:
        generation: Of the epoch.
        epoch: The epoch of the checkpoint or savepoint.
        seconds: How long it took.
        size: Bytes that were written for it, or that it keeps.
        rows: Live rows of all states; None if the subtasks did not report them.
        keys: Live keys of all operators; None if the subtasks did not report them.
        uri: Folder of the job.
    """
    return {
        "generation": dg.MetadataValue.int(generation),
        "epoch": dg.MetadataValue.int(epoch),
        "duration_s": dg.MetadataValue.float(round(seconds, 3)),
        "bytes": dg.MetadataValue.int(size),
        "keys": dg.MetadataValue.int(keys) if keys is not None else dg.MetadataValue.null(),
        "dagster/row_count": dg.MetadataValue.int(rows) if rows is not None else dg.MetadataValue.null(),
        "dagster/uri": dg.MetadataValue.text(uri),
    }


def checkpoint_metadata(row: CheckpointRow, *, changed_rows: int, skipped: int, now_ms: int) -> Metadata:
    """Returns the entries that the event of a checkpoint and those of its states have.

    Args:
        row: The checkpoint.
        changed_rows: Rows that it added, of all states or of one.
        skipped: Number of completed checkpoints between the last reported one and this one; they have no event.
        now_ms: Time of the report; the lag is the time since the epoch of the checkpoint.
    """
    return {
        MARK_ID: dg.MetadataValue.int(row.checkpoint_id or 0),
        MARK_MANIFEST: dg.MetadataValue.text(row.manifest),
        "completed_at": dg.MetadataValue.timestamp(row.completed_at / 1000),
        "lag_s": dg.MetadataValue.float(round(max(0, now_ms - row.triggered_at) / 1000, 3)),
        "changed_rows": dg.MetadataValue.int(changed_rows),
        "skipped_checkpoints": dg.MetadataValue.int(skipped),
    }


__all__ = ["MARK_ID", "MARK_MANIFEST", "Metadata", "checkpoint_metadata", "lineage_link", "size_metadata"]
