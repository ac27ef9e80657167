"""Lists the savepoints of a job, and finds the sealed epoch that a restore names."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.look import newest
from state_engine.epoch.request import RestoreTarget, SavepointLocation
from state_engine.errors import (
    CorruptionError,
    DamagedManifestError,
    NotFoundError,
    NothingToRestoreError,
    SavepointError,
)
from state_engine.log.documents import decode_pin, decode_reference, decode_savepoint, is_reference
from state_engine.log.lineage import first_own
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import LEASES, METADATA, SAVEPOINTS, elsewhere_path, metadata_path, pin_path
from state_engine.log.records import Pin
from state_engine.log.retention_records import decode_lease
from state_engine.log.savepoints import CanonicalSavepoint, Savepoint, SavepointReference
from state_engine.savepoint.handles import read_pinned, verify_handles
from state_engine.savepoint.native import sealed_epoch
from state_engine.savepoint.source import (
    Canonical,
    location_in_job,
    location_of_url,
    open_location,
    read_canonical,
    verify_lengths,
)
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage, check_name
from state_engine.storage.roots import address


class DamagedSavepoint(NamedTuple):
    """A savepoint that cannot be read: its pin or its metadata is not what was written.

    Attributes:
        savepoint_id: Its id.
        path: The file, relative to the job's root.
        problem: What is wrong with it.
    """

    savepoint_id: str
    path: str
    problem: str


class Catalogue(NamedTuple):
    """The completed savepoints of a job: the readable ones, oldest first, and the damaged ones, by id."""

    savepoints: list[Savepoint]
    damaged: list[DamagedSavepoint]


def read_catalogue(root: str, job: str) -> Catalogue:
    """Returns the completed savepoints of a job: those with a row in `_checkpoints`.

    Canonical ones that were written to another directory are included, as they were when they were written.

    Raises:
        DamagedFileError: A row cannot be read.
    """
    storage = open_storage(root, job)
    completed = CheckpointTable(storage, open_tables(storage)).savepoint_ids()
    readable: list[Savepoint] = []
    damaged = []
    for name in storage.folders(SAVEPOINTS):
        try:
            entry = find_savepoint(storage, name) if name in completed else None
        except CorruptionError as error:
            path = next((path for path in _descriptions(name) if storage.exists(path)), pin_path(name))
            damaged.append(DamagedSavepoint(name, path, error.message))
        else:
            readable += [entry] if entry is not None else []
    readable.sort(key=lambda savepoint: (savepoint.created_at, savepoint.savepoint_id))
    return Catalogue(readable, sorted(damaged))


def list_savepoints(root: str, job: str) -> list[Savepoint]:
    """Returns the completed savepoints of a job that can be read, oldest first; `read_catalogue` also names the others.

    Raises:
        DamagedFileError: A row cannot be read.
    """
    return read_catalogue(root, job).savepoints


def load_savepoint(root: str, job: str, savepoint_id: str) -> Savepoint:
    """Returns one savepoint after checking that all its files exist.

    Reads neither `_checkpoints` nor any state table, so a savepoint can be restored when these are lost.

    Raises:
        NothingToRestoreError: No savepoint has this id; the error names those that exist.
        CorruptionError: The pin or the metadata, or a file that the savepoint needs, is gone or damaged.
    """
    storage = open_storage(root, job)
    savepoint = find_savepoint(storage, check_name("savepoint id", savepoint_id))
    if savepoint is None:
        existing = [name for name in storage.folders(SAVEPOINTS) if is_there(storage, name)]
        raise NothingToRestoreError(
            f"Job {job!r} has no savepoint {savepoint_id!r}; it has {_named(existing)}.",
            action="Name one of these, `latest`, `checkpoint:<id>`, `epoch:<generation>/<epoch>`, or the absolute path "
            "or address of a canonical savepoint.",
        )
    if isinstance(savepoint, Pin):
        verify_handles(storage, savepoint)
    else:
        verify_lengths(load_canonical(location_of(root, savepoint)))
    return savepoint


def load_canonical(location: SavepointLocation) -> Canonical:
    """Reads the canonical savepoint in a folder, also if the folder was moved.

    Raises:
        NothingToRestoreError: The folder has no savepoint, or one that was never finished.
        CorruptionError: Its metadata are damaged.
    """
    storage = open_location(location)
    try:
        return read_canonical(storage)
    except NotFoundError as error:
        raise NothingToRestoreError(
            f"There is no savepoint at {storage.url}: it has no {METADATA}.",
            action="Give the folder with the savepoint's `_metadata`; a savepoint that was not finished has none.",
        ) from error


def location_of(root: str, savepoint: CanonicalSavepoint) -> SavepointLocation:
    """Returns where a canonical savepoint of a job was written to."""
    if savepoint.directory is not None:
        return SavepointLocation(url=savepoint.directory)
    return location_in_job(root, savepoint.job, savepoint.savepoint_id)


def address_of_root(root: str) -> str:
    """Returns a root as the note on a native savepoint names it: on local disks the absolute path."""
    return address(root).rstrip("/")


def is_location(what: str) -> bool:
    """Returns whether a restore names its source by path or address. A relative path counts as a name."""
    return what.startswith(("/", "file:")) or "://" in what


def find_savepoint(storage: CheckpointStorage, savepoint_id: str) -> Savepoint | None:
    """Returns a savepoint of a job, or None; a canonical one from its metadata, not from the pin that it began with."""
    for path in (metadata_path(savepoint_id), elsewhere_path(savepoint_id)):
        with suppress(NotFoundError):
            return decode_savepoint(storage.get(path), path=path).savepoint
    with suppress(NotFoundError):
        return decode_pin(storage.get(pin_path(savepoint_id)), path=pin_path(savepoint_id)).pin
    return None


def is_there(storage: CheckpointStorage, savepoint_id: str) -> bool:
    """Returns whether any of the files exists from which `find_savepoint` reads a savepoint; reads none of them."""
    return any(map(storage.exists, _descriptions(savepoint_id)))


def _descriptions(savepoint_id: str) -> tuple[str, str, str]:
    """Returns the paths of the files that may describe a savepoint of a job."""
    return metadata_path(savepoint_id), elsewhere_path(savepoint_id), pin_path(savepoint_id)


def resolve_restore(root: str, job: str, what: str) -> RestoreTarget:
    """Finds the sealed epoch that a restore names.

    Args:
        root: Of the storage.
        job: The job that is going to run.
        what: `latest` (the newest sealed epoch), a savepoint id, `checkpoint:<id>` or `epoch:<generation>/<epoch>`;
            `<other job>/<savepoint id>` for a savepoint of another job under the same root; or the absolute path or
            address of a folder with a canonical savepoint, which may have been moved or copied there from anywhere.

    Returns:
        The epoch. For a canonical savepoint also the folder of its files; `adopt` them before the start.

    Raises:
        NothingToRestoreError: It does not exist; the error names what does.
        CorruptionError: It exists, but is damaged.
    """
    if is_location(what):
        return _at(root, job, location_of_url(what))
    log = ManifestLog(open_storage(root, job), job)
    if what == "latest":
        return RestoreTarget(stored=sealed_epoch(log, job))
    kind, colon, name = what.partition(":")
    if colon and kind == "checkpoint":
        return RestoreTarget(stored=_checkpoint(root, job, log, name))
    if colon and kind == "epoch":
        return RestoreTarget(stored=_kept_epoch(root, job, log, name))
    if colon:
        raise _not_understood(what)
    owner, slash, savepoint_id = what.rpartition("/")
    source = check_name("job name", owner) if slash else job
    savepoint = load_savepoint(root, source, savepoint_id)
    if isinstance(savepoint, Pin):
        return RestoreTarget(stored=read_pinned(open_storage(root, source), savepoint).head, savepoint_id=savepoint_id)
    return _at(root, job, location_of(root, savepoint))


def _at(root: str, job: str, location: SavepointLocation) -> RestoreTarget:
    storage = open_location(location)
    if storage.exists(METADATA) and is_reference(data := storage.get(METADATA)):
        return _referred(root, decode_reference(data, path=f"{storage.url}/{METADATA}"), storage.url)
    source = load_canonical(location)
    verify_lengths(source)
    return RestoreTarget(
        stored=source.head,
        savepoint_id=source.savepoint.savepoint_id,
        location=location,
        imported=not _has_epoch(root, job, source),
    )


def _has_epoch(root: str, job: str, source: Canonical) -> bool:
    """Whether the job's own log has exactly the savepoint's epoch, so that its lineage can go on from that epoch."""
    if source.savepoint.job != job:
        return False
    try:
        stored = ManifestLog(open_storage(root, job), job).read(source.savepoint.generation, source.savepoint.epoch)
    except (NotFoundError, CorruptionError):
        return False
    return stored.hash == source.head.hash


def _referred(root: str, reference: SavepointReference, where: str) -> RestoreTarget:
    """Follows the `_metadata` that a native savepoint left in a directory."""
    if address_of_root(root) != reference.root.rstrip("/"):
        raise SavepointError(
            f"{where} refers to the native savepoint {reference.savepoint_id} of job {reference.job!r}. Its files "
            f"are under {reference.root}. It is not relocatable.",
            action=f"Start the job with that root, or take a canonical savepoint of {reference.job!r}.",
        )
    return resolve_restore(root, reference.job, reference.savepoint_id)


def _checkpoint(root: str, job: str, log: ManifestLog, wanted: str) -> StoredManifest:
    storage = open_storage(root, job)
    rows = CheckpointTable(storage, open_tables(storage)).rows()
    completed = {row.id: row for row in rows if row.kind == "checkpoint" and row.status == "completed"}
    if wanted not in completed:
        ended = next((row for row in rows if row.kind == "checkpoint" and row.id == wanted), None)
        why = f" It {ended.status}: {ended.failure}" if ended is not None else ""
        raise NothingToRestoreError(
            f"Job {job!r} has no completed checkpoint {wanted!r}; it has {_named(completed)}.{why}",
            action="Name one of these, or a savepoint id.",
        )
    row = completed[wanted]
    stored = _epoch(job, log, f"{row.generation}/{row.epoch}")
    if stored.hash != row.manifest:
        raise DamagedManifestError(
            f"Epoch {row.epoch} of generation {row.generation} has the hash {stored.hash}, but checkpoint {wanted} was "
            f"made of {row.manifest}.",
            action="Restore another checkpoint or savepoint, and find out who wrote to the job's root.",
        )
    return stored


def _kept_epoch(root: str, job: str, log: ManifestLog, place: str) -> StoredManifest:
    """Returns a sealed epoch. One at a number that retention has freed must be kept by a savepoint or a lease.

    A driver that slept too long may have put another manifest at a freed number. It read the floor after its put and
    ended, and no hash leads to what it left. The first manifest of a job stays for ever.
    """
    stored = _epoch(job, log, place)
    floor = log.floors().get(stored.manifest.generation, 0)  # read last: it rises before a number is freed
    if stored.manifest.epoch > floor or stored.hash in _kept_manifests(root, job, log):
        return stored
    raise NothingToRestoreError(
        f"Retention has freed generation {stored.manifest.generation} of job {job!r} up to epoch {floor}, and no "
        f"savepoint keeps the state of epoch {stored.manifest.epoch}. Its manifest may be one that a late driver left.",
        action=f"Name an epoch after {floor}, a checkpoint or a savepoint.",
    )


def _kept_manifests(root: str, job: str, log: ManifestLog) -> Iterator[str]:
    """Yields the hashes of manifests that are kept whatever the floor is."""
    if (head := newest(log)) is not None:
        first = first_own(head.manifest.lineage)
        with suppress(NotFoundError):
            yield log.read(first.generation, first.first).hash
    storage = open_storage(root, job)
    for info in storage.list(LEASES, recursive=False):
        with suppress(NotFoundError):  # the lease has just been given back
            yield decode_lease(storage.get(info.path), path=info.path).manifest
    for savepoint in list_savepoints(root, job):
        yield savepoint.manifest
        yield from (digest for _, digest in savepoint.manifests) if isinstance(savepoint, Pin) else ()


def _epoch(job: str, log: ManifestLog, place: str) -> StoredManifest:
    generation, _, epoch = place.partition("/")
    if not (generation.isdecimal() and epoch.isdecimal()):
        raise _not_understood(f"epoch:{place}")
    try:
        return log.read(int(generation), int(epoch))
    except NotFoundError as error:
        sealed = log.epochs(int(generation))
        extent = f"its epochs {sealed[0]} to {sealed[-1]} are sealed" if sealed else "it has no sealed epochs"
        floor = log.floors().get(int(generation), 0)
        if int(epoch) <= floor:
            extent += f", and retention has removed what nothing keeps up to epoch {floor}"
        raise NothingToRestoreError(
            f"Generation {generation} of job {job!r} has no epoch {epoch}; {extent}.",
            action=f"Name one of them; the job has the generations {log.generations()}.",
        ) from error


def _not_understood(what: str) -> NothingToRestoreError:
    return NothingToRestoreError(
        f"{what!r} names nothing that can be restored.",
        action="Use latest, checkpoint:<id>, epoch:<generation>/<epoch>, a savepoint id, <job>/<savepoint id>, or the "
        "absolute path or address of a canonical savepoint.",
    )


def _named(names: object) -> str:
    texts = [str(name) for name in names] if isinstance(names, list | dict) else []
    shown = ", ".join(texts[-20:])
    return f"{'… ' if len(texts) > 20 else ''}{shown}" if texts else "none"


__all__ = [
    "Catalogue",
    "DamagedSavepoint",
    "address_of_root",
    "find_savepoint",
    "is_location",
    "is_there",
    "list_savepoints",
    "load_canonical",
    "load_savepoint",
    "location_of",
    "read_catalogue",
    "resolve_restore",
]
