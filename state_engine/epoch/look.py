"""Answers the questions that a start asks the log (S1). Changes nothing."""

from typing import NamedTuple

from state_engine.epoch.carry import origin_of
from state_engine.epoch.ports import Log
from state_engine.epoch.request import RestoreTarget
from state_engine.epoch.rewrite import rewritten
from state_engine.errors import DamagedManifestError, FencedError, NotFoundError, NothingToRestoreError, RestoreError
from state_engine.log.lineage import first_own
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Adopted, Origin


class Incarnation(NamedTuple):
    """One start of the query by one driver: a nonce, and a number higher than any in the log at its first look."""

    nonce: str
    number: int


def newest(log: Log) -> StoredManifest | None:
    """Finds the newest sealed manifest of the job. A generation may have files but no manifest yet.

    Returns None only if no generation has appeared meanwhile. Otherwise it looks again: a restore may have begun one,
    and retention may have freed all numbers of those that were listed.
    """
    before: list[int] = []
    while (generations := log.generations()) != before:
        for generation in sorted(generations, reverse=True):
            if (stored := log.newest(generation)) is not None:
                return stored
        before = generations
    return None


def fence(head: StoredManifest | None, me: Incarnation) -> None:
    """Stops this driver if one that started at the same time, or later, has sealed something.

    Raises:
        FencedError: It names both incarnations.
    """
    if head is None or head.manifest.incarnation == me.nonce or head.manifest.incarnation_number < me.number:
        return
    raise FencedError(
        f"Incarnation {head.manifest.incarnation_number} ({head.manifest.incarnation}) of job {head.manifest.job!r} "
        f"sealed epoch {head.manifest.epoch} while this one, {me.number} ({me.nonce}), was starting.",
        action="Let the other driver run, or stop it and start again.",
    )


def is_decided(log: Log, job: str, wanted: RestoreTarget, head: StoredManifest | None) -> bool:
    """Whether this very restore is sealed already: by a closing manifest that names it, or as the origin of the job.

    So a restore that died half way is finished, not begun a second time. And a fork that is started again goes on from
    its own newest epoch.

    Raises:
        RestoreError: The request wants a savepoint of another job, but this job did not begin from it.
    """
    if head is None:
        return False
    origin = origin_of(wanted)
    if origin.job == job:
        return head.manifest.successor is not None and head.manifest.successor.origin == origin
    root = first_own(head.manifest.lineage)
    try:
        job_origin = log.read(root.generation, root.first).manifest.origin
    except NotFoundError:
        job_origin = None
    if job_origin == origin:
        return True
    raise RestoreError(
        f"Job {job!r} has epochs of its own; a savepoint of job {origin.job!r} can only begin a new job.",
        action="Choose a job name that was never used, or remove the old job.",
    )


def read_target(log: Log, origin: Origin, adopted: Adopted | None = None) -> StoredManifest:
    """Reads the manifest that a restore starts from, and applies the restore's rewrite, if it has one.

    Args:
        log: The job's log.
        origin: The reference to the manifest.
        adopted: The copies that the restore made, if any.

    Raises:
        NothingToRestoreError: The manifest does not exist.
        DamagedManifestError: It is not the manifest that the origin names.
    """
    where = f"Epoch {origin.epoch} of generation {origin.generation} of job {origin.job!r}"
    try:
        if adopted is not None:
            target = log.read_copy(adopted.manifest_path)
        else:
            target = log.read(origin.generation, origin.epoch)
    except NotFoundError as error:
        raise NothingToRestoreError(
            f"{where} does not exist (any more).",
            action="Choose one that the catalogue of checkpoints and savepoints lists.",
        ) from error
    if target.hash != origin.manifest:
        raise DamagedManifestError(
            f"{where} is not the manifest that was to be restored: its hash is {target.hash}, not {origin.manifest}.",
            action="Restore another savepoint, and find out who wrote to the job's root.",
        )
    return rewritten(target, origin.rewrite)


__all__ = ["Incarnation", "fence", "is_decided", "newest", "read_target"]
