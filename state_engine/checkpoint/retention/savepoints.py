"""What goes of a job's savepoints: those that a policy made and keeps no longer, and leftovers of unfinished ones."""

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
    """A savepoint that goes and may have files elsewhere, and the bytes of what it has of its own.

    Of files elsewhere those of the tables count, without their logs.
    """

    savepoint_id: str
    bytes: int


class Leaving(NamedTuple):
    """What goes.

    Attributes:
        native: Ids of native savepoints.
        disposals: Canonical ones, and native ones with a note elsewhere. They are disposed of (`savepoint/retain.py`).
        files: Files below the job's root that go with native ones and unfinished ones, and why.
        abandoned: What lies elsewhere of unfinished ones; their pins tell of it, and stay until it is gone.
        unlisted: Complete savepoints of which no row tells. They stay.
    """

    native: tuple[str, ...]
    disposals: tuple[Disposal, ...]
    files: Mapping[str, str]
    abandoned: tuple[Abandoned, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()


def find_leaving(
    storage: CheckpointStorage,
    objects: Mapping[str, int],
    policy: RetentionPolicy | None,
    rows: Sequence[CheckpointRow],
    leases: Iterable[Lease],
    now_ms: int,
) -> Leaving:
    """Finds what goes of savepoints.

    A savepoint says itself, in its pin, whether a policy made it; its row has to say so too. One whose epoch somebody
    has leased stays.

    Args:
        storage: Of the job.
        objects: Path to length of all its files.
        policy: What is wanted; None lets no savepoint go.
        rows: Of `_checkpoints`.
        leases: Those that hold.
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
    for name, own in files.items():
        if (pin := read_pin(storage, name)) is not None and pin.folds and pin.created_at + UNFINISHED_MS <= now_ms:
            if (left := left_elsewhere(pin)) is not None:
                abandoned.append(left)
                continue
            finished = metadata_path(name) in own or elsewhere_path(name) in own
            gone = [pin_path(name)] if finished else own
            going |= dict.fromkeys(gone, f"savepoint {name} was not written within a day, and nobody lists it")
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
    return Leaving(tuple(sorted(native)), tuple(sorted(elsewhere)), going, tuple(abandoned), unlisted)


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
    there = [row for row in rows if row.kind == "savepoint" and row.status == "completed" and row.id in files]
    going = expendable_savepoints(policy, there, now_ms)
    return [row for row in there if row.id in going]


__all__ = ["Disposal", "Leaving", "find_leaving", "read_pin"]
