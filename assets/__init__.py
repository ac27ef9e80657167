"""Dagster assets: checkpoints and savepoints of a stream (import name: `lakestate.assets`)."""

from lakestate.assets.checkpoint import build_checkpoint_spec
from lakestate.assets.names import checkpoint_key, dagster_name, savepoint_key, savepoint_partitions, stream_pool
from lakestate.assets.savepoint import build_savepoint_asset

__all__ = [
    "build_checkpoint_spec",
    "build_savepoint_asset",
    "checkpoint_key",
    "dagster_name",
    "savepoint_key",
    "savepoint_partitions",
    "stream_pool",
]
