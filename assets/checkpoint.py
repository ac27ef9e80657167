"""`<job>/checkpoint`: the newest completed checkpoint of a stream, as an external asset."""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from lakestate.assets.metadata import Metadata, checkpoint_metadata, lineage_link, size_metadata
from lakestate.assets.names import KINDS, checkpoint_key, dagster_name
from lakestate.rest.job_bodies import SourceLag
from state_engine.checkpoint.table import CheckpointRow

_LAGS = dg.TableSchema([dg.TableColumn("source"), dg.TableColumn("records", "int"), dg.TableColumn("seconds", "float")])


def build_checkpoint_spec(
    job: str, *, fresh_within: timedelta | None = None, sources: Sequence[dg.AssetKey] = ()
) -> dg.AssetSpec:
    """Returns `<job>/checkpoint`.

    Args:
        job: Name of the job.
        fresh_within: A checkpoint older than this makes the asset overdue, such as that of a stream that has died; at
            least one minute. None for a stream that may be idle.
        sources: The assets of the sources of the job.
    """
    return dg.AssetSpec(
        key=checkpoint_key(job),
        deps=sources,
        group_name=dagster_name(job),
        kinds=KINDS,
        description=(
            f"The newest completed checkpoint of the stream `{job}`. The stream takes it, with or without Dagster, and "
            f"the sensor `{dagster_name(job)}_checkpoints` reports it here. It cannot be materialised; to keep the "
            f"state of this moment, materialise `{job}/savepoint`."
        ),
        metadata=lineage_link(job),
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=fresh_within) if fresh_within else None,
    )


def checkpoint_materialization(
    key: dg.AssetKey, row: CheckpointRow, *, skipped: int, uri: str, now_ms: int, sources: Sequence[SourceLag] = ()
) -> dg.AssetMaterialization:
    """Returns the event of one checkpoint.

    Args:
        key: Key of the asset.
        row: The checkpoint.
        skipped: Number of completed checkpoints between the last reported one and this one; they have no event.
        uri: Folder of the job.
        now_ms: Time of the report.
        sources: How far the job is behind its sources, as its process tells at that time.
    """
    metadata: Metadata = {
        **checkpoint_metadata(row, changed_rows=row.changed_rows, skipped=skipped, now_ms=now_ms),
        "type": dg.MetadataValue.text(row.type or ""),
        "state_bytes": dg.MetadataValue.int(row.state_bytes),
        **_source_metadata(sources),
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
        asset_key=key,
        description=f"Checkpoint {row.checkpoint_id} at epoch {row.epoch} of generation {row.generation}.",
        metadata=metadata,
        tags={"dagster/data_version": row.id},
    )


def _source_metadata(sources: Sequence[SourceLag]) -> Metadata:
    """Returns the lag behind the sources: of all in one number each, and of each in a table."""
    known = [source for source in sources if source.lag_records is not None]
    records = sum(source.lag_records or 0 for source in known)
    seconds = max((source.lag_seconds or 0.0 for source in known), default=0.0)
    rows = [
        dg.TableRecord({"source": one.name, "records": one.lag_records, "seconds": one.lag_seconds}) for one in known
    ]
    return {
        "source_lag_records": dg.MetadataValue.int(records) if known else dg.MetadataValue.null(),
        "source_lag_s": dg.MetadataValue.float(seconds) if known else dg.MetadataValue.null(),
        "source_lags": dg.MetadataValue.table(rows, _LAGS) if known else dg.MetadataValue.null(),
    }


__all__ = ["build_checkpoint_spec", "checkpoint_materialization"]
