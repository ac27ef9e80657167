"""Restores selected key groups or keys of a stopped job to their state at another epoch."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.epoch import carry, look
from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.key_groups import restored_groups
from state_engine.epoch.ports import Crash, Log
from state_engine.epoch.seal import seal
from state_engine.errors import FencedError, NothingToRestoreError, RestoreError
from state_engine.log.manifest import StoredManifest
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.savepoint.selection import Groups, selection_of
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

CLAIM_ATTEMPTS = 100
PUT_ATTEMPTS = 5


def restore_key_groups(
    root: str,
    job: str,
    source: str,
    ranges: Iterable[Groups] | None = None,
    *,
    uids: Iterable[str] | None = None,
    keys: Iterable[Any] | None = None,
    dry_run: bool = False,
    cancelled: Callable[[], bool] | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    crash: Crash | None = None,
    log: Log | None = None,
) -> KeyGroupRestore:
    """Replaces the state of some key groups, or of some keys, of a stopped job; the next start goes on from there.

    All keyed states and timers of a chosen operator are replaced together. Input that was read since the source's epoch
    is not read again for them, and sinks keep what they have. The job is claimed as by a start: this fences a driver
    that still runs. For a running job use `JobClient.restore_key_groups`, which fences no driver.

    Args:
        root: Of the storage.
        job: Name of the job.
        source: What `resolve_restore` takes: a savepoint's id, `checkpoint:<id>`, `epoch:<generation>/<epoch>`,
            `<job>/<savepoint id>` for one of another job, or the path or address of a canonical savepoint.
        ranges: Key groups by number, or as (first, last), both inclusive.
        uids: Operators; all with keyed state by default.
        keys: In place of `ranges`: values of the key columns in tuples, of a single column also bare.
        dry_run: Report what would happen, and write nothing.
        cancelled: Called now and then until the manifest is put; when it returns True, the restore ends.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        crash: Called at every crash point that is passed.
        log: The job's log; opened here if it is not given.

    Returns:
        What happened, or would happen.

    Raises:
        NothingToRestoreError: The source does not exist, or the job has no sealed epoch.
        RestoreError: It is refused; the error's class and message say why. No state was written.
        RestoreCancelledError: It was cancelled. At most the claim is left, which changes no state.
        FencedError: A driver that started at the same time or later owns the job; no state was written.
        CorruptionError: A file that it has to read is gone or damaged.
        StorageError: It is not known whether the manifest was sealed; the newest epoch of the job shows it.
    """
    clock, ids, crash = clock or SystemClock(), ids or RandomIds(), crash or NoCrash()
    log = log or ManifestLog(open_storage(root, job), job)
    selection = selection_of(ranges, keys, uids)
    restorer = GroupRestorer(root, job, source, selection, ids=ids, cancelled=cancelled, crash=crash)
    if dry_run:
        return restorer.plan(_newest(log, job))
    with restorer.kept(clock):
        return _restore(log, job, restorer, clock, ids, crash)


def _restore(log: Log, job: str, restorer: GroupRestorer, clock: Clock, ids: Ids, crash: Crash) -> KeyGroupRestore:
    nonce, me = ids.new_id(), None
    for _ in range(CLAIM_ATTEMPTS):
        head = _newest(log, job)
        me = me or look.Incarnation(nonce, head.manifest.incarnation_number + 1)
        look.fence(head, me)
        crash.at(CrashPoint.S1_HEAD_FOUND, head.manifest.epoch)
        report = restorer.plan(head)
        if (claim := _claim(log, head, me, clock, crash)) is not None:
            return replace(report, sealed=_seal(log, restorer, claim, clock, crash))
    raise FencedError(
        f"A driver of job {job!r} sealed {CLAIM_ATTEMPTS} epochs while its key groups were to be restored.",
        action="Stop the job first, or ask the running job: JobClient.restore_key_groups.",
    )


def _newest(log: Log, job: str) -> StoredManifest:
    head = look.newest(log)
    if head is None:
        raise NothingToRestoreError(
            f"Job {job!r} has no sealed epoch.", action="Check root and name of the job, or run it once."
        )
    if head.manifest.successor is not None:
        raise RestoreError(
            f"A restore of job {job!r} as a whole was begun and not finished.",
            action="Start the job, which finishes it; then restore key groups.",
        )
    return head


def _claim(log: Log, head: StoredManifest, me: look.Incarnation, clock: Clock, crash: Crash) -> StoredManifest | None:
    """S2: seals a claim: earlier incarnations find their number taken. None if this one finds its number taken."""
    claim = carry.carried(head, "claim", incarnation=me.nonce, number=me.number, now_ms=clock.now_ms())
    crash.at(CrashPoint.S2_BEFORE_CLAIM, claim.epoch)
    verdict = seal(log, claim, PUT_ATTEMPTS)
    if not verdict.mine:
        return None
    crash.at(CrashPoint.S2_CLAIMED, claim.epoch)
    return verdict.stored


def _seal(log: Log, restorer: GroupRestorer, claim: StoredManifest, clock: Clock, crash: Crash) -> tuple[int, int]:
    """E5 and E6. Debts of the chain to sinks remain after this manifest: the next start pays them."""
    owner = claim.manifest
    rows = restorer.write(claim)
    manifest = restored_groups(
        claim, rows, incarnation=owner.incarnation, number=owner.incarnation_number, now_ms=clock.now_ms()
    )
    crash.at(CrashPoint.E6_BEFORE_PUT, manifest.epoch)
    verdict = seal(log, manifest, PUT_ATTEMPTS)
    if not verdict.mine:
        restorer.discard()
        other = verdict.stored.manifest
        raise FencedError(
            f"Epoch {manifest.epoch} of job {manifest.job!r} was sealed by incarnation {other.incarnation_number} "
            f"({other.incarnation}) while its key groups were restored.",
            action="Nothing was restored. Ask the driver that runs now: JobClient.restore_key_groups.",
        )
    crash.at(CrashPoint.E6_SEALED, manifest.epoch)
    return manifest.generation, manifest.epoch


__all__ = ["restore_key_groups"]
