"""`<job>/states/<operator uid>.<state>`: the states of a stream, as external assets, one per state table."""

from collections.abc import Sequence

import dagster as dg
import pyarrow as pa

from lakestate.assets.metadata import Metadata, checkpoint_metadata, lineage_link, size_metadata
from lakestate.assets.names import KINDS, checkpoint_key, dagster_name, state_key, states_group
from lakestate.assets.state_metadata import column_schema, sample_markdown, spread_metadata
from state_engine.checkpoint.table import CheckpointRow, StateRow
from state_engine.log.records import StateSchema


def build_state_spec(job: str, table: str, *, operator: str = "", about: str = "", uri: str = "") -> dg.AssetSpec:
    """Returns `<job>/states/<operator uid>.<state>`.

    Args:
        job: Name of the job.
        table: Folder of the state below the job's root.
        operator: Uid of its operator.
        about: What kind of state it is, if that is known.
        uri: Address of the folder.
    """
    owner = f"operator `{operator}` in " if operator else ""
    return dg.AssetSpec(
        key=state_key(job, table),
        deps=[checkpoint_key(job)],
        group_name=states_group(job),
        kinds=KINDS,
        description=(
            f"{about or 'State'} of {owner}the stream `{job}`, as the newest completed checkpoint published it. The "
            f"sensor `{dagster_name(job)}_checkpoints` reports it. It cannot be materialised, and nothing here "
            f"changes it. `lakestate sql --root … --job {job}` reads it."
        ),
        metadata={**lineage_link(job), **({"dagster/uri": uri} if uri else {})},
    )


def state_materialization(
    key: dg.AssetKey,
    row: CheckpointRow,
    state: StateRow,
    *,
    schema: StateSchema | None,
    groups: Sequence[float],
    sample: pa.Table | None,
    skipped: int,
    uri: str,
    now_ms: int,
) -> dg.AssetMaterialization:
    """Returns the event of one state in one checkpoint; the keys of its metadata are always the same.

    Args:
        key: Key of the asset.
        row: The checkpoint.
        state: The state in it.
        schema: Its types; None if they could not be read.
        groups: Rows of its log in each key group.
        sample: A few of its rows.
        skipped: Number of completed checkpoints between the last one reported for it and this one; they have no event.
        uri: Folder of the state.
        now_ms: Time of the report.
    """
    metadata: Metadata = {
        **checkpoint_metadata(row, changed_rows=state.changed_rows, skipped=skipped, now_ms=now_ms),
        "log_rows": dg.MetadataValue.int(state.log_rows),
        "files": dg.MetadataValue.int(state.files),
        "written": dg.MetadataValue.text(f"from scratch: {state.reason}" if state.full else "on top of the one before"),
        **size_metadata(
            generation=row.generation,
            epoch=row.epoch,
            seconds=row.duration_ms / 1000,
            size=state.bytes,
            rows=state.rows,
            keys=state.keys,
            uri=uri,
        ),
        "dagster/column_schema": dg.MetadataValue.table_schema(column_schema(schema)),
        **spread_metadata(groups),
        "sample": sample_markdown(sample),
    }
    return dg.AssetMaterialization(
        asset_key=key,
        description=f"As of checkpoint {row.checkpoint_id}, epoch {row.epoch} of generation {row.generation}.",
        metadata=metadata,
        tags={"dagster/data_version": row.id},
    )


__all__ = ["build_state_spec", "state_materialization"]
