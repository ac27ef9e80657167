"""Copying the files of a canonical savepoint below a job's root, so that the job can go on from them.

A copy leaves the savepoint free: to be moved, to be disposed of, to begin other jobs with. The base that names the
copies is written last, under a name that stands for the savepoint: an attempt that died is gone on with.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import look
from state_engine.epoch.compatibility import check, check_imported
from state_engine.epoch.request import RestoreTarget, StartRequest
from state_engine.errors import DamagedFileError, NotFoundError, StorageError
from state_engine.log.documents import encode_base
from state_engine.log.lineage import IMPORTED
from state_engine.log.paths import IN_USE, restored_folder
from state_engine.log.records import Adopted, BaseReference
from state_engine.savepoint.source import REMEDY, Canonical, open_location, read_canonical, read_file
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage, open_storage
from state_engine.storage.tables import put_once


def adopt_for(request: StartRequest, log: ManifestLog) -> StartRequest:
    """Makes a request ready to be started: asks all that a start asks first, then copies what it needs.

    Nothing is copied for a restore that is decided already: its copy is there.

    Raises:
        RestoreError: The job cannot go on from there; nothing was written.
        CorruptionError, StorageError: As of `adopt`.
    """
    wanted = request.restore
    if wanted is None or wanted.location is None:
        return request
    head = look.newest(log)
    if look.is_decided(log, request.job, wanted, head):
        return request
    check(request, wanted.stored.manifest)
    if wanted.imported:
        check_imported(request, head)
    return replace(request, restore=adopt(request.root, request.job, wanted))


def adopt(
    root: str, job: str, target: RestoreTarget, *, clock: Clock | None = None, ids: Ids | None = None
) -> RestoreTarget:
    """Makes a restore's target ready for a start; one that is no canonical savepoint is ready as it is.

    Every file is checked by length and checksum on its way. Memory holds one file at a time.

    Args:
        root: Of the storage of the job that starts.
        job: Its name.
        target: What `resolve_restore` found, and the job was found compatible with.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.

    Raises:
        CorruptionError: A file of the savepoint is gone or damaged; the error names it.
        StorageError: The files cannot be written; trying again goes on with what is there.
    """
    if target.location is None:
        return target
    source = read_canonical(open_location(target.location))
    storage = open_storage(root, job)
    with _in_use(source.storage, f"job {job} at {root}", clock or SystemClock(), ids or RandomIds()):
        adopted = _copy(storage, job, source, IMPORTED if target.imported else source.savepoint.generation)
    return replace(target, adopted=adopted)


def users_of(storage: CheckpointStorage) -> list[str]:
    """Returns which restores are reading the savepoint in this folder, as each of them described itself."""
    users = []
    for info in storage.list(IN_USE):
        with suppress(NotFoundError):
            users.append(storage.get(info.path).decode(errors="replace"))
    return users


@contextmanager
def _in_use(storage: CheckpointStorage, user: str, clock: Clock, ids: Ids) -> Iterator[None]:
    """Marks a savepoint as being read; one that lies where we cannot write, nobody disposes of through us."""
    mark = f"{IN_USE}/{ids.new_id()}"
    try:
        storage.put_if_absent(mark, f"{user} since {clock.now_ms()}".encode())
    except StorageError:
        yield
        return
    try:
        yield
    finally:
        with suppress(StorageError):
            storage.delete(mark)


def _copy(storage: CheckpointStorage, job: str, source: Canonical, generation: int) -> Adopted:
    folder = restored_folder(source.savepoint.savepoint_id, source.hash)
    base = source.savepoint.base()
    files = tuple(replace(file, path=f"{folder}/{file.path}") for file in base.files)
    data, checksum = encode_base(replace(base, job=job, generation=generation, files=files))
    reference = BaseReference(
        path=f"{folder}/base-g{generation}.json",
        checksum=checksum,
        generation=generation,
        epoch=base.epoch,
        checkpoint_id=base.checkpoint_id,
    )
    adopted = Adopted(base=reference, manifest_path=f"{folder}/epoch.json")
    if _is_there(storage, folder, adopted, [(file.path, file.length) for file in files]):
        return adopted
    for file in base.files:
        _put(storage, f"{folder}/{file.path}", read_file(source, file))
    _put(storage, adopted.manifest_path, bytes(source.savepoint.sealed))
    _put(storage, reference.path, data)
    return adopted


def _is_there(storage: CheckpointStorage, folder: str, adopted: Adopted, files: list[tuple[str, int]]) -> bool:
    there = {info.path: info.size for info in storage.list(folder)}
    if adopted.base.path not in there or adopted.manifest_path not in there:
        return False
    return all(there.get(path) == length for path, length in files)


def _put(storage: CheckpointStorage, path: str, data: bytes) -> None:
    if not put_once(storage, path, data):
        raise DamagedFileError(f"{path} holds other bytes than the savepoint it was copied from.", action=REMEDY)


__all__ = ["adopt", "adopt_for", "users_of"]
