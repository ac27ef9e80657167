"""Reads state from outside: the same fold as a restore, over the same files."""

from typing import NamedTuple

import pyarrow as pa

from state_engine.checkpoint.fold_inputs import newest_fold_inputs
from state_engine.checkpoint.plan import states_of
from state_engine.checkpoint.table import CheckpointTable
from state_engine.errors import NothingToRestoreError, UnknownOperatorError
from state_engine.key_groups import UPPER_BOUND
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Pin, StateSchema
from state_engine.log.savepoints import CanonicalSavepoint, Savepoint
from state_engine.savepoint.catalogue import load_canonical, location_of, resolve_restore
from state_engine.savepoint.handles import read_pinned
from state_engine.savepoint.source import Canonical
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, history_of, load_groups

At = Savepoint | StoredManifest | str | None


class History(NamedTuple):
    """The manifest of one epoch, and the segment that folds to its state."""

    head: StoredManifest
    segment: Segment


def read_state(
    root: str,
    job: str,
    uid: str,
    state_name: str,
    *,
    at: At = None,
    first: int = 0,
    last: int | None = None,
) -> pa.Table:
    """Returns the live rows of one state.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        uid: The operator.
        state_name: The state.
        at: A savepoint, a sealed epoch, or what `resolve_restore` takes (`checkpoint:3`, `epoch:1/42`, a savepoint
            id). The newest sealed epoch by default.
        first: Lowest key group.
        last: Highest key group; all by default.

    Returns:
        key_group, key columns, namespace, [user_key], value, position, seq, last_access; sorted by key group. A list
        has one row per element, in order.

    Raises:
        NothingToRestoreError: There is no such job, epoch or savepoint.
        UnknownOperatorError: There is no such state; the error names those that exist.
        CorruptionError: A file is gone or damaged.
    """
    history = history_at(root, job, at)
    schema = schema_of(history, job, uid, state_name)
    highest = last_group(history, uid) if last is None else last
    return load_groups(segments_of(root, job, history), schema, first, highest).drop_columns(["op"])


def history_at(root: str, job: str, at: At = None) -> History:
    """Returns what folds to the state at an epoch: the newest visible base until then, or a pin's, and what follows."""
    storage = open_storage(root, job)
    if isinstance(at, Pin):
        return History(*read_pinned(storage, at))
    if isinstance(at, CanonicalSavepoint):
        return _of_canonical(load_canonical(location_of(root, at)))
    target = None if isinstance(at, StoredManifest) else resolve_restore(root, job, at or "latest")
    if target is not None and target.location is not None:
        return _of_canonical(load_canonical(target.location))
    head = at if isinstance(at, StoredManifest) or target is None else target.stored
    assert isinstance(head, StoredManifest)
    if head.manifest.job != job:
        raise NothingToRestoreError(
            f"Epoch {head.manifest.epoch} belongs to job {head.manifest.job!r}, not to {job!r}.",
            action=f"Read the state of job {head.manifest.job!r}.",
        )
    return History(head, _segment(root, storage, job, head))


def _of_canonical(source: Canonical) -> History:
    """Returns the history of a canonical savepoint, read from its folder, whichever job it is of."""
    return History(source.head, source.segment)


def schema_of(history: History, job: str, uid: str, state_name: str) -> StateSchema:
    """Returns the schema of a state at an epoch.

    Raises:
        UnknownOperatorError: No state has this name.
    """
    states = known_states(history)
    for schema in states:
        if (schema.uid, schema.name) == (uid, state_name):
            return schema
    names = ", ".join(f"{schema.uid}/{schema.name}" for schema in states) or "none"
    raise UnknownOperatorError(
        f"Job {job!r} has no state {uid}/{state_name} at epoch {history.head.manifest.epoch}; it has {names}.",
        action="Name one of these; a state appears with the first epoch that uses it.",
    )


def known_states(history: History) -> list[StateSchema]:
    """Returns the states that the job has had up to an epoch."""
    return states_of([*history.segment.manifests, history.head.manifest])


def segments_of(root: str, job: str, history: History) -> list[Segment]:
    """Returns a history as segments, one for each job that it crosses."""
    storage, base, manifests = history.segment
    if not manifests:
        return [Segment(storage, base, ())]  # it may be a canonical savepoint, in any folder
    return history_of(base, job, manifests, lambda owner: open_storage(root, owner))


def last_group(history: History, uid: str) -> int:
    """Returns the highest key group of an operator; the highest possible one if it is not in the job any more."""
    operator = history.head.manifest.operators.get(uid)
    return operator.max_parallelism - 1 if operator is not None else UPPER_BOUND - 1


def _segment(root: str, storage: CheckpointStorage, job: str, head: StoredManifest) -> Segment:
    rows = CheckpointTable(storage, open_tables(storage))
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    inputs = newest_fold_inputs(storage, log, rows, head)
    return Segment(storage, inputs.base, inputs.manifests)


__all__ = ["At", "History", "history_at", "known_states", "last_group", "read_state", "schema_of", "segments_of"]
