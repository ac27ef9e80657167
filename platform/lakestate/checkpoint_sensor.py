"""Reports completed checkpoints of a stream to Dagster's event log.

One event per tick, for the newest checkpoint; its metadata counts those since the last reported one. An event cannot
be taken back and costs kilobytes for ever, so a stream that completes a checkpoint every second is told of as often
as the sensor ticks.
"""

from collections.abc import Iterable
from datetime import timedelta
from itertools import takewhile
from typing import Any, NamedTuple

import dagster as dg

from lakestate.assets.checkpoint import MARK_ID, MARK_MANIFEST, checkpoint_materialization
from lakestate.assets.names import checkpoint_key, dagster_name
from lakestate.resources import StateStoreResource
from state_engine.checkpoint.table import CheckpointRow


class Mark(NamedTuple):
    """The last reported checkpoint.

    Ids grow by one per job. The hash tells a job from another one that was begun anew under the same name.
    """

    checkpoint_id: int
    manifest: str

    def to_cursor(self) -> str:
        """Returns the mark as a sensor's cursor."""
        return f"{self.checkpoint_id} {self.manifest}"


def build_checkpoint_sensor(job: str, *, every: timedelta = timedelta(seconds=30)) -> dg.SensorDefinition:
    """Returns the sensor that reports `<job>/checkpoint`, at most once in `every`."""

    @dg.sensor(
        name=f"{dagster_name(job)}_checkpoints",
        minimum_interval_seconds=max(1, round(every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Reports the newest completed checkpoint of the stream `{job}`.",
    )
    def report_checkpoint(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource
    ) -> dg.SensorResult | dg.SkipReason:
        mark = last_reported(context.instance, checkpoint_key(job)) or parse_cursor(context.cursor)
        new = unreported(state_store.open_job(job).checkpoints_backwards(), mark)
        if not new:
            known = f"Checkpoint {mark.checkpoint_id} is the newest, and it is reported." if mark else None
            return dg.SkipReason(known or f"No completed checkpoint of {job} in {state_store.uri(job)} yet.")
        newest = new[-1]
        event = checkpoint_materialization(job, newest, skipped=len(new) - 1, uri=state_store.uri(job))
        told = f"Reported checkpoint {newest.checkpoint_id}; {len(new) - 1} before it have no event."
        return dg.SensorResult(asset_events=[event], cursor=mark_of(newest).to_cursor(), skip_reason=told)

    return report_checkpoint


def unreported(newest_first: Iterable[CheckpointRow], mark: Mark | None) -> list[CheckpointRow]:
    """Returns the completed checkpoints after the mark, oldest first; all, when the mark is none of them.

    No row behind the mark is read.
    """
    completed = (row for row in newest_first if row.kind == "checkpoint" and row.status == "completed")
    return list(takewhile(lambda row: mark_of(row) != mark, completed))[::-1]


def mark_of(row: CheckpointRow) -> Mark:
    """Returns the mark of a checkpoint."""
    return Mark(row.checkpoint_id or 0, row.manifest)


def last_reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mark | None:
    """Returns the mark in the newest event.

    The event log is asked before the cursor, because Dagster writes the events of a tick first: a tick that dies in
    between would be reported twice.
    """
    records = instance.fetch_materializations(key, limit=1).records
    event = records[0].asset_materialization if records else None
    if event is None:
        return None
    number, manifest = (_value(event, name) for name in (MARK_ID, MARK_MANIFEST))
    return Mark(number, manifest) if isinstance(number, int) and isinstance(manifest, str) else None


def parse_cursor(cursor: str | None) -> Mark | None:
    """Returns the mark in a cursor, None for a cursor of something else."""
    number, _, manifest = (cursor or "").partition(" ")
    return Mark(int(number), manifest) if number.isdecimal() and manifest else None


def _value(event: dg.AssetMaterialization, name: str) -> Any:
    entry = event.metadata.get(name)
    return None if entry is None else entry.value


__all__ = [
    "Mark",
    "build_checkpoint_sensor",
    "last_reported",
    "mark_of",
    "parse_cursor",
    "unreported",
]
