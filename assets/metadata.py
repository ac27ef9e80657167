"""What checkpoints and savepoints say alike, so that their pages draw the same plots."""

from typing import Any

import dagster as dg

Metadata = dict[str, dg.MetadataValue[Any]]


def size_metadata(
    *, generation: int, epoch: int, seconds: float, size: int, rows: int | None, keys: int | None, uri: str
) -> Metadata:
    """Returns the entries that every checkpoint and savepoint has.

    Args:
        generation: Of the epoch.
        epoch: That the checkpoint or savepoint stands for.
        seconds: How long it took.
        size: Bytes that were written for it, or that it holds.
        rows: Live rows of all states; None when the subtasks did not tell.
        keys: Live keys of all operators; None when the subtasks did not tell.
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


__all__ = ["Metadata", "size_metadata"]
