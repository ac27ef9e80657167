"""Dagster assets of one stream, from sources and states to compaction (import name: `lakestate.assets`)."""

from state_engine.extras import from_extra

with from_extra("dagster"):
    from lakestate.assets.checkpoint import build_checkpoint_spec
    from lakestate.assets.checkpoint_checks import build_checkpoint_checks
    from lakestate.assets.compaction import build_compaction_asset
    from lakestate.assets.lineage import build_lineage
    from lakestate.assets.names import (
        checkpoint_key,
        compaction_key,
        dagster_name,
        rescaled_state_key,
        restored_state_key,
        retention_key,
        savepoint_key,
        savepoint_partitions,
        state_key,
        stream_pool,
    )
    from lakestate.assets.rescaled_state import build_rescaled_state_asset
    from lakestate.assets.restored_state import build_restored_state_asset
    from lakestate.assets.retention import build_retention_asset
    from lakestate.assets.savepoint import build_savepoint_asset
    from lakestate.assets.stream_plan import StreamPlan

__all__ = [
    "StreamPlan",
    "build_checkpoint_checks",
    "build_checkpoint_spec",
    "build_compaction_asset",
    "build_lineage",
    "build_rescaled_state_asset",
    "build_restored_state_asset",
    "build_retention_asset",
    "build_savepoint_asset",
    "checkpoint_key",
    "compaction_key",
    "dagster_name",
    "rescaled_state_key",
    "restored_state_key",
    "retention_key",
    "savepoint_key",
    "savepoint_partitions",
    "state_key",
    "stream_pool",
]
