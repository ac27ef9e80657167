"""Savepoints of a stream, one per partition: a run takes, validates and records it."""

import time
from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakestate.assets.failures import named_failures, refused
from lakestate.assets.metadata import Metadata, size_metadata
from lakestate.assets.names import KINDS, dagster_name, savepoint_key, savepoint_partitions, stream_pool
from lakestate.resources import StateStoreResource
from state_engine.checkpoint.plan import live_rows, states_of
from state_engine.log.records import Manifest, Pin

_NO_PARTITION = "Choose or add a partition when you materialise it; its key is the name."


def build_savepoint_asset(job: str) -> dg.AssetsDefinition:
    """Returns `<job>/savepoint`.

    The partition key becomes the savepoint's label. One partition is one savepoint for ever: another run of the same
    partition, such as a retry of one that died, validates and records what is there and takes no second one.
    """

    @dg.asset(
        key=savepoint_key(job),
        partitions_def=savepoint_partitions(job),
        group_name=dagster_name(job),
        kinds=KINDS,
        pool=stream_pool(job),
        description=(
            f"A savepoint of the stream `{job}`, which may be running or stopped: the newest sealed epoch is pinned, "
            "nothing is copied, and the stream does not notice. To take one, materialise and add a partition: "
            "its key is the savepoint's label."
        ),
    )
    def savepoint(context: dg.AssetExecutionContext, state_store: StateStoreResource) -> dg.MaterializeResult[Any]:
        if not context.has_partition_key:
            raise refused("A savepoint needs a name.", action=_NO_PARTITION)
        began = time.monotonic()
        with named_failures():
            pin = state_store.find_savepoint(job, context.partition_key)
            is_new = pin is None
            if pin is None:
                pin = state_store.take_savepoint(job, label=context.partition_key)
            else:
                context.log.info(f"Savepoint {pin.savepoint_id} carries this label already; it is validated again.")
            manifests = state_store.validate_savepoint(job, pin)
        seconds = time.monotonic() - began
        context.log.info(f"Savepoint {pin.savepoint_id} at epoch {pin.epoch} is complete: {pin.bytes:,} bytes.")
        return dg.MaterializeResult(
            metadata=savepoint_metadata(pin, manifests, is_new=is_new, seconds=seconds, uri=state_store.uri(job)),
            data_version=dg.DataVersion(pin.savepoint_id),
        )

    return savepoint


def savepoint_metadata(pin: Pin, manifests: Sequence[Manifest], *, is_new: bool, seconds: float, uri: str) -> Metadata:
    """Returns what a run records about a savepoint; the keys are always the same."""
    rows, keys = live_size(manifests)
    return {
        "savepoint_id": dg.MetadataValue.text(pin.savepoint_id),
        "label": dg.MetadataValue.text(pin.label),
        "created_at": dg.MetadataValue.timestamp(pin.created_at / 1000),
        "files": dg.MetadataValue.int(len(pin.handles) + len(pin.manifests)),
        "is_new": dg.MetadataValue.bool(is_new),
        **size_metadata(
            generation=pin.generation,
            epoch=pin.epoch,
            seconds=seconds,
            size=pin.bytes,
            rows=rows,
            keys=keys,
            uri=uri,
        ),
    }


def live_size(manifests: Sequence[Manifest]) -> tuple[int | None, int | None]:
    """Returns how many rows and keys live in all states, as the subtasks reported last; None when one did not.

    As in a checkpoint, an operator has as many keys as that of its states which has most.
    """
    rows, keys = 0, dict[str, int]()
    for schema in states_of(manifests):
        size = live_rows(manifests, schema)
        if size is None:
            return None, None
        rows += size[0]
        keys[schema.uid] = max(keys.get(schema.uid, 0), size[1])
    return rows, sum(keys.values())


__all__ = ["build_savepoint_asset", "live_size", "savepoint_metadata"]
