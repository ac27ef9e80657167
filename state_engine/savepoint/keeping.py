"""Keeps state while it is read: from retention, and from disposal of savepoints.

The files to read are found first, and the lease names them. So the reader keeps them even if a newer base becomes
visible meanwhile, or the savepoint that listed them is disposed of.
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
    """The segments that fold to the state of a restore's source, and their lease; a canonical savepoint needs none."""

    segments: Sequence[Segment]
    lease: HeldLease | None

    def renew(self) -> None:
        """Renews the lease if it is due. Long work calls it between two of its steps."""
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
    must_exist: bool = True,
) -> Iterator[HeldLease]:
    """Keeps the files of a history until the block ends. Files of a job that it was forked from are kept by the fork.

    Args:
        root: Of the storage.
        head: The sealed epoch that the history ends with.
        segments: The history.
        purpose: What the files are read for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        must_exist: As of `files_kept`.

    Raises:
        CondemnedError, MissingFileError: As of `files_kept`.
    """
    storage, place = open_storage(root, head.manifest.job), head.manifest
    job_parts = [segment for segment in segments if segment.storage.url == storage.url]
    files = {manifest_path(place.generation, place.epoch), *(file.path for one in job_parts for file in files_of(one))}
    with files_kept(storage, head, files, purpose, clock, ids, must_exist=must_exist) as lease:
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
    """Gives the segments that fold to the state of a restore's source, and keeps their files until the block ends.

    Args:
        root: Of the storage.
        job: The job that restores it.
        target: What `resolve_restore` returned.
        purpose: What the files are read for, in words.
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

    If the mark cannot be written, the savepoint is read without one: where we cannot write, we cannot dispose either.
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
    """Returns the readers of the savepoint in this folder, as each of them described itself."""
    users = []
    for info in storage.list(IN_USE):
        with suppress(NotFoundError):
            users.append(storage.get(info.path).decode(errors="replace"))
    return users


__all__ = ["KeptSource", "in_use", "segments_kept", "source_kept", "users_of"]
