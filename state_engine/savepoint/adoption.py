"""Copies state below a job's root, so that the job can go on from it.

Files of a canonical savepoint are copied as they are. State that a restore rewrites is written anew (`rekey.py`).

After the copy the job does not need the source any more: it can be moved or disposed of, and other jobs can begin with
it. The name of the copy's folder is derived from the source and from what is rewritten of it. So a new attempt
continues one that died; an attempt that was cancelled or refused leaves nothing. The base that names the copies is
written last, under a name derived from its content. Another release may cut the key groups differently: it then writes
other files and another base beside those that a log already names.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from state_engine.checkpoint.kept import ensure_not_condemned
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import look
from state_engine.epoch.compatibility import check, check_imported
from state_engine.epoch.request import RestoreTarget, StartRequest
from state_engine.errors import DamagedFileError, StorageError
from state_engine.log.documents import encode_base
from state_engine.log.lineage import IMPORTED
from state_engine.log.paths import manifest_path, restored_base_path, restored_folder
from state_engine.log.records import Adopted, Base, BaseReference, StateFile
from state_engine.savepoint.copying import CopyAttempt, Progress
from state_engine.savepoint.few_at_once import cores, few_at_once
from state_engine.savepoint.holding import RestoreHold
from state_engine.savepoint.keeping import KeptSource, source_kept
from state_engine.savepoint.rekey import rewrite_state
from state_engine.savepoint.segments import check_files
from state_engine.savepoint.source import REMEDY, Canonical, open_location, read_canonical, read_file
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment
from state_engine.storage.tables import put_once


def adopt_for(
    request: StartRequest,
    log: ManifestLog,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    cancelled: Callable[[], bool] | None = None,
    progress: Progress | None = None,
    hold: RestoreHold | None = None,
    validate: bool = True,
) -> StartRequest:
    """Prepares the request of a start: checks all that a start checks first, then copies the state that it needs.

    State that needs no copy is still read once and compared with its checksums: otherwise the sinks would be rewound
    before a task finds the damage. The request of a restore that is already decided is returned as it is.

    Args:
        request: The request of the start.
        log: The job's log.
        clock: As of `adopt`.
        ids: As of `adopt`.
        cancelled: As of `adopt`.
        progress: As of `adopt`.
        hold: As of `adopt`.
        validate: Whether to read state that needs no copy.

    Raises:
        RestoreError: The job cannot go on from the target; nothing was written.
        CorruptionError, StorageError, RestoreCancelledError: As of `adopt`.
    """
    target = request.restore
    if target is None:
        return request
    head = look.newest(log)
    if look.is_decided(log, request.job, target, head):
        return request
    check(request, target.seen.manifest)
    if target.imported:
        check_imported(request, head)
    if target.location is None and target.rewrite is None:
        if validate:
            with source_kept(request.root, request.job, target, "restore", clock=clock, ids=ids) as source:
                check_files(source.segments, cancelled=_renewing(cancelled, source, hold), progress=progress)
        return request
    adopted = adopt(
        request.root, request.job, target, clock=clock, ids=ids, cancelled=cancelled, progress=progress, hold=hold
    )
    return replace(request, restore=adopted)


def adopt(
    root: str,
    job: str,
    target: RestoreTarget,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    cancelled: Callable[[], bool] | None = None,
    progress: Progress | None = None,
    hold: RestoreHold | None = None,
) -> RestoreTarget:
    """Copies the state of a restore's target below the job's root; a target in the log, not rewritten, needs no copy.

    Every file is checked by length and checksum while it is copied. Memory holds one file per core, at most four, or
    one range of key groups, at a time.

    Args:
        root: Of the storage of the job that starts.
        job: Its name.
        target: What `resolve_restore` returned. The caller has checked that the job is compatible with it.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        cancelled: Called between files and ranges of key groups; when it returns True, the restore ends.
        progress: Called with the progress.
        hold: Its leases are renewed during the work.

    Raises:
        CorruptionError: A file of the source is gone or damaged; the error names it. This attempt leaves nothing.
        RestoreCancelledError: It was cancelled. This attempt leaves nothing.
        StorageError: The files cannot be written; a retry continues with the files that exist.
        CondemnedError: Retention is removing the source.
    """
    if target.location is None and target.rewrite is None:
        return target
    storage, clock, ids = open_storage(root, job), clock or SystemClock(), ids or RandomIds()
    folder = _folder(target)
    with source_kept(root, job, target, "restore", clock=clock, ids=ids) as source:
        is_cancelled = _renewing(cancelled, source, hold)
        attempt = CopyAttempt(storage, folder, cancelled=is_cancelled, progress=progress)
        try:
            ensure_not_condemned(storage, folder, "The restore")
            adopted = _copy(root, job, target, source.segments, storage, folder, attempt)
            attempt.raise_if_cancelled()
        except StorageError:
            raise
        except BaseException:
            attempt.discard()
            raise
    return replace(target, adopted=adopted)


def _renewing(cancelled: Callable[[], bool] | None, source: KeptSource, hold: RestoreHold | None) -> Callable[[], bool]:
    """Returns the function to call between two steps: it renews the leases, and returns whether to cancel."""

    def asked() -> bool:
        source.renew()
        if hold is not None:
            hold.renew()
        return cancelled is not None and cancelled()

    return asked


def _folder(target: RestoreTarget) -> str:
    """Returns the folder of the copies, named after the source and its rewrite: the same name has the same content."""
    manifest = target.stored.manifest
    name = target.savepoint_id or f"g{manifest.generation:06d}-e{manifest.epoch:010d}"
    if target.rewrite is None and target.location is not None:
        return restored_folder(name, read_canonical(open_location(target.location)).hash)
    description = msgspec.json.encode([manifest.job, target.stored.hash, target.rewrite, target.imported])
    return restored_folder(name, hashlib.sha256(description).hexdigest())


def _copy(
    root: str,
    job: str,
    target: RestoreTarget,
    segments: Sequence[Segment],
    storage: CheckpointStorage,
    folder: str,
    attempt: CopyAttempt,
) -> Adopted:
    generation = IMPORTED if target.imported else target.stored.manifest.generation
    source = read_canonical(open_location(target.location)) if target.location is not None else None
    if target.rewrite is not None:
        base = rewrite_state(storage, folder, job, generation, segments, target.stored, target.rewrite, attempt)
    else:
        assert source is not None, "state that is neither rewritten nor in a canonical savepoint needs no copy"
        base = _renamed(source, job, generation, folder)
    data, checksum = encode_base(base)
    reference = BaseReference(
        path=restored_base_path(folder, generation, checksum),
        checksum=checksum,
        generation=generation,
        epoch=base.epoch,
        checkpoint_id=base.checkpoint_id,
    )
    adopted = Adopted(base=reference, manifest_path=f"{folder}/epoch.json")
    sealed = _sealed(root, target, source)
    if _is_there(storage, folder, {adopted.manifest_path: sealed, reference.path: data}, base.files):
        return adopted
    if target.rewrite is None and source is not None:
        _copy_files(storage, folder, source, attempt)
    _put(storage, adopted.manifest_path, sealed)
    _put(storage, reference.path, data)
    return adopted


def _renamed(source: Canonical, job: str, generation: int, folder: str) -> Base:
    base = source.savepoint.base()
    files = tuple(replace(file, path=f"{folder}/{file.path}") for file in base.files)
    return replace(base, job=job, generation=generation, files=files)


def _copy_files(storage: CheckpointStorage, folder: str, source: Canonical, attempt: CopyAttempt) -> None:
    def copy(file: StateFile) -> StateFile:
        _put(storage, f"{folder}/{file.path}", read_file(source, file))
        return file

    attempt.expect(sum(file.length for file in source.files))
    attempt.raise_if_cancelled()
    with few_at_once(copy, source.files, cores()) as copied:  # reads and checks one while the disk writes another
        for file in copied:
            attempt.add_done(file.length, file.path)
            attempt.raise_if_cancelled()


def _sealed(root: str, target: RestoreTarget, source: Canonical | None) -> bytes:
    """Returns the manifest of the source, byte for byte as it was sealed."""
    if source is not None:
        return bytes(source.savepoint.sealed)
    manifest = target.stored.manifest
    return open_storage(root, manifest.job).get(manifest_path(manifest.generation, manifest.epoch))


def _is_there(
    storage: CheckpointStorage, folder: str, documents: Mapping[str, bytes], files: Sequence[StateFile]
) -> bool:
    """Whether an earlier attempt finished: it wrote the base last."""
    stored_sizes = {info.path: info.size for info in storage.list(folder)}
    whole = all(stored_sizes.get(file.path) == file.length for file in files)
    return whole and all(path in stored_sizes and storage.get(path) == data for path, data in documents.items())


def _put(storage: CheckpointStorage, path: str, data: bytes) -> None:
    if not put_once(storage, path, data):
        raise DamagedFileError(f"{path} holds other bytes than the savepoint it was copied from.", action=REMEDY)


__all__ = ["adopt", "adopt_for"]
