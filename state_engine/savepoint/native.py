"""Native savepoints: a pin of a sealed epoch. Nothing is copied, and nobody has to be alive.

A pin is written first and verified afterwards: retention reads the pins again before it deletes, so either it sees the
pin, or the verification sees that a file is gone.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from state_engine.checkpoint.behind import behind_newest_base
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch.look import newest
from state_engine.errors import (
    AlreadyExistsError,
    CorruptionError,
    NotFoundError,
    NothingToRestoreError,
    SavepointError,
)
from state_engine.log.documents import encode_pin
from state_engine.log.lineage import generation_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path, pin_path
from state_engine.log.records import Manifest, Pin
from state_engine.savepoint.handles import handles_of, verify_handles
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage, open_storage
from state_engine.storage.tables import open_tables

ATTEMPTS = 10
_START = datetime(1970, 1, 1, tzinfo=UTC)


def trigger_savepoint(
    root: str,
    job: str,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    epoch: int | None = None,
    label: str = "",
    note: str = "",
    trigger: str = "user",
) -> Pin:
    """Takes a native savepoint of a running, stopped or dead job.

    Args:
        root: Of the storage.
        job: Name of the job.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        epoch: A sealed epoch of the current lineage; the newest one by default.
        label: A short name for people.
        note: Anything worth knowing.
        trigger: Who asked: `user`, or the name of a schedule or sensor.

    Returns:
        The pin, verified, and listed in `_checkpoints`.

    Raises:
        NothingToRestoreError: The job never sealed an epoch, or not this one.
        CorruptionError: A file that a restore would need is gone or damaged; no savepoint was left behind.
        SavepointError: The job is a fork that has no checkpoint yet: its state lies in the other job, whose retention
            does not ask this job's pins.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    began = clock.now_ms()
    head = sealed_epoch(log, job, epoch)
    rows = CheckpointTable(storage, open_tables(storage))
    draft = _draft(storage, log, rows, head)
    pin = _write(storage, ids, replace(draft, created_at=began, trigger=trigger, label=label, note=note))
    try:
        verify_handles(storage, pin)
    except CorruptionError:
        storage.delete(pin_path(pin.savepoint_id))
        raise
    rows.append([_row(pin, clock.now_ms())], app_id=f"lakestate/{job}/{pin.savepoint_id}", version=1)
    return pin


def sealed_epoch(log: ManifestLog, job: str, epoch: int | None = None) -> StoredManifest:
    """Returns the newest sealed epoch of a job, or a given one of its current lineage.

    A manifest that only closes a generation is passed over: the state is that of the epoch before it.

    Raises:
        NothingToRestoreError: There is none, or not this one.
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
        if generation is not None:
            return log.read(generation, epoch)
    except NotFoundError:
        pass
    first = head.manifest.lineage[0].first
    raise NothingToRestoreError(
        f"Epoch {epoch} is not on the current lineage of job {job!r}, or its manifest was removed.",
        action=f"Name an epoch from {first} to {head.manifest.epoch}; abandoned ones are reached by their savepoints.",
    )


def _draft(storage: CheckpointStorage, log: ManifestLog, rows: CheckpointTable, head: StoredManifest) -> Pin:
    """A pin without name: the newest visible base at or before the epoch, and the manifests behind it."""
    behind = behind_newest_base(storage, log, rows, head)
    _check_independent(behind.manifests, head.manifest)
    handles = handles_of(storage, behind.reference, behind.base, behind.manifests)
    places = [(m.manifest.generation, m.manifest.epoch, m.hash) for m in behind.chain or (head,)]
    return Pin(
        savepoint_id="",
        job=head.manifest.job,
        generation=head.manifest.generation,
        epoch=head.manifest.epoch,
        manifest=head.hash,
        base=behind.reference,
        manifests=tuple((manifest_path(generation, epoch), digest) for generation, epoch, digest in places),
        handles=handles,
        created_at=0,
        bytes=sum(length for _, length in handles),
        rows=sum(file.rows for file in behind.base.files) if behind.base is not None else 0,
    )


def _check_independent(manifests: Sequence[Manifest], head: Manifest) -> None:
    """Refuses a pin that would have to list files of another job: a pin keeps nothing outside its own root."""
    origin = next((m.origin for m in manifests if m.origin is not None and m.origin.job != m.job), None)
    if origin is None:
        return
    began = f"savepoint {origin.savepoint_id!r}" if origin.savepoint_id else f"epoch {origin.epoch}"
    raise SavepointError(
        f"Epoch {head.epoch} of job {head.job!r} still stands on files of job {origin.job!r}, which a savepoint of "
        f"{head.job!r} cannot keep.",
        action=f"Wait for the first checkpoint of {head.job!r} (checkpoint_interval_ms says when), which makes it "
        f"independent. Until then {began} of job {origin.job!r} is the way back.",
    )


def _write(storage: CheckpointStorage, ids: Ids, draft: Pin) -> Pin:
    stamp = (_START + timedelta(milliseconds=draft.created_at)).strftime("%Y%m%dT%H%M%S")
    for _ in range(ATTEMPTS):
        pin = replace(draft, savepoint_id=f"sp-{stamp}-{ids.new_id()[:8]}")
        data, _digest = encode_pin(pin)
        try:
            storage.put_if_absent(pin_path(pin.savepoint_id), data)
        except AlreadyExistsError:
            continue
        return pin
    raise SavepointError(f"{ATTEMPTS} names for a savepoint were taken.", action="Try again.")


def _row(pin: Pin, now_ms: int) -> CheckpointRow:
    return CheckpointRow(
        id=pin.savepoint_id,
        kind="savepoint",
        status="completed",
        type="PIN",
        generation=pin.generation,
        epoch=pin.epoch,
        manifest=pin.manifest,
        base_path=pin.base.path if pin.base is not None else None,
        base_checksum=pin.base.checksum if pin.base is not None else None,
        triggered_at=pin.created_at,
        completed_at=now_ms,
        duration_ms=max(0, now_ms - pin.created_at),
        state_bytes=pin.bytes,
        log_rows=pin.rows,
        trigger=pin.trigger,
        label=pin.label,
        note=pin.note,
    )


__all__ = ["sealed_epoch", "trigger_savepoint"]
