"""Dagster assets of one stream, from checkpoints to compaction (import name: `lakestate.assets`)."""

from lakestate.assets.checkpoint import build_checkpoint_spec
from lakestate.assets.compaction import build_compaction_asset
from lakestate.assets.names import (
    checkpoint_key,
    compaction_key,
    dagster_name,
    rescaled_state_key,
    restored_state_key,
    retention_key,
    savepoint_key,
    savepoint_partitions,
    stream_pool,
)
from lakestate.assets.rescaled_state import build_rescaled_state_asset
from lakestate.assets.restored_state import build_restored_state_asset
from lakestate.assets.retention import build_retention_asset
from lakestate.assets.savepoint import build_savepoint_asset

__all__ = [
    "build_checkpoint_spec",
    "build_compaction_asset",
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
    "stream_pool",
]
