"""Builds the row of `_checkpoints` for a checkpoint that has ended, whether it completed or not. Pure."""

from collections.abc import Sequence

from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.fold_state import FoldedState
from state_engine.checkpoint.plan import changed_rows, live_rows
from state_engine.checkpoint.requests import PERIODIC
from state_engine.checkpoint.table import CheckpointRow, StateRow
from state_engine.epoch.ports import Mark
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import BaseReference, Manifest

TRIGGER = PERIODIC
"""Trigger in the row of a checkpoint if it is not known any more who requested it."""


def completed_row(
    sealed: StoredManifest,
    manifests: Sequence[Manifest],
    states: Sequence[FoldedState],
    base: BaseReference,
    mark: Mark,
    *,
    phases: dict[str, int],
    now_ms: int,
) -> CheckpointRow:
    """Returns the row that makes a base visible.

    Args:
        sealed: The published epoch.
        manifests: The interval, oldest first.
        states: All states.
        base: The base, durable.
        mark: The mark of the checkpoint, with its trigger.
        phases: Milliseconds per phase.
        now_ms: The present.
    """
    head = sealed.manifest
    rows = tuple(_state_row(state, manifests) for state in states)
    keys: dict[str, int] = {}
    for row in rows:
        if row.keys is not None:
            keys[row.uid] = max(keys.get(row.uid, 0), row.keys)
    counts = [row.rows for row in rows if row.rows is not None]
    return CheckpointRow(
        id=str(base.checkpoint_id),
        kind="checkpoint",
        checkpoint_id=base.checkpoint_id,
        status="completed",
        type="FULL" if all(row.full for row in rows) else "INCREMENTAL",
        generation=head.generation,
        epoch=head.epoch,
        manifest=sealed.hash,
        base_path=base.path,
        base_checksum=base.checksum,
        triggered_at=head.processing_time,
        completed_at=now_ms,
        duration_ms=max(0, now_ms - head.processing_time),
        phases_ms=phases,
        bytes=sum(file.length for state in states for file in state.written),
        state_bytes=sum(row.bytes for row in rows),
        rows=sum(counts) if len(counts) == len(rows) else None,
        log_rows=sum(row.log_rows for row in rows),
        changed_rows=sum(row.changed_rows for row in rows),
        keys=keys,
        states=rows,
        trigger=mark.trigger,
    )


def ended_row(sealed: StoredManifest, mark: Mark, reason: FailureReason, now_ms: int, failure: str) -> CheckpointRow:
    """Returns the row of a checkpoint that did not complete; a later one covers its interval."""
    head = sealed.manifest
    return CheckpointRow(
        id=str(head.checkpoint_id),
        kind="checkpoint",
        checkpoint_id=head.checkpoint_id,
        status=reason.status,
        generation=head.generation,
        epoch=head.epoch,
        manifest=sealed.hash,
        triggered_at=head.processing_time,
        completed_at=now_ms,
        duration_ms=max(0, now_ms - head.processing_time),
        trigger=mark.trigger,
        failure=failure,
    )


def _state_row(state: FoldedState, manifests: Sequence[Manifest]) -> StateRow:
    plan = state.plan
    live = live_rows(manifests, plan.schema)
    return StateRow(
        uid=plan.schema.uid,
        state=plan.schema.name,
        table=plan.table,
        version=state.version,
        full=plan.full,
        reason=plan.reason,
        files=len(state.files),
        rows=sum(file.rows for file in state.files) if plan.full else live[0] if live else None,
        keys=live[1] if live else None,
        log_rows=sum(file.rows for file in state.files),
        changed_rows=changed_rows(manifests, plan.schema),
        bytes=sum(file.length for file in state.files),
        groups=state.skew.groups,
        largest_group=state.skew.largest,
        largest_group_rows=state.skew.largest_rows,
    )


__all__ = ["TRIGGER", "completed_row", "ended_row"]
