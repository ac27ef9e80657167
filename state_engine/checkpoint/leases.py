"""Leases: they keep the files that a restore at its beginning, or a reader, needs for a while.

A lease counts until its time is over. Its owner renews it while work goes on. So it outlives long work. It also holds
against retention on a host with a clock that is ahead by less than `for_ms` minus the time between renewals.

No clock decides what may be sealed: before a restore seals the manifest that makes its source needed, it ties its
leases to the number of that manifest (`HeldLease.until`). Such a lease counts as long as the number is free, however
late it is.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from state_engine.checkpoint.kept import ensure_files_kept, ensure_kept, ensure_same_manifest
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.errors import NotFoundError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import LEASES, lease_path, manifest_path
from state_engine.log.retention_records import FreeNumber, Lease, decode_lease, encode_lease
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage

LEASE_MS = 3_600_000
"""How long a lease holds by default: an hour."""

RENEWALS = 12
"""A lease is renewed once this fraction of its time is over: one `RENEWALS`-th."""


def read_leases(root: str, job: str, now_ms: int) -> list[Lease]:
    """Returns the leases of a job that count.

    Raises:
        DamagedFileError: One is not what was written.
    """
    return [lease for lease in _all_leases(root, job) if _counts(root, lease, now_ms)]


def expired_leases(root: str, job: str, now_ms: int) -> list[str]:
    """Returns the paths of leases that do not count any more: their processes died before they gave them back.

    Raises:
        DamagedFileError: One is not what was written.
    """
    return [lease_path(lease.lease_id) for lease in _all_leases(root, job) if not _counts(root, lease, now_ms)]


class HeldLease:
    """A lease that this process holds. Documents never change: a new lease replaces the old one, which is deleted.

    Args:
        storage: Of the job that has the files to keep.
        lease: As it is now, durable.
        check: Makes sure that all of it is kept, or raises.
        clock: Time.
        ids: New names.
    """

    def __init__(
        self, storage: CheckpointStorage, lease: Lease, check: Callable[[], None], clock: Clock, ids: Ids
    ) -> None:
        self.lease = lease
        self.check = check
        self._storage, self._clock, self._ids = storage, clock, ids
        self._for_ms = lease.expires_at - lease.created_at

    def renew(self) -> None:
        """Begins the lease's time anew, if enough of it is over. Long work calls it between two of its steps."""
        if not 0 <= self._clock.now_ms() - self.lease.created_at < self._for_ms // RENEWALS:
            self._replace(self.lease.until)

    def until(self, number: FreeNumber) -> None:
        """Ties the lease to a manifest that is about to be sealed, and makes sure that everything is kept until then.

        Raises:
            CondemnedError: Retention is removing some of it.
            MissingFileError: Some of it is gone.
        """
        self._replace(number)
        self.check()

    def give_back(self) -> None:
        """Ends the lease."""
        self._storage.delete(lease_path(self.lease.lease_id))

    def _replace(self, until: FreeNumber | None) -> None:
        before, now = self.lease, self._clock.now_ms()
        self.lease = replace(
            before, lease_id=self._ids.new_id(), created_at=now, expires_at=now + self._for_ms, until=until
        )
        _put(self._storage, self.lease)
        self._storage.delete(lease_path(before.lease_id))


@contextmanager
def files_kept(
    storage: CheckpointStorage,
    stored: StoredManifest,
    files: Collection[str],
    purpose: str,
    clock: Clock | None = None,
    ids: Ids | None = None,
    *,
    must_exist: bool = True,
) -> Iterator[HeldLease]:
    """Keeps retention away from some files, besides those that their epoch needs, while the block runs.

    Args:
        storage: Of the job.
        stored: The sealed epoch.
        files: Their paths.
        purpose: What the lease is for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        must_exist: As in `ensure_files_kept`.

    Raises:
        CondemnedError: Retention is removing some of them.
        MissingFileError: Some of them are gone.
    """
    place = stored.manifest

    def check() -> None:
        what = f"The {purpose} of epoch {place.epoch} of generation {place.generation} of job {place.job!r}"
        ensure_files_kept(storage, files, what, must_exist=must_exist)
        if must_exist and manifest_path(place.generation, place.epoch) in files:
            ensure_same_manifest(storage, stored, what)

    lease = _lease(stored, purpose, files=tuple(sorted(files)))
    with _held(storage, lease, check, clock, ids, LEASE_MS) as held:
        yield held


