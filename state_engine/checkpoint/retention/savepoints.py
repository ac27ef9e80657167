"""Finds savepoints to remove: those that a policy made and does not keep any more, and leftovers of unfinished ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from state_engine.checkpoint.retention.decision import folder_below
from state_engine.checkpoint.retention.leftovers import Abandoned, Unlisted, find_unlisted, left_elsewhere
from state_engine.checkpoint.retention.policy import (
    UNFINISHED_MS,
    RetentionPolicy,
    expendable_savepoints,
    made_by_policy,
)
from state_engine.checkpoint.table import CheckpointRow
from state_engine.errors import NotFoundError
from state_engine.log.documents import decode_pin
from state_engine.log.paths import SAVEPOINTS, elsewhere_path, metadata_path, pin_path
from state_engine.log.records import Pin
from state_engine.log.retention_records import Lease
from state_engine.storage.port import CheckpointStorage


class Disposal(NamedTuple):
    """A savepoint to dispose of that may have files in another directory, and the size of its own files.

    Of files in another directory those of the tables count, without their logs.
    """

    savepoint_id: str
    bytes: int


class Removals(NamedTuple):
    """The savepoints, and leftovers of savepoints, to remove.

    Attributes:
        native: Ids of native savepoints.
        disposals: Canonical ones, and native ones with a note elsewhere. They are disposed of (`savepoint/retain.py`).
        files: Files below the job's root that are deleted with native ones and unfinished ones, and why.
        abandoned: Files of unfinished ones in other folders. Their pins name the folders, and stay until these are
            empty.
        unlisted: Complete savepoints that no row lists. They stay.
    """

    native: tuple[str, ...]
    disposals: tuple[Disposal, ...]
    files: Mapping[str, str]
    abandoned: tuple[Abandoned, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()


def find_removals(
    storage: CheckpointStorage,
    objects: Mapping[str, int],
    policy: RetentionPolicy | None,
    rows: Sequence[CheckpointRow],
    leases: Iterable[Lease],
    now_ms: int,
) -> Removals:
    """Finds the savepoints, and leftovers of savepoints, to remove.

    The pin of a native savepoint has to name a policy as its trigger, and its row has to do so too. It stays while its
    epoch is leased.

    Args:
        storage: Of the job.
        objects: Path to length of all its files.
        policy: What to keep; None removes no finished savepoint.
        rows: Of `_checkpoints`.
        leases: Those that count.
        now_ms: The present.

    Raises:
        CorruptionError: A pin is damaged.
    """
    files: dict[str, list[str]] = {}
    for path in objects:
        if (name := folder_below(SAVEPOINTS, path)) is not None:
            files.setdefault(name, []).append(path)
    leased = {(lease.generation, lease.epoch) for lease in leases}
    native: list[str] = []
    going: dict[str, str] = {}
    abandoned = []
    for name, paths in files.items():
        if (pin := read_pin(storage, name)) is not None and pin.folds and pin.created_at + UNFINISHED_MS <= now_ms:
            if (leftover := left_elsewhere(pin)) is not None:
                abandoned.append(leftover)
                continue
            finished = metadata_path(name) in paths or elsewhere_path(name) in paths
            removed = [pin_path(name)] if finished else paths
            going |= dict.fromkeys(removed, f"savepoint {name} was not written within a day, and nobody lists it")
    elsewhere = []
    for row in _expendable(policy, rows, files, now_ms):
        size = sum(objects[path] for path in files[row.id])
        if row.type == "CANONICAL":
            tables = row.bytes if elsewhere_path(row.id) in files[row.id] else 0
            elsewhere.append(Disposal(row.id, size + tables))
            continue
        pin = read_pin(storage, row.id)
        if pin is None or not made_by_policy(pin.trigger) or (pin.generation, pin.epoch) in leased:
            continue
        if pin.directory is not None:
            elsewhere.append(Disposal(row.id, size))
        else:
            native.append(row.id)
            going |= dict.fromkeys(files[row.id], f"the policy keeps savepoint {row.id} no longer")
    listed = {row.id for row in rows if row.kind == "savepoint"}
    unlisted = find_unlisted(storage, files, listed, now_ms)
    return Removals(tuple(sorted(native)), tuple(sorted(elsewhere)), going, tuple(abandoned), unlisted)


def read_pin(storage: CheckpointStorage, savepoint_id: str) -> Pin | None:
    """Returns the pin in a savepoint's folder; None if there is none.

    Raises:
        CorruptionError: It is damaged.
    """
    path = pin_path(savepoint_id)
    try:
        return decode_pin(storage.get(path), path=path).pin
    except NotFoundError:
        return None


def _expendable(
    policy: RetentionPolicy | None, rows: Sequence[CheckpointRow], files: Mapping[str, object], now_ms: int
) -> list[CheckpointRow]:
    if policy is None or policy.savepoints is None:
        return []
    completed = [row for row in rows if row.kind == "savepoint" and row.status == "completed" and row.id in files]
    going = expendable_savepoints(policy, completed, now_ms)
    return [row for row in completed if row.id in going]


__all__ = ["Disposal", "Removals", "find_removals", "read_pin"]
