"""Compacts a job that does not run: folds its state from scratch into one layer, as a checkpoint.

A running job does the same by itself, and on a request for a FULL checkpoint.

```
claim, which carries the checkpoint (S2) ─► publish of all that the chain owes, full (E9) ─► the next start adopts it
```

Nothing is deleted here. Retention deletes the files of older layers together with the checkpoints that name them.
"""

from typing import NamedTuple

from msgspec.structs import replace

from state_engine.checkpoint.fold_inputs import FoldInputs, newest_fold_inputs
from state_engine.checkpoint.plan import files_of, layer_of, live_rows, states_of
from state_engine.checkpoint.publish import CheckpointPublisher, PublishEvent
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import carry, look
from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.ports import Crash, Mark
from state_engine.epoch.seal import seal
from state_engine.errors import CheckpointFailedError, FencedError, NothingToRestoreError, RestoreError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import state_table_path
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables

TRIGGER = "compaction"
CLAIM_ATTEMPTS = 100
PUT_ATTEMPTS = 5


class StateLayers(NamedTuple):
    """The files of one state in the newest checkpoint.

    Attributes:
        uid: Of the operator.
        state: Its name.
        table: Path of its table, below the job's root.
        layers: Number of checkpoints that wrote these files.
        files: Number of files.
        bytes: Their size.
        log_rows: Their rows, deletes included.
        rows: Live rows, as the subtasks reported them; None if they did not.
    """

    uid: str
    state: str
    table: str
    layers: int
    files: int
    bytes: int
    log_rows: int
    rows: int | None


class CompactionPlan(NamedTuple):
    """What a compaction would fold: the result of a dry run.

    Attributes:
        job: Name of the job.
        generation: Of the newest epoch.
        epoch: The newest epoch.
        sealed_at: Its processing time, in ms.
        epochs: Number of epochs after the newest checkpoint.
        bytes: Size of the changes of these epochs.
        states: The states of the newest checkpoint, with their files.
        needed: Whether there is anything to fold.
    """

    job: str
    generation: int
    epoch: int
    sealed_at: int
    epochs: int
    bytes: int
    states: tuple[StateLayers, ...]
    needed: bool


def plan_compaction(root: str, job: str) -> CompactionPlan:
    """Reports what `compact` would fold; changes nothing, and the job may be running.

    Args:
        root: Of the storage.
        job: Name of the job.

    Raises:
        NothingToRestoreError: The job has no sealed epoch.
        CorruptionError: Something is damaged.
        StorageError: The storage does not answer.
    """
    log = _open_log(root, job)
    head = _newest(log, job)
    return _plan(head, _behind(root, log, head))


def compact(
    root: str, job: str, *, clock: Clock | None = None, ids: Ids | None = None, crash: Crash | None = None
) -> CheckpointRow | None:
    """Folds the state of a job that does not run into one layer, and makes that a checkpoint.

    The job is claimed as by a start: this fences a driver that still runs, which loses nothing that it has sealed. A
    compaction that dies on the way is finished by the next start, or by the next compaction.

    Args:
        root: Of the storage.
        job: Name of the job.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        crash: Called at every crash point that is passed.

    Returns:
        The checkpoint; None if there was nothing to fold.

    Raises:
        NothingToRestoreError: The job has no sealed epoch.
        RestoreError: A restore of the job was begun and not finished.
        FencedError: A driver that started at the same time or later owns the job; nothing was folded.
        CheckpointFailedError: It could not be published; nothing is lost, and trying again is safe.
        CorruptionError: Something is damaged.
        StorageError: The storage does not answer.
    """
    clock, ids, crash = clock or SystemClock(), ids or RandomIds(), crash or NoCrash()
    ends: list[PublishEvent] = []
    storage = open_storage(root, job)
    publisher = CheckpointPublisher(
        storage,
        job,
        clock=clock,
        ids=ids,
        crash=crash,
        on_end=ends.append,
        open_job=lambda other: open_storage(root, other),
    )
    claim = _claim(root, job, publisher, clock, ids, crash)
    if claim is None:
        return None
    checkpoint_id = claim.manifest.checkpoint_id
    assert checkpoint_id is not None
    publisher.finish(claim, Mark(checkpoint_id=checkpoint_id, full=True, trigger=TRIGGER))
    end = next((event for event in ends if event.checkpoint_id == checkpoint_id), None)
    if end is None or end.base is None:
        raise CheckpointFailedError(
            f"The state of job {job!r} was not folded: {end.message if end is not None else 'the cause is not known'}",
            action="Every sealed epoch is kept. Fix the cause and try again.",
        )
    rows = CheckpointTable(storage, open_tables(storage)).newest_first()
    return next(row for row in rows if row.checkpoint_id == checkpoint_id)


