"""Which savepoints a job has, and what a restore may be asked for."""

from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.request import RestoreTarget
from state_engine.errors import DamagedManifestError, NotFoundError, NothingToRestoreError
from state_engine.log.documents import decode_pin
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import SAVEPOINTS, pin_path
from state_engine.log.records import Pin
from state_engine.savepoint.handles import read_pinned, verify_handles
from state_engine.savepoint.native import sealed_epoch
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import check_name, open_storage
from state_engine.storage.tables import open_tables


def list_savepoints(root: str, job: str) -> list[Pin]:
    """Returns the completed savepoints of a job, oldest first: those with a row in `_checkpoints`.

    Raises:
        DamagedFileError: A pin is not what was written.
    """
    storage = open_storage(root, job)
    completed = CheckpointTable(storage, open_tables(storage)).savepoint_ids()
    pins = []
    for savepoint_id in storage.folders(SAVEPOINTS):
        if savepoint_id in completed and storage.exists(pin_path(savepoint_id)):
            pins.append(decode_pin(storage.get(pin_path(savepoint_id)), path=pin_path(savepoint_id)).pin)
    return sorted(pins, key=lambda pin: (pin.created_at, pin.savepoint_id))


def load_savepoint(root: str, job: str, savepoint_id: str) -> Pin:
    """Returns one savepoint after checking that all its files are there.

    Neither `_checkpoints` nor any state table is asked, so a savepoint can be restored when these are lost.

    Raises:
        NothingToRestoreError: There is none of this id; the error names those that exist.
        CorruptionError: The pin, or a file that it needs, is gone or damaged.
    """
    storage = open_storage(root, job)
    path = pin_path(check_name("savepoint id", savepoint_id))
    try:
        pin = decode_pin(storage.get(path), path=path).pin
    except NotFoundError as error:
        existing = [name for name in storage.folders(SAVEPOINTS) if storage.exists(pin_path(name))]
        raise NothingToRestoreError(
            f"Job {job!r} has no savepoint {savepoint_id!r}; it has {_named(existing)}.",
            action="Name one of these, `latest`, `checkpoint:<id>` or `epoch:<generation>/<epoch>`.",
        ) from error
    verify_handles(storage, pin)
    return pin


def resolve_restore(root: str, job: str, what: str) -> RestoreTarget:
    """Finds the sealed epoch that a restore asks for.

    Args:
        root: Of the storage.
        job: The job that is going to run.
        what: `latest` (the newest sealed epoch), a savepoint id, `checkpoint:<id>`, `epoch:<generation>/<epoch>`, or
            `<other job>/<savepoint id>` for a savepoint of another job under the same root.

    Raises:
        NothingToRestoreError: It does not exist; the error names what does.
        CorruptionError: It exists, and is damaged.
    """
    log = ManifestLog(open_storage(root, job), job)
    if what == "latest":
        return RestoreTarget(stored=sealed_epoch(log, job))
    kind, colon, name = what.partition(":")
    if colon and kind == "checkpoint":
        return RestoreTarget(stored=_checkpoint(root, job, log, name))
    if colon and kind == "epoch":
        return RestoreTarget(stored=_epoch(job, log, name))
    if colon:
        raise _not_understood(what)
    owner, slash, savepoint_id = what.rpartition("/")
    source = check_name("job name", owner) if slash else job
    pin = load_savepoint(root, source, savepoint_id)
    return RestoreTarget(stored=read_pinned(open_storage(root, source), pin).head, savepoint_id=pin.savepoint_id)


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


def _epoch(job: str, log: ManifestLog, place: str) -> StoredManifest:
    generation, _, epoch = place.partition("/")
    if not (generation.isdecimal() and epoch.isdecimal()):
        raise _not_understood(f"epoch:{place}")
    try:
        return log.read(int(generation), int(epoch))
    except NotFoundError as error:
        sealed = log.epochs(int(generation))
        there = f"its epochs {sealed[0]} to {sealed[-1]} are sealed" if sealed else "it has no sealed epochs"
        raise NothingToRestoreError(
            f"Generation {generation} of job {job!r} has no epoch {epoch}; {there}.",
            action=f"Name one of them; the job has the generations {log.generations()}.",
        ) from error


def _not_understood(what: str) -> NothingToRestoreError:
    return NothingToRestoreError(
        f"{what!r} names nothing that can be restored.",
        action="Use latest, checkpoint:<id>, epoch:<generation>/<epoch>, a savepoint id or <job>/<savepoint id>.",
    )


def _named(names: object) -> str:
    found = [str(name) for name in names] if isinstance(names, list | dict) else []
    shown = ", ".join(found[-20:])
    return f"{'… ' if len(found) > 20 else ''}{shown}" if found else "none"


__all__ = ["list_savepoints", "load_savepoint", "resolve_restore"]
