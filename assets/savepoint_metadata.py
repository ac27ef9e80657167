"""What Dagster records about a savepoint, no matter who took it, and how that is read back from the event log."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import dagster as dg

from lakestate.assets.metadata import Metadata, size_metadata
from lakestate.assets.names import savepoint_key
from lakestate.policies.savepoints import Newest
from state_engine.checkpoint.plan import live_rows, states_of
from state_engine.checkpoint.table import CheckpointRow
from state_engine.inspect import JobView
from state_engine.log.records import Manifest, Pin
from state_engine.log.savepoints import Savepoint

SAVEPOINT_ID = "savepoint_id"
LOOKED_AT = 20
"""Number of newest events to read: events are in the order of runs, so the newest savepoint is among them."""
_PAGE = 500
_ROWS = 1_000


class Recorded(NamedTuple):
    """A savepoint in the event log: its partition, its id, and the facts that policies need."""

    partition: str
    savepoint_id: str
    newest: Newest


def savepoint_metadata(
    view: JobView,
    savepoint: Savepoint,
    manifests: Sequence[Manifest],
    *,
    is_new: bool,
    code_version: str | None = None,
    uri: str,
) -> Metadata:
    """Returns what is recorded about a savepoint; the keys are always the same.

    Args:
        view: Of the job.
        savepoint: The savepoint.
        manifests: Those that lead to its epoch, as `StateStoreResource.validate_savepoint` returns them.
        is_new: Whether the run that records it took it.
        code_version: Of the code that could have been started then; None if it was not computed.
        uri: Folder of the job.
    """
    rows, keys = live_size(manifests)
    row, checkpoint = view.savepoint_row(savepoint.savepoint_id), checkpoint_before(view, savepoint)
    files = len(savepoint.handles) + len(savepoint.manifests) if isinstance(savepoint, Pin) else _files(savepoint)
    return {
        SAVEPOINT_ID: dg.MetadataValue.text(savepoint.savepoint_id),
        "label": dg.MetadataValue.text(savepoint.label),
        "kind": dg.MetadataValue.text(savepoint.kind),
        "trigger": dg.MetadataValue.text(savepoint.trigger),
        "note": dg.MetadataValue.text(savepoint.note),
        "created_at": dg.MetadataValue.timestamp(savepoint.created_at / 1000),
        "files": dg.MetadataValue.int(files),
        "is_new": dg.MetadataValue.bool(is_new),
        "checkpoint_id": dg.MetadataValue.int(checkpoint.checkpoint_id or 0 if checkpoint is not None else 0),
        "state_bytes": dg.MetadataValue.int(checkpoint.state_bytes if checkpoint is not None else 0),
        "code_version": dg.MetadataValue.text(code_version) if code_version else dg.MetadataValue.null(),
        "directory": dg.MetadataValue.text(savepoint.directory) if savepoint.directory else dg.MetadataValue.null(),
        **size_metadata(
            generation=savepoint.generation,
            epoch=savepoint.epoch,
            seconds=row.duration_ms / 1000 if row is not None else 0.0,
            size=savepoint.bytes,
            rows=rows,
            keys=keys,
            uri=uri,
        ),
    }


def live_size(manifests: Sequence[Manifest]) -> tuple[int | None, int | None]:
    """Returns the number of live rows and keys in all states, as last reported by the subtasks; None if one did not.

    As in a checkpoint, the number of keys of an operator is the largest one among its states.
    """
    rows, keys = 0, dict[str, int]()
    for schema in states_of(manifests):
        size = live_rows(manifests, schema)
        if size is None:
            return None, None
        rows += size[0]
        keys[schema.uid] = max(keys.get(schema.uid, 0), size[1])
    return rows, sum(keys.values())


def checkpoint_before(view: JobView, savepoint: Savepoint) -> CheckpointRow | None:
    """Returns the newest completed checkpoint that is not newer than a savepoint; None if the newest rows have none."""
    place = savepoint.generation, savepoint.epoch
    for row in islice(view.checkpoints_backwards(), _ROWS):
        if row.kind == "checkpoint" and row.status == "completed" and (row.generation, row.epoch) <= place:
            return row
    return None


def recorded_savepoints(
    instance: dg.DagsterInstance,
    job: str,
    *,
    partitions: Sequence[str] | None = None,
    key: dg.AssetKey | None = None,
) -> Iterator[Recorded]:
    """Yields the savepoints in the event log, newest event first; a savepoint with several events is yielded for each.

    Args:
        instance: Of Dagster.
        job: Name of the job.
        partitions: Only these.
        key: Key of the savepoints of the job; by default `<job>/savepoint`.
    """
    key = key or savepoint_key(job)
    selection = dg.AssetRecordsFilter(asset_key=key, asset_partitions=partitions) if partitions is not None else key
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(selection, limit=_PAGE, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization
            savepoint = _recorded(event) if event is not None else None
            if savepoint is not None:
                yield savepoint
        if not page.has_more:
            return
        cursor = page.cursor


def newest_savepoint(instance: dg.DagsterInstance, job: str, *, key: dg.AssetKey | None = None) -> Newest | None:
    """Returns the savepoint that was taken last, of those that were recorded last; None before the first one.

    The code version is that of the newest savepoint that has one: it is not known of savepoints taken elsewhere.
    """
    recorded = [one.newest for one in islice(recorded_savepoints(instance, job, key=key), LOOKED_AT)]
    newest = sorted(recorded, key=lambda one: one.taken_at_ms, reverse=True)
    version = next((one.code_version for one in newest if one.code_version is not None), None)
    return newest[0]._replace(code_version=version) if newest else None


def _recorded(event: dg.AssetMaterialization) -> Recorded | None:
    values: dict[str, Any] = {name: entry.value for name, entry in event.metadata.items()}
    if event.partition is None or not isinstance(values.get(SAVEPOINT_ID), str):
        return None
    newest = Newest(
        taken_at_ms=round(values.get("created_at", 0.0) * 1000),
        duration_ms=round(values.get("duration_s", 0.0) * 1000),
        checkpoint_id=values.get("checkpoint_id", 0),
        state_bytes=values.get("state_bytes", 0),
        code_version=values.get("code_version"),
    )
    return Recorded(event.partition, values[SAVEPOINT_ID], newest)


def _files(savepoint: Savepoint) -> int:
    return 0 if isinstance(savepoint, Pin) else 1 + sum(len(table.files) for table in savepoint.tables)


__all__ = [
    "SAVEPOINT_ID",
    "Recorded",
    "checkpoint_before",
    "live_size",
    "newest_savepoint",
    "recorded_savepoints",
    "savepoint_metadata",
]