def _claim(
    root: str, job: str, publisher: CheckpointPublisher, clock: Clock, ids: Ids, crash: Crash
) -> StoredManifest | None:
    """S2: seals a claim that carries the checkpoint. None if there is nothing to fold."""
    log, nonce, me = _open_log(root, job), ids.new_id(), None
    for _ in range(CLAIM_ATTEMPTS):
        head = _newest(log, job)
        me = me or look.Incarnation(nonce, head.manifest.incarnation_number + 1)
        look.fence(head, me)
        if head.manifest.successor is not None:
            raise RestoreError(
                f"A restore of job {job!r} was begun and not finished.",
                action="Start the job, which finishes it; then compact its state.",
            )
        if not _plan(head, _behind(root, log, head)).needed:
            return None
        claim = replace(
            carry.carried(head, "claim", incarnation=me.nonce, number=me.number, now_ms=clock.now_ms()),
            checkpoint_id=publisher.next_checkpoint_id(),
        )
        crash.at(CrashPoint.S2_BEFORE_CLAIM, claim.epoch)
        verdict = seal(log, claim, PUT_ATTEMPTS)
        if verdict.mine:
            crash.at(CrashPoint.S2_CLAIMED, claim.epoch)
            return verdict.stored
    raise FencedError(
        f"A driver of job {job!r} sealed {CLAIM_ATTEMPTS} epochs while its state was to be folded.",
        action="Stop the job first, or ask the running job: JobClient.trigger_checkpoint(full=True).",
    )


def _open_log(root: str, job: str) -> ManifestLog:
    return ManifestLog(open_storage(root, job), job, open_job=lambda other: open_storage(root, other))


def _newest(log: ManifestLog, job: str) -> StoredManifest:
    head = look.newest(log)
    if head is None:
        raise NothingToRestoreError(
            f"Job {job!r} has no sealed epoch.", action="Check root and name of the job, or run it once."
        )
    return head


def _behind(root: str, log: ManifestLog, head: StoredManifest) -> FoldInputs:
    storage = open_storage(root, head.manifest.job)
    return newest_fold_inputs(storage, log, CheckpointTable(storage, open_tables(storage)), head)


def _plan(head: StoredManifest, inputs: FoldInputs) -> CompactionPlan:
    manifest, base = head.manifest, inputs.base
    changes = [ack.changes for one in inputs.manifests for operator in one.operators.values() for ack in operator.acks]
    handles = [handle for handle in changes if handle is not None]
    states = []
    for schema in states_of([manifest]):
        files = files_of(base, schema)
        live = live_rows(inputs.manifests, schema)
        states.append(
            StateLayers(
                uid=schema.uid,
                state=schema.name,
                table=state_table_path(schema),
                layers=len({layer_of(file.path) for file in files}),
                files=len(files),
                bytes=sum(file.length for file in files),
                log_rows=sum(file.rows for file in files),
                rows=live[0] if live is not None else None,
            )
        )
    return CompactionPlan(
        job=manifest.job,
        generation=manifest.generation,
        epoch=manifest.epoch,
        sealed_at=manifest.processing_time,
        epochs=len(inputs.manifests),
        bytes=sum(handle.length for handle in handles),
        states=tuple(states),
        needed=base is None or not base.full or bool(handles),
    )


__all__ = ["CompactionPlan", "StateLayers", "compact", "plan_compaction"]
