"""Leases: what a restore that begins, or a reader, needs for a while; and the answer to condemned files.

The order is that of a pin: write what you need, then look at what is condemned, then whether it is there. Retention
condemns, then reads pins and leases, then deletes. Whoever wrote before retention read is spared; whoever wrote later
finds the files condemned, or gone, and gives up.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from state_engine.checkpoint.retention_needs import History, files_of_epoch, way_back
from state_engine.checkpoint.table import CheckpointTable, newest_base
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import look
from state_engine.epoch.sink_moves import since
from state_engine.errors import CondemnedError, MissingFileError, NotFoundError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import CONDEMNED, LEASES, lease_path, manifest_path
from state_engine.log.retention_records import Condemned, Lease, decode_condemned, decode_lease, encode_lease
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage, open_storage
from state_engine.storage.tables import open_tables

LEASE_MS = 3_600_000
"""How long a lease holds by default: an hour."""


def read_leases(storage: CheckpointStorage, now_ms: int) -> list[Lease]:
    """Returns the leases that have not expired.

    Raises:
        DamagedFileError: One is not what was written.
    """
    return [lease for lease in _all_leases(storage) if lease.expires_at > now_ms]


def expired_leases(storage: CheckpointStorage, now_ms: int) -> list[str]:
    """Returns the paths of leases that have expired: of processes that died before they gave them back.

    Raises:
        DamagedFileError: One is not what was written.
    """
    return [lease_path(lease.lease_id) for lease in _all_leases(storage) if lease.expires_at <= now_ms]


def read_condemned(storage: CheckpointStorage) -> list[Condemned]:
    """Returns all lists of condemned files.

    Raises:
        DamagedFileError: One is not what was written.
    """
    found = []
    for info in storage.list(CONDEMNED, recursive=False):
        with suppress(NotFoundError):  # all its files have just gone
            found.append(decode_condemned(storage.get(info.path), path=info.path))
    return found


def ensure_kept(
    root: str,
    stored: StoredManifest,
    what: str,
    files: Iterable[str] = (),
    log: ManifestLog | None = None,
    *,
    way: bool = True,
) -> None:
    """Makes sure that an epoch stays whole, once a pin or a lease that protects it is durable.

    First nothing that it needs may be condemned, then everything must be there: in this order, since a list of
    condemned files goes when they are gone. Each manifest of the job is read once at most, ahead of
    both; those of the way back behind them, when nobody removes them any more.

    Args:
        root: Of the storage.
        stored: The sealed epoch.
        what: What relies on it, for messages.
        files: What a pin lists: an epoch may be read from another base than the newest.
        log: Of the job, with the manifests that the caller has read, which never change.
        way: Whether the manifests between it and the newest epoch must be there: they tell a restore what to take back
            from sinks, and retention keeps them from the moment on that it sees the pin or the lease.

    Raises:
        CondemnedError: Retention is removing some of it.
        MissingFileError: Something is gone.
        DamagedManifestError: On the way lies another manifest than the next one names.
    """
    job = stored.manifest.job
    storage = open_storage(root, job)
    rows = CheckpointTable(storage, open_tables(storage)).newest_first()
    newest = next((row for row in rows if newest_base([row], stored.manifest) is not None), None)
    log = log or ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    history = History(storage, log, (newest,) if newest is not None else ())
    needed = files_of_epoch(history, stored) | set(files)
    head = look.newest(log) if way else None
    if head is not None:
        spans = way_back(head.manifest, stored.manifest)
        needed |= {
            manifest_path(span.generation, epoch)
            for span in (*spans.left, *spans.entered)
            for epoch in range(span.first, (span.last or 0) + 1)
        }
    _none_condemned(storage, needed, what)
    log.chain(stored)
    _all_there(storage, needed, what)
    if head is not None:
        since(log, head, stored)
        since(log, stored, head)


@contextmanager
def files_kept(
    storage: CheckpointStorage,
    stored: StoredManifest,
    files: Collection[str],
    purpose: str,
    clock: Clock | None = None,
    ids: Ids | None = None,
    *,
    all_there: bool = True,
) -> Iterator[None]:
    """Keeps retention away from some files, besides those that their epoch needs, while the block runs.

    Args:
        storage: Of the job.
        stored: The sealed epoch.
        files: Their paths.
        purpose: What for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        all_there: Whether all of them have to be there. A reader finds that out of those that it reads.

    Raises:
        CondemnedError: Retention is removing some of them.
        MissingFileError: Some of them are gone.
    """
    manifest = stored.manifest
    place = manifest.generation, manifest.epoch, stored.hash
    with _put(storage, manifest.job, place, "", purpose, clock, ids, LEASE_MS, files):
        what = f"The {purpose} of epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r}"
        _none_condemned(storage, files, what)
        if all_there:
            _all_there(storage, files, what)
        yield


def _none_condemned(storage: CheckpointStorage, needed: Collection[str], what: str) -> None:
    for condemned in read_condemned(storage):
        for file in condemned.files:
            if file.path in needed:
                raise CondemnedError(
                    f"{what} needs {file.path}, which retention is removing: {file.reason}.",
                    action="Choose a newer epoch, checkpoint or savepoint; or let retention end and try again.",
                )


def _all_there(storage: CheckpointStorage, needed: Collection[str], what: str) -> None:
    folders = sorted({path.rpartition("/")[0] for path in needed})
    there = {info.path for folder in folders for info in storage.list(folder, recursive=False)}
    if gone := sorted(set(needed) - there):
        raise MissingFileError(
            f"{what} needs {gone[0]}, which is gone.",
            action="Choose another epoch, checkpoint or savepoint; retention may have removed this one.",
        )


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
) -> Iterator[Lease]:
    """Keeps retention away from all that an epoch needs, until the block ends or the lease expires.

    Args:
        root: Of the storage.
        stored: The sealed epoch.
        purpose: What for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        for_ms: When it expires, should the process die.
        way: As in `ensure_kept`. Who only reads, or restores and keeps all output, needs no way.

    Raises:
        CondemnedError: Retention is removing some of it.
        MissingFileError: Some of it is gone.
    """
    job = stored.manifest.job
    storage = open_storage(root, job)
    place = stored.manifest.generation, stored.manifest.epoch, stored.hash
    with _put(storage, job, place, "", purpose, clock, ids, for_ms) as lease:
        ensure_kept(root, stored, f"Epoch {lease.epoch} of generation {lease.generation} of job {job!r}", way=way)
        yield lease


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
) -> Iterator[Lease]:
    """Keeps retention away from a folder of a job while files are written there that nothing names yet.

    What retention has condemned before is not kept: ask `ensure_not_condemned` before relying on files that are there.

    Args:
        root: Of the storage.
        job: Name of the job.
        folder: Path below the job's root.
        purpose: What for, in words.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        for_ms: When it expires, should the process die.
    """
    storage = open_storage(root, job)
    with _put(storage, job, (0, 0, ""), folder, purpose, clock, ids, for_ms) as lease:
        yield lease


def ensure_not_condemned(storage: CheckpointStorage, folder: str, what: str) -> None:
    """Makes sure that nothing that lies in a folder goes, once a lease that protects it is durable.

    Raises:
        CondemnedError: Retention is removing some of it.
    """
    for condemned in read_condemned(storage):
        for file in condemned.files:
            if file.path.startswith(f"{folder}/") and storage.exists(file.path):
                raise CondemnedError(
                    f"{what} needs {file.path}, which retention is removing: {file.reason}.",
                    action="Let retention end (its grace time says when) and try again.",
                )


@contextmanager
def _put(
    storage: CheckpointStorage,
    job: str,
    place: tuple[int, int, str],
    folder: str,
    purpose: str,
    clock: Clock | None,
    ids: Ids | None,
    for_ms: int,
    files: Collection[str] = (),
) -> Iterator[Lease]:
    clock, ids = clock or SystemClock(), ids or RandomIds()
    now = clock.now_ms()
    lease = Lease(
        lease_id=ids.new_id(),
        job=job,
        generation=place[0],
        epoch=place[1],
        manifest=place[2],
        purpose=purpose,
        created_at=now,
        expires_at=now + for_ms,
        folder=folder,
        files=tuple(sorted(files)),
    )
    storage.put_if_absent(lease_path(lease.lease_id), encode_lease(lease))
    try:
        yield lease
    finally:
        storage.delete(lease_path(lease.lease_id))


def _all_leases(storage: CheckpointStorage) -> Iterator[Lease]:
    for info in storage.list(LEASES, recursive=False):
        with suppress(NotFoundError):  # it has just been given back
            yield decode_lease(storage.get(info.path), path=info.path)


__all__ = [
    "LEASE_MS",
    "ensure_kept",
    "ensure_not_condemned",
    "expired_leases",
    "files_kept",
    "leased",
    "leased_folder",
    "read_condemned",
    "read_leases",
]
