"""Retention of a job as a whole: epochs, checkpoints and savepoints, also canonical ones in other directories."""

from collections.abc import Callable
from typing import NamedTuple

from state_engine.checkpoint.retention.leftovers import clear_elsewhere
from state_engine.checkpoint.retention.policy import RetentionPolicy, made_by_policy
from state_engine.checkpoint.retention.steps import RetentionPlan, RetentionReport, apply_retention, plan_retention
from state_engine.clock import Clock, Ids, SystemClock
from state_engine.errors import SavepointError
from state_engine.savepoint.catalogue import find_savepoint
from state_engine.savepoint.dispose import dispose_savepoint
from state_engine.storage.open import open_storage


class Retained(NamedTuple):
    """What retention found to remove, and what it did.

    Attributes:
        plan: What there was to remove.
        report: What was done with files of the job; None for a dry run.
        disposed: Savepoints that were disposed of, by id: canonical ones, and those with a note in another directory.
        in_use: Why other savepoints of the plan were not disposed of.
        cleared: Other folders that were cleared of files which dead writers of canonical savepoints had left.
    """

    plan: RetentionPlan
    report: RetentionReport | None = None
    disposed: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


def retain(
    root: str,
    job: str,
    policy: RetentionPolicy,
    *,
    dry_run: bool = False,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Retained:
    """Deletes what a policy does not keep and nothing needs; as often as you like, also while the job runs.

    Args:
        root: Of the storage.
        job: Name of the job.
        policy: What is kept.
        dry_run: Report what would be deleted, and change nothing.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        progress: As of `apply_retention`.

    Raises:
        CorruptionError: A file is damaged, so it is not known what it needs; no file of the job was deleted.
        StorageError: The storage does not answer; it is safe to call it again later.
    """
    clock = clock or SystemClock()
    plan = plan_retention(root, job, policy, clock.now_ms())
    return Retained(plan) if dry_run else carry_out(plan, clock=clock, ids=ids, progress=progress)


def carry_out(
    plan: RetentionPlan,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Retained:
    """Carries out a plan: disposes of canonical savepoints, and calls `apply_retention`. Errors are those of `retain`.

    Canonical savepoints are removed at once: restores from them mark their folders as in use, and copy what they read.
    Files that dead writers left in other folders are also removed at once: nothing reads them.
    """
    disposed, in_use = [], []
    storage = open_storage(plan.root, plan.job)
    for disposal in plan.disposals:
        savepoint = find_savepoint(storage, disposal.savepoint_id)
        if savepoint is None or not made_by_policy(savepoint.trigger):
            continue  # it was disposed of meanwhile, or only its row has the trigger of a policy, not the savepoint
        try:
            if dispose_savepoint(plan.root, plan.job, disposal.savepoint_id, clock=clock):
                disposed.append(disposal.savepoint_id)
        except SavepointError as error:
            in_use.append(str(error))
    cleared = [one.directory for one in plan.abandoned if clear_elsewhere(storage, one)]
    report = apply_retention(plan, clock=clock, ids=ids, progress=progress)
    return Retained(plan, report, tuple(disposed), tuple(in_use), tuple(cleared))


__all__ = ["Retained", "carry_out", "retain"]
