"""Native savepoints: a pin of a sealed epoch. Nothing is copied, and the job need not run.

A pin is written first and verified afterwards. Retention reads the pins again before it deletes: so either retention
sees the pin, or the verification sees that a file is gone.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from state_engine.checkpoint.fold_inputs import FoldInputs
from state_engine.checkpoint.kept import ensure_kept
from state_engine.clock import Ids
from state_engine.epoch.look import newest
from state_engine.errors import (
    AlreadyExistsError,
    NotFoundError,
    NothingToRestoreError,
    SavepointError,
    StorageError,
)
from state_engine.log.documents import encode_pin
from state_engine.log.lineage import IMPORTED, first_own, generation_of
from state_engine.log.manifest import StoredManifest, inlined_bytes
from state_engine.log.paths import manifest_path, pin_path, savepoint_folder
from state_engine.log.records import Manifest, Origin, Pin
from state_engine.savepoint.handles import handles_of, verify_handles
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage

ATTEMPTS = 10
_START = datetime(1970, 1, 1, tzinfo=UTC)


def sealed_epoch(log: ManifestLog, job: str, epoch: int | None = None) -> StoredManifest:
    """Returns the newest sealed epoch of a job, or a given one of its current lineage.

    If the newest manifest only closes a generation, the epoch before it is returned: it has the same state.

    Raises:
        NothingToRestoreError: The job has no sealed epoch, or not the given one.
    """
    head = newest(log)
    if head is None:
        raise NothingToRestoreError(
            f"Job {job!r} has no sealed epoch.", action="Check root and name of the job, or run it once."
        )
    if epoch is None:
        if head.manifest.kind != "closing":
            return head
        epoch = head.manifest.epoch - 1
    generation = generation_of(head.manifest.lineage, epoch) if epoch <= head.manifest.epoch else None
    try:
        if generation is not None and generation != IMPORTED:
            return log.read(generation, epoch)
    except NotFoundError:
        pass
    first = first_own(head.manifest.lineage).first
    floor = max((log.floors().get(span.generation, 0) for span in head.manifest.lineage), default=0)
    if generation is not None and epoch <= floor:
        raise NothingToRestoreError(
            f"Epoch {epoch} of job {job!r} was removed by retention, which has removed epochs up to {floor}.",
            action=f"Name an epoch from {floor + 1} to {head.manifest.epoch}, or a savepoint that kept it.",
        )
    raise NothingToRestoreError(
        f"Epoch {epoch} is not on the current lineage of job {job!r}, or its manifest was removed.",
        action=f"Name an epoch from {first} to {head.manifest.epoch}; abandoned ones are reached by their savepoints.",
    )


def draft_pin(storage: CheckpointStorage, head: StoredManifest, inputs: FoldInputs) -> Pin:
    """Returns a pin without a name: the newest visible base at or before the epoch, and the manifests after it."""
    handles = handles_of(storage, inputs.reference, inputs.base, inputs.manifests)
    places = [(m.manifest.generation, m.manifest.epoch, m.hash) for m in inputs.chain or (head,)]
    return Pin(
        savepoint_id="",
        job=head.manifest.job,
        generation=head.manifest.generation,
        epoch=head.manifest.epoch,
        manifest=head.hash,
        base=inputs.reference,
        manifests=tuple((manifest_path(generation, epoch), digest) for generation, epoch, digest in places),
        handles=handles,
        created_at=0,
        bytes=sum(length for _, length in handles) + sum(map(inlined_bytes, inputs.manifests)),
        rows=sum(file.rows for file in inputs.base.files) if inputs.base is not None else 0,
    )


def foreign_origin(inputs: FoldInputs) -> Origin | None:
    """Returns the origin of a fork that has no base of its own yet, so that it needs files of another job; or None."""
    if inputs.base is not None:
        return None
    return next((m.origin for m in inputs.manifests if m.origin is not None and m.origin.job != m.job), None)


def check_independent(inputs: FoldInputs, head: Manifest) -> None:
    """Refuses a pin that would have to list files of another job: a pin keeps only files of its own job.

    Raises:
        SavepointError: The epoch needs files of another job.
    """
    origin = foreign_origin(inputs)
    if origin is None:
        return
    began = f"savepoint {origin.savepoint_id!r}" if origin.savepoint_id else f"epoch {origin.epoch}"
    raise SavepointError(
        f"Epoch {head.epoch} of job {head.job!r} still needs files of job {origin.job!r}, which a savepoint of "
        f"{head.job!r} cannot keep.",
        action=f"Wait for the first checkpoint of {head.job!r} (checkpoint_interval_ms says when), which makes it "
        f"independent. Until then restore {began} of job {origin.job!r}.",
    )


def write_pin(
    root: str,
    storage: CheckpointStorage,
    ids: Ids,
    draft: Pin,
    head: StoredManifest,
    noted_in: str | None = None,
    log: ManifestLog | None = None,
) -> Pin:
    """Puts a pin under a name that no savepoint had before, then verifies it; a pin that fails is removed again.

    Args:
        root: Of the storage.
        storage: Of the job.
        ids: New names.
        draft: The pin without its name.
        head: The epoch.
        noted_in: Directory in which the caller is going to put a folder: with a note that names the native savepoint,
            or with the tables of a canonical one.
        log: Of the job, with the manifests that the caller has read and verified.

    Raises:
        CorruptionError: A file that a restore would need is gone or damaged.
        CondemnedError: Retention is removing one.
        SavepointError: No name was free.
        StorageError: It could not be written, or verified.
    """
    pin = _put_pin(storage, ids, draft, noted_in)
    try:
        listed = [path for path, _ in (*pin.manifests, *pin.handles)]
        ensure_kept(root, head, f"Savepoint {pin.savepoint_id}", listed, log)
        verify_handles(storage, pin)
    except Exception:
        _take_away(storage, pin)
        raise
    return pin


def new_savepoint_id(ids: Ids, created_at: int) -> str:
    """Returns a name that sorts by time, such as `sp-20231114T221320-1f0c33aa`."""
    stamp = (_START + timedelta(milliseconds=created_at)).strftime("%Y%m%dT%H%M%S")
    return f"sp-{stamp}-{ids.new_id()[:8]}"


def _take_away(storage: CheckpointStorage, pin: Pin) -> None:
    with suppress(StorageError):  # the first error says more
        storage.delete(pin_path(pin.savepoint_id))


def _put_pin(storage: CheckpointStorage, ids: Ids, draft: Pin, noted_in: str | None) -> Pin:
    for _ in range(ATTEMPTS):
        name = new_savepoint_id(ids, draft.created_at)
        pin = replace(draft, savepoint_id=name, directory=f"{noted_in}/{name}" if noted_in is not None else None)
        if storage.list(savepoint_folder(pin.savepoint_id)):
            continue
        data, _digest = encode_pin(pin)
        try:
            storage.put_if_absent(pin_path(pin.savepoint_id), data)
        except AlreadyExistsError:
            continue
        except StorageError:
            _take_away(storage, pin)  # it may exist although the put gave no answer
            raise
        return pin
    raise SavepointError(f"{ATTEMPTS} names for a savepoint were taken.", action="Try again.")


__all__ = [
    "check_independent",
    "draft_pin",
    "foreign_origin",
    "new_savepoint_id",
    "sealed_epoch",
    "write_pin",
]
