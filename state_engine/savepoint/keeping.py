"""Keeping what is read: away from retention, and from whoever disposes of savepoints.

What is to be read is found first, and the lease names its files. So nothing is taken from the reader by a newer base
that becomes visible meanwhile, nor by the end of the savepoint that listed them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from state_engine.checkpoint.leases import HeldLease, files_kept
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch.request import RestoreTarget
from state_engine.errors import NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import IN_USE, manifest_path
from state_engine.savepoint.segments import files_of, segments_of_target
from state_engine.savepoint.source import open_location
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment


class KeptSource(NamedTuple):
    """What folds to the state of a restore's source, and the lease on it; a canonical savepoint needs none."""

    segments: Sequence[Segment]
    lease: HeldLease | None

    def renew(self) -> None:
        """Renews the lease if it is due; for long work, between two of its steps."""
        if self.lease is not None:
            self.lease.renew()


@contextmanager
def segments_kept(
    root: str,
    head: StoredManifest,
    segments: Sequence[Segment],
    purpose: str,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    all_there: bool = True,
) -> Iterator[HeldLease]:
    """Keeps the files of a history until the block ends; those of a job that it was forked from the fork keeps itself.

    Args:
        root: Of the storage.
        head: The sealed epoch that the history ends with.
        segments: The history.
        purpose: What for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        all_there: As of `files_kept`.

    Raises:
        CondemnedError, MissingFileError: As of `files_kept`.
    """
    storage, place = open_storage(root, head.manifest.job), head.manifest
    own = [segment for segment in segments if segment.storage.url == storage.url]
    files = {manifest_path(place.generation, place.epoch), *(file.path for one in own for file in files_of(one))}
    with files_kept(storage, head, files, purpose, clock, ids, all_there=all_there) as lease:
        yield lease


@contextmanager
def source_kept(
    root: str,
    job: str,
    target: RestoreTarget,
    purpose: str,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Iterator[KeptSource]:
    """Gives what folds to the state of a restore's source, and keeps it until the block ends.

    Args:
        root: Of the storage.
        job: The job that restores it.
        target: What `resolve_restore` found.
        purpose: What for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.

    Raises:
        CondemnedError: Retention is removing some of it.
        CorruptionError: Some of it is gone or damaged.
    """
    if target.location is not None:
        with in_use(open_location(target.location), f"job {job} at {root}", clock=clock, ids=ids):
            yield KeptSource(segments_of_target(root, target), None)
        return
    segments = segments_of_target(root, target)
    with segments_kept(root, target.stored, segments, purpose, clock=clock, ids=ids) as lease:
        yield KeptSource(segments, lease)


@contextmanager
def in_use(
    storage: CheckpointStorage, user: str, *, clock: Clock | None = None, ids: Ids | None = None
) -> Iterator[None]:
    """Marks a canonical savepoint as being read.

    One that lies where we cannot write, nobody disposes of through us.
    """
    mark = f"{IN_USE}/{(ids or RandomIds()).new_id()}"
    try:
        storage.put_if_absent(mark, f"{user} since {(clock or SystemClock()).now_ms()}".encode())
    except StorageError:
        yield
        return
    try:
        yield
    finally:
        with suppress(StorageError):
            storage.delete(mark)


def users_of(storage: CheckpointStorage) -> list[str]:
    """Returns who is reading the savepoint in this folder, as each of them described itself."""
    users = []
    for info in storage.list(IN_USE):
        with suppress(NotFoundError):
            users.append(storage.get(info.path).decode(errors="replace"))
    return users


__all__ = ["KeptSource", "in_use", "segments_kept", "source_kept", "users_of"]
