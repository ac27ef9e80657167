"""Finds which checkpoint was reported last: high-water marks in Dagster's event log."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from lakestate.assets.metadata import MARK_ID, MARK_MANIFEST
from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.table import CheckpointRow


class Mark(NamedTuple):
    """A reported checkpoint.

    Ids of a job's checkpoints grow by one. The hash distinguishes a job from a later one with the same name.
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
    """Returns the number of checkpoints that completed after the marked one, without the newest.

    Without a mark, or with one of another job, it is the number of all but the newest.
    """
    marked = completed.find(mark.checkpoint_id) if mark is not None else None
    is_ours = marked is not None and mark_of(marked) == mark
    return max(0, completed.count_after(mark.checkpoint_id if mark is not None and is_ours else 0) - 1)


def last_reported(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> Mapping[dg.AssetKey, Mark]:
    """Returns the mark in the newest event of each asset that has one.

    The event log has priority over the cursor, because Dagster writes the events of a tick before its cursor. If a tick
    died between the two, the cursor alone would lead to a second report.
    """
    marks = {}
    for record in instance.get_asset_records(keys):
        event = record.asset_entry.last_materialization
        mark = _mark_in(event.asset_materialization) if event is not None else None
        if mark is not None:
            marks[record.asset_entry.asset_key] = mark
    return marks


def parse_cursor(cursor: str | None) -> Mark | None:
    """Returns the mark in a cursor; None if the cursor contains anything else."""
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