@contextmanager
def leased(
    root: str,
    stored: StoredManifest,
    purpose: str,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    for_ms: int = LEASE_MS,
    way: bool = True,
    log: ManifestLog | None = None,
) -> Iterator[HeldLease]:
    """Keeps retention away from all that an epoch needs, until the block ends or the lease expires.

    Args:
        root: Of the storage.
        stored: The sealed epoch.
        purpose: What the lease is for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        for_ms: When it expires, should the process die.
        way: As in `ensure_kept`. A reader, or a restore that keeps all output, does not need it.
        log: As in `ensure_kept`.

    Raises:
        CondemnedError: Retention is removing some of it.
        MissingFileError: Some of it is gone.
    """
    place = stored.manifest

    def check() -> None:
        what = f"Epoch {place.epoch} of generation {place.generation} of job {place.job!r}"
        ensure_kept(root, stored, what, log=log, way=way)

    storage = open_storage(root, place.job)
    with _held(storage, _lease(stored, purpose), check, clock, ids, for_ms) as held:
        yield held


@contextmanager
def leased_folder(
    root: str,
    job: str,
    folder: str,
    purpose: str,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    for_ms: int = LEASE_MS,
) -> Iterator[HeldLease]:
    """Keeps retention away from a folder of a job while files are written there that nothing names yet.

    What retention has condemned before is not kept: ask `ensure_not_condemned` before relying on existing files.

    Args:
        root: Of the storage.
        job: Name of the job.
        folder: Path below the job's root.
        purpose: What the lease is for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        for_ms: When it expires, should the process die.
    """
    lease = Lease(
        lease_id="", job=job, generation=0, epoch=0, manifest="", purpose=purpose, created_at=0, expires_at=0,
        folder=folder,
    )  # fmt: skip
    with _held(open_storage(root, job), lease, lambda: None, clock, ids, for_ms) as held:
        yield held


def _lease(stored: StoredManifest, purpose: str, files: tuple[str, ...] = ()) -> Lease:
    place = stored.manifest
    return Lease(
        lease_id="", job=place.job, generation=place.generation, epoch=place.epoch, manifest=stored.hash,
        purpose=purpose, created_at=0, expires_at=0, files=files,
    )  # fmt: skip


@contextmanager
def _held(
    storage: CheckpointStorage,
    lease: Lease,
    check: Callable[[], None],
    clock: Clock | None,
    ids: Ids | None,
    for_ms: int,
) -> Iterator[HeldLease]:
    clock, ids = clock or SystemClock(), ids or RandomIds()
    now = clock.now_ms()
    lease = replace(lease, lease_id=ids.new_id(), created_at=now, expires_at=now + for_ms)
    _put(storage, lease)
    held = HeldLease(storage, lease, check, clock, ids)
    try:
        check()
        yield held
    finally:
        held.give_back()


def _put(storage: CheckpointStorage, lease: Lease) -> None:
    storage.put_if_absent(lease_path(lease.lease_id), encode_lease(lease))


def _all_leases(root: str, job: str) -> Iterator[Lease]:
    storage = open_storage(root, job)
    for info in storage.list(LEASES, recursive=False):
        with suppress(NotFoundError):  # the lease has just been given back
            yield decode_lease(storage.get(info.path), path=info.path)


def _counts(root: str, lease: Lease, now_ms: int) -> bool:
    return lease.expires_at > now_ms or (lease.until is not None and _is_free(root, lease.until))


def _is_free(root: str, number: FreeNumber) -> bool:
    """Whether a manifest may still get this number. The floor is read last: it rises before a number is freed."""
    storage = open_storage(root, number.job)
    if storage.exists(manifest_path(number.generation, number.epoch)):
        return False
    return number.epoch > ManifestLog(storage, number.job).floors().get(number.generation, 0)


__all__ = [
    "LEASE_MS",
    "RENEWALS",
    "HeldLease",
    "expired_leases",
    "files_kept",
    "leased",
    "leased_folder",
    "read_leases",
]
