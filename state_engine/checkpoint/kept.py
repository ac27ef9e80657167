"""Checks that what a pin or a lease protects is whole: none of it is condemned, and all of it exists.

The order is that of a pin: write what you need, then read what is condemned, then check that it exists. Retention
condemns, then reads pins and leases, then deletes. A pin or lease written before retention read them spares its files;
one written later finds the files condemned or gone, and its owner gives up.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from state_engine.checkpoint.retention.needs import History, files_of_epoch, way_back
from state_engine.checkpoint.table import CheckpointTable, newest_base
from state_engine.epoch import look
from state_engine.epoch.sink_moves import since
from state_engine.errors import CondemnedError, MissingFileError, NotFoundError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import CONDEMNED, manifest_path, parse_manifest_path
from state_engine.log.retention_records import Condemned, decode_condemned
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage


def read_condemned(storage: CheckpointStorage) -> list[Condemned]:
    """Returns all lists of condemned files.

    Raises:
        DamagedFileError: One is not what was written.
    """
    lists = []
    for info in storage.list(CONDEMNED, recursive=False):
        with suppress(NotFoundError):  # all its files have just been deleted
            lists.append(decode_condemned(storage.get(info.path), path=info.path))
    return lists


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

    First it checks that nothing that the epoch needs is condemned, then that everything exists: in this order, since a
    list of condemned files is deleted once they are gone. Each manifest of the job is read at most once, before both
    checks. Those of the way back are read after both checks, when retention does not remove them any more.

    A manifest whose number may have been freed can be another one than the caller has read: a driver that slept while
    retention deleted it may have put its own. Then all of them are read anew, after both checks.

    Args:
        root: Of the storage.
        stored: The sealed epoch.
        what: What relies on it, for messages.
        files: The files that a pin lists: an epoch may be read from another base than the newest.
        log: Of the job, with the manifests that the caller has read, which never change.
        way: Whether the manifests between it and the newest epoch must exist. They record what a restore retracts from
            sinks; retention keeps them as soon as it sees the pin or the lease.

    Raises:
        CondemnedError: Retention is removing some of it.
        MissingFileError: Something is gone.
        DamagedManifestError: A manifest on the way back is not the one that the next manifest names.
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
    _check_exist(storage, needed, what)
    if _may_be_replaced(needed, log.floors()):
        log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
        _check_same(log, stored, what)
        log.chain(stored)
    if head is not None:
        since(log, head, stored)
        since(log, stored, head)


def ensure_not_condemned(storage: CheckpointStorage, folder: str, what: str) -> None:
    """Makes sure that no file in a folder is going to be deleted, once a lease that protects the folder is durable.

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


def ensure_files_kept(
    storage: CheckpointStorage, files: Collection[str], what: str, *, must_exist: bool = True
) -> None:
    """Makes sure that files stay, once a lease that lists them is durable.

    Args:
        storage: Of the job.
        files: Their paths.
        what: What relies on them, for messages.
        must_exist: Whether all of them have to exist. A reader notices a missing file when it reads it.

    Raises:
        CondemnedError: Retention is removing some of them.
        MissingFileError: Some of them are gone.
    """
    _none_condemned(storage, files, what)
    if must_exist:
        _check_exist(storage, files, what)


def ensure_same_manifest(storage: CheckpointStorage, stored: StoredManifest, what: str) -> None:
    """Makes sure that the manifest of an epoch is the one that was read, once a lease that lists it is durable.

    Raises:
        MissingFileError: It is gone, or another one has its number.
    """
    _check_same(ManifestLog(storage, stored.manifest.job), stored, what)


def _may_be_replaced(paths: Iterable[str], floors: Mapping[int, int]) -> bool:
    """Returns whether the number of one of these manifests may have been freed: it is not above the floor."""
    places = filter(None, map(parse_manifest_path, paths))
    return any(epoch <= floors.get(generation, 0) for generation, epoch in places)


def _check_same(log: ManifestLog, stored: StoredManifest, what: str) -> None:
    generation, epoch = stored.manifest.generation, stored.manifest.epoch
    try:
        if log.read(generation, epoch).hash == stored.hash:
            return
        fate = "which retention has removed: another manifest has its number"
    except NotFoundError:
        fate = "which is gone"
    raise MissingFileError(
        f"{what} needs {manifest_path(generation, epoch)}, {fate}.",
        action="Choose another epoch, checkpoint or savepoint.",
    )


def _none_condemned(storage: CheckpointStorage, needed: Collection[str], what: str) -> None:
    for condemned in read_condemned(storage):
        for file in condemned.files:
            if file.path in needed:
                raise CondemnedError(
                    f"{what} needs {file.path}, which retention is removing: {file.reason}.",
                    action="Choose a newer epoch, checkpoint or savepoint; or let retention end and try again.",
                )


def _check_exist(storage: CheckpointStorage, needed: Collection[str], what: str) -> None:
    folders = sorted({path.rpartition("/")[0] for path in needed})
    existing = {info.path for folder in folders for info in storage.list(folder, recursive=False)}
    if absent := sorted(set(needed) - existing):
        raise MissingFileError(
            f"{what} needs {absent[0]}, which is gone.",
            action="Choose another epoch, checkpoint or savepoint; retention may have removed this one.",
        )


__all__ = ["ensure_files_kept", "ensure_kept", "ensure_not_condemned", "ensure_same_manifest", "read_condemned"]
