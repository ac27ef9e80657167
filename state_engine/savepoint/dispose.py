"""Removes a savepoint: first the files that make it visible, then the others. Safe to repeat, also after a crash."""

from contextlib import suppress

from state_engine.checkpoint.leases import read_leases
from state_engine.clock import Clock, SystemClock
from state_engine.epoch import look
from state_engine.errors import CorruptionError, NotFoundError, SavepointError
from state_engine.log.documents import decode_reference
from state_engine.log.lineage import first_own
from state_engine.log.paths import METADATA, PIN, elsewhere_path, savepoint_folder
from state_engine.log.records import Pin
from state_engine.log.savepoints import CanonicalSavepoint, Savepoint
from state_engine.savepoint.catalogue import address_of_root, find_savepoint
from state_engine.savepoint.keeping import users_of
from state_engine.savepoint.source import read_canonical
from state_engine.storage.deleting import delete_all
from state_engine.storage.folder import FolderStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import job_names, open_root, open_storage
from state_engine.storage.port import CheckpointStorage, check_name


def dispose_savepoint(
    root: str, job: str, savepoint_id: str, *, force: bool = False, clock: Clock | None = None
) -> bool:
    """Removes a savepoint. Its row in `_checkpoints` stays, as history; it is not listed any more.

    The files of a native savepoint are those of the job: the next retention deletes them, if nothing else needs them.
    The files of a canonical one are removed, wherever it was written to. So is the note that a native one left in a
    directory. Copies that a user made elsewhere stay.

    Args:
        root: Of the storage.
        job: The job that took it.
        savepoint_id: Its id.
        force: Also if a restore or a reader has marked it as in use; one that died may have left the mark.
        clock: Time; that of this machine by default.

    Returns:
        False if there was nothing (any more) to remove.

    Raises:
        SavepointError: It is in use; nothing was removed. The error names the users.
        StorageError: Not all of it could be removed; calling again continues.
    """
    storage = open_storage(root, check_name("job name", job))
    folder = savepoint_folder(check_name("savepoint id", savepoint_id))
    if not storage.list(folder):
        return False
    job_folder = FolderStorage(storage, folder)
    elsewhere: CheckpointStorage | None = None
    leases: list[str] = []
    with suppress(CorruptionError):  # a savepoint that cannot be read can still be removed
        savepoint = find_savepoint(storage, savepoint_id)
        elsewhere = _elsewhere(root, savepoint)
        if isinstance(savepoint, Pin):
            leases = _leases_of(root, job, savepoint, (clock or SystemClock()).now_ms())
    users = [] if force else [*leases, *users_of(job_folder), *(users_of(elsewhere) if elsewhere is not None else ())]
    users += _forks_on(root, job, savepoint_id)
    if users:
        raise SavepointError(
            f"Savepoint {savepoint_id} of job {job!r} is in use: {'; '.join(users)}.",
            action="Wait until that is over. With force=True the mark of a restore that died is ignored.",
        )
    if elsewhere is not None:
        _remove(elsewhere, METADATA)
    storage.delete(elsewhere_path(savepoint_id))
    _remove(job_folder, METADATA, PIN)
    return True


def _leases_of(root: str, job: str, pin: Pin, now_ms: int) -> list[str]:
    """Describes the leases on the epoch of a native savepoint: their owners may be reading what only its pin keeps."""
    leases = [lease for lease in read_leases(root, job, now_ms) if (lease.generation, lease.epoch) == _place(pin)]
    return [f"{lease.purpose} since {lease.created_at}" for lease in leases]


def _place(pin: Pin) -> tuple[int, int]:
    return pin.generation, pin.epoch


def _remove(folder: CheckpointStorage, *visible: str) -> None:
    for path in visible:
        folder.delete(path)
    delete_all(folder, [info.path for info in folder.list("")])


def _elsewhere(root: str, savepoint: Savepoint | None) -> CheckpointStorage | None:
    """Returns the folder outside of the job's root that still has a savepoint, or the note on a native one.

    None if there is no such folder, if the savepoint was moved, or if the folder has another one now: a savepoint that
    was moved is not searched for.
    """
    if savepoint is None or savepoint.directory is None:
        return None
    folder = open_root(savepoint.directory)
    with suppress(NotFoundError, CorruptionError):
        if isinstance(savepoint, CanonicalSavepoint):
            return folder if read_canonical(folder).savepoint.savepoint_id == savepoint.savepoint_id else None
        note = decode_reference(folder.get(METADATA), path=f"{folder.url}/{METADATA}")
        noted = (note.savepoint_id, note.job, note.root.rstrip("/"))
        return folder if noted == (savepoint.savepoint_id, savepoint.job, address_of_root(root)) else None
    return None


def _forks_on(root: str, job: str, savepoint_id: str) -> list[str]:
    """Describes the jobs that began with this native savepoint and have no checkpoint of their own yet."""
    users = []
    for other in job_names(root):
        if other == job:
            continue
        log = ManifestLog(open_storage(root, other), other)
        head = look.newest(log)
        if head is None or head.manifest.base is not None:
            continue
        span = first_own(head.manifest.lineage)
        with suppress(NotFoundError):
            origin = log.read(span.generation, span.first).manifest.origin
            if origin is not None and (origin.job, origin.savepoint_id) == (job, savepoint_id):
                users.append(f"job {other!r} needs its files until its first checkpoint")
    return users


__all__ = ["dispose_savepoint"]
