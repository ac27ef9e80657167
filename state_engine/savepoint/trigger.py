"""Takes a savepoint of either kind of a running, stopped or dead job, at its newest or an earlier epoch."""

from typing import Literal, Unpack, get_args, overload

import msgspec
from msgspec.structs import replace

from state_engine.checkpoint.fold_inputs import FoldInputs, newest_fold_inputs
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, StateRow
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.errors import JobDefinitionError, SavepointError, StorageError
from state_engine.log.documents import encode_reference
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import METADATA, pin_path
from state_engine.log.records import Pin
from state_engine.log.savepoints import CanonicalSavepoint, Savepoint, SavepointReference
from state_engine.savepoint.canonical import write_canonical
from state_engine.savepoint.catalogue import address_of_root
from state_engine.savepoint.native import (
    check_independent,
    draft_pin,
    foreign_origin,
    new_savepoint_id,
    sealed_epoch,
    write_pin,
)
from state_engine.savepoint.request import SavepointKind, SavepointOptions, SavepointRequest
from state_engine.savepoint.writers import RangeWriter
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_root, open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.roots import address

_NOTE = (
    "This is a native savepoint: its files are those of the job, under `root`. It cannot be moved or copied; take a "
    "canonical savepoint for that."
)


@overload
def trigger_savepoint(
    root: str,
    job: str,
    *,
    kind: Literal["native"] = "native",
    clock: Clock | None = None,
    ids: Ids | None = None,
    writer: RangeWriter | None = None,
    **options: Unpack[SavepointOptions],
) -> Pin: ...
@overload
def trigger_savepoint(
    root: str,
    job: str,
    *,
    kind: Literal["canonical"],
    clock: Clock | None = None,
    ids: Ids | None = None,
    writer: RangeWriter | None = None,
    **options: Unpack[SavepointOptions],
) -> CanonicalSavepoint: ...
def trigger_savepoint(
    root: str,
    job: str,
    *,
    kind: SavepointKind = "native",
    clock: Clock | None = None,
    ids: Ids | None = None,
    writer: RangeWriter | None = None,
    **options: Unpack[SavepointOptions],
) -> Savepoint:
    """Takes a savepoint, as `take_savepoint` does; `kind` and `options` are the fields of the `SavepointRequest`."""
    return take_savepoint(root, job, SavepointRequest(kind, **options), clock=clock, ids=ids, writer=writer)


def take_savepoint(
    root: str,
    job: str,
    request: SavepointRequest,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    writer: RangeWriter | None = None,
) -> Savepoint:
    """Takes a savepoint of a running, stopped or dead job.

    Args:
        root: Of the storage.
        job: Name of the job.
        request: Which savepoint. Without a `trigger` it counts as requested by `user`.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        writer: Folds a canonical one: in this process by default; `state_engine.spark.SparkWriter` is for states that
            are too large for it. The tables are the same.

    Returns:
        The savepoint, verified, and listed in `_checkpoints`.

    Raises:
        JobDefinitionError: There is no such kind.
        UnsupportedAddressError: The directory's address would be read as another place than it seems to name.
        NothingToRestoreError: The job never sealed an epoch, or not this one.
        CorruptionError: A file that a restore would need is gone or damaged; no savepoint is left.
        CondemnedError: Retention is removing files of this epoch; no savepoint is left.
        StorageError: It could not be written; no savepoint is left.
        SavepointError: A native one of a fork without a checkpoint yet: its state is in files of the other job, and
            that job's retention does not read this job's pins. Or the savepoint is complete, but it is not known
            whether it is listed.
    """
    if request.kind not in get_args(SavepointKind):
        raise JobDefinitionError(f"There is no kind {request.kind!r} of savepoints.", action="Use native or canonical.")
    request = request.taken_by("user")
    directory = _absolute(request.directory) if request.directory is not None else None
    clock, ids = clock or SystemClock(), ids or RandomIds()
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    began = clock.now_ms()
    head = sealed_epoch(log, job, request.epoch)
    rows = CheckpointTable(storage, open_tables(storage))
    inputs = newest_fold_inputs(storage, log, rows, head)
    draft = replace(
        draft_pin(storage, head, inputs),
        created_at=began,
        trigger=request.trigger,
        label=request.label,
        note=request.note,
    )
    taken: Savepoint
    if request.kind == "native":
        check_independent(inputs, head.manifest)
        taken = _native(root, storage, ids, draft, head, directory, log)
    else:
        taken = _canonical(root, storage, ids, draft, head, inputs, directory, writer)
    try:
        rows.append([_row(taken, clock.now_ms())], app_id=f"lakestate/{job}/{taken.savepoint_id}", version=1)
    except StorageError as error:
        raise SavepointError(
            f"Savepoint {taken.savepoint_id} of job {job!r} is complete, but it may not be listed: {error.message}",
            action="Restore or dispose of it by its id, whether it is listed or not; or take another one.",
        ) from error
    return taken


