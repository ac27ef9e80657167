"""Which checkpoint was reported last: high-water marks in Dagster's event log."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from lakestate.assets.metadata import MARK_ID, MARK_MANIFEST
from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.table import CheckpointRow


class Mark(NamedTuple):
    """A reported checkpoint.

    Ids grow by one per job. The hash tells a job from another one that was begun anew under the same name.
    """

    checkpoint_id: int
    manifest: str

    def to_cursor(self) -> str:
        """Returns the mark as a sensor's cursor."""
        return f"{self.checkpoint_id} {self.manifest}"


def mark_of(row: CheckpointRow) -> Mark:
    """Returns the mark of a checkpoint."""
    return Mark(row.checkpoint_id or 0, row.manifest)


def skipped_since(completed: CompletedCheckpoints, mark: Mark | None) -> int:
    """Returns how many checkpoints completed after the marked one, without the newest.

    All but the newest where nothing is marked, or a checkpoint of another job.
    """
    marked = completed.find(mark.checkpoint_id) if mark is not None else None
    is_ours = marked is not None and mark_of(marked) == mark
    return max(0, completed.count_after(mark.checkpoint_id if mark is not None and is_ours else 0) - 1)


def last_reported(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> Mapping[dg.AssetKey, Mark]:
    """Returns the mark in the newest event of each asset that has one.

    The event log is asked before the cursor, because Dagster writes the events of a tick first: a tick that dies in
    between would be reported twice.
    """
    found = {}
    for record in instance.get_asset_records(keys):
        event = record.asset_entry.last_materialization
        mark = _mark_in(event.asset_materialization) if event is not None else None
        if mark is not None:
            found[record.asset_entry.asset_key] = mark
    return found


def parse_cursor(cursor: str | None) -> Mark | None:
    """Returns the mark in a cursor, None for a cursor of something else."""
    number, _, manifest = (cursor or "").partition(" ")
    return Mark(int(number), manifest) if number.isdecimal() and manifest else None


def _mark_in(event: dg.AssetMaterialization | None) -> Mark | None:
    if event is None:
        return None
    number, manifest = (_value(event, name) for name in (MARK_ID, MARK_MANIFEST))
    return Mark(number, manifest) if isinstance(number, int) and isinstance(manifest, str) else None


def _value(event: dg.AssetMaterialization, name: str) -> Any:
    entry = event.metadata.get(name)
    return None if entry is None else entry.value


__all__ = ["Mark", "last_reported", "mark_of", "parse_cursor", "skipped_since"]
