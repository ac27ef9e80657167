"""The newest completed checkpoint of a stream, as an external asset."""

from datetime import timedelta

import dagster as dg

from lakestate.assets.metadata import Metadata, size_metadata
from lakestate.assets.names import KINDS, checkpoint_key, dagster_name
from state_engine.checkpoint.table import CheckpointRow

MARK_ID = "checkpoint_id"
MARK_MANIFEST = "manifest"


def build_checkpoint_spec(job: str, *, fresh_within: timedelta | None = None) -> dg.AssetSpec:
    """Returns `<job>/checkpoint`.

    Args:
        job: Name of the job.
        fresh_within: A checkpoint older than this makes the asset overdue, as that of a stream that has died; at
            least one minute. None for a stream that is allowed to rest.
    """
    return dg.AssetSpec(
        key=checkpoint_key(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        description=(
            f"The newest completed checkpoint of the stream `{job}`. The stream makes it, with or without Dagster; "
            "the sensor reports it here."
        ),
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=fresh_within) if fresh_within else None,
    )


def checkpoint_materialization(job: str, row: CheckpointRow, *, skipped: int, uri: str) -> dg.AssetMaterialization:
    """Returns the event of one checkpoint.

    Args:
        job: Name of the job.
        row: The checkpoint.
        skipped: How many completed checkpoints between the last reported one and this one have no event.
        uri: Folder of the job.
    """
    metadata: Metadata = {
        MARK_ID: dg.MetadataValue.int(row.checkpoint_id or 0),
        MARK_MANIFEST: dg.MetadataValue.text(row.manifest),
        "completed_at": dg.MetadataValue.timestamp(row.completed_at / 1000),
        "type": dg.MetadataValue.text(row.type or ""),
        "state_bytes": dg.MetadataValue.int(row.state_bytes),
        "changed_rows": dg.MetadataValue.int(row.changed_rows),
        "skipped_checkpoints": dg.MetadataValue.int(skipped),
        **size_metadata(
            generation=row.generation,
            epoch=row.epoch,
            seconds=row.duration_ms / 1000,
            size=row.bytes,
            rows=row.rows,
            keys=sum(row.keys.values()) if row.rows is not None else None,
            uri=uri,
        ),
    }
    return dg.AssetMaterialization(
        asset_key=checkpoint_key(job),
        description=f"Checkpoint {row.checkpoint_id} at epoch {row.epoch} of generation {row.generation}.",
        metadata=metadata,
        tags={"dagster/data_version": row.id},
    )


__all__ = ["MARK_ID", "MARK_MANIFEST", "build_checkpoint_spec", "checkpoint_materialization"]