def _native(
    root: str,
    storage: CheckpointStorage,
    ids: Ids,
    draft: Pin,
    head: StoredManifest,
    directory: str | None,
    log: ManifestLog,
) -> Pin:
    pin = write_pin(root, storage, ids, draft, head, directory, log)
    if pin.directory is not None:
        reference = SavepointReference(
            savepoint_id=pin.savepoint_id,
            job=pin.job,
            root=address_of_root(root),
            manifest=pin.manifest,
            relocatable=False,
            note=_NOTE,
        )
        try:
            open_root(pin.directory).put_if_absent(METADATA, encode_reference(reference))
        except Exception:
            storage.delete(pin_path(pin.savepoint_id))
            raise
    return pin


def _canonical(
    root: str,
    storage: CheckpointStorage,
    ids: Ids,
    draft: Pin,
    head: StoredManifest,
    inputs: FoldInputs,
    directory: str | None,
    writer: RangeWriter | None,
) -> CanonicalSavepoint:
    pin: Pin | None = None
    if foreign_origin(inputs) is None:  # else no pin can keep the files: the fold has to end before retention deletes
        pin = write_pin(root, storage, ids, replace(draft, folds=True), head, directory)
    name = pin.savepoint_id if pin is not None else new_savepoint_id(ids, draft.created_at)
    savepoint = CanonicalSavepoint(
        savepoint_id=name,
        job=draft.job,
        generation=draft.generation,
        epoch=draft.epoch,
        manifest=draft.manifest,
        sealed=msgspec.Raw(b"null"),
        tables=(),
        created_at=draft.created_at,
        trigger=draft.trigger,
        label=draft.label,
        note=draft.note,
        directory=f"{directory}/{name}" if directory is not None else None,
    )
    try:
        return write_canonical(root, savepoint, head, inputs, ids, writer)
    finally:
        if pin is not None:
            storage.delete(pin_path(pin.savepoint_id))


def _absolute(directory: str) -> str:
    """Returns the address of a directory for savepoints; a local one as an absolute path, valid in every process."""
    return address(directory).rstrip("/")


def _row(taken: Savepoint, now_ms: int) -> CheckpointRow:
    pin = taken if isinstance(taken, Pin) else None
    return CheckpointRow(
        id=taken.savepoint_id,
        kind="savepoint",
        status="completed",
        type="PIN" if pin is not None else "CANONICAL",
        generation=taken.generation,
        epoch=taken.epoch,
        manifest=taken.manifest,
        base_path=pin.base.path if pin is not None and pin.base is not None else None,
        base_checksum=pin.base.checksum if pin is not None and pin.base is not None else None,
        triggered_at=taken.created_at,
        completed_at=now_ms,
        duration_ms=max(0, now_ms - taken.created_at),
        bytes=0 if pin is not None else taken.bytes,
        state_bytes=taken.bytes,
        rows=None if pin is not None else taken.rows,
        log_rows=taken.rows,
        states=() if isinstance(taken, Pin) else _states(taken),
        trigger=taken.trigger,
        label=taken.label,
        note=taken.note,
    )


def _states(savepoint: CanonicalSavepoint) -> tuple[StateRow, ...]:
    return tuple(
        StateRow(
            uid=table.schema.uid,
            state=table.schema.name,
            table=table.path,
            full=True,
            files=len(table.files),
            rows=sum(file.rows for file in table.files),
            log_rows=sum(file.rows for file in table.files),
            changed_rows=0,
            bytes=sum(file.length for file in table.files),
        )
        for table in savepoint.tables
    )


__all__ = ["take_savepoint", "trigger_savepoint"]
