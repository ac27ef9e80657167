"""Retention: deletes what no policy, savepoint, restore, reader or fork needs, and nothing that one might.

```
plan ─► condemn (durable list) ─► grace time ─► look again ─► raise the floor ─► delete ─► remove the list
```

The list makes this safe. A process that protects an epoch (by a savepoint, a lease) first writes the protection, and
then reads the lists (`kept.ensure_kept`). Retention looks again *after* it has written its list, so one of the two sees
the other. Any step may be the last one of a process; the next run continues from the lists that it finds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from state_engine.checkpoint.floors import raise_floor
from state_engine.checkpoint.kept import read_condemned
from state_engine.checkpoint.leases import expired_leases
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.decision import Removal, decide
from state_engine.checkpoint.retention.leftovers import Abandoned, Unlisted
from state_engine.checkpoint.retention.lists import DELETING_MS, condemn, is_answered, is_forgotten
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.savepoints import Disposal
from state_engine.checkpoint.retention.snapshot import Snapshot, take_snapshot
from state_engine.clock import Clock, Ids, RandomIds, SystemClock
from state_engine.log.paths import condemned_path, parse_manifest_path
from state_engine.log.retention_records import Condemned, Floor
from state_engine.storage.deleting import batches_to_delete
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage

BEYOND = 1_000_000
"""How far above the newest epoch the floor is raised when all is deleted: it fences a driver that is just starting."""

_ORDER = {"savepoint": 0, "manifest": 1}


class RetentionPlan(NamedTuple):
    """What retention would remove: the result of a dry run.

    Attributes:
        root: Of the storage.
        job: Name of the job.
        policy: The policy that it was made for; None removes everything that no savepoint needs.
        planned_at: When, in ms.
        removals: The files, sorted by path.
        savepoints: Ids of the native savepoints among them; only ones that a policy made.
        disposals: Canonical savepoints, and others with files elsewhere, that the policy does not keep any more.
            `apply_retention` does not touch them; `state_engine.savepoint.retain` disposes of them.
        checkpoints: Ids of the checkpoints that stay, oldest first.
        oldest_epoch: (generation, epoch) from which on every epoch stays; None when all of them do.
        head: Hash of the newest sealed manifest.
        abandoned: What dead writers of canonical savepoints left in other folders. `apply_retention` does not touch
            that, either.
        unlisted: Complete savepoints that no row lists. They stay, and so do the files that they keep.
    """

    root: str
    job: str
    policy: RetentionPolicy | None
    planned_at: int
    removals: tuple[Removal, ...]
    savepoints: tuple[str, ...]
    disposals: tuple[Disposal, ...]
    checkpoints: tuple[str, ...]
    oldest_epoch: tuple[int, int] | None
    head: str | None
    abandoned: tuple[Abandoned, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()

    @property
    def bytes(self) -> int:
        """Total size of the files, those outside of the job's root included."""
        elsewhere = sum(one.bytes for one in self.disposals) + sum(one.bytes for one in self.abandoned)
        return sum(removal.bytes for removal in self.removals) + elsewhere


@dataclass
class RetentionReport:
    """What one run did.

    Attributes:
        condemned: Files that were condemned now, for the first time.
        due: Files that are to be deleted now.
        removed: Files that were deleted now.
        bytes: Their bytes.
        spared: Condemned files that are needed after all.
        waiting: Number of condemned files with a grace time that is not over.
    """

    condemned: int = 0
    due: int = 0
    removed: list[str] = field(default_factory=list)
    bytes: int = 0
    spared: list[str] = field(default_factory=list)
    waiting: int = 0


def plan_retention(root: str, job: str, policy: RetentionPolicy, now_ms: int) -> RetentionPlan:
    """Returns what would be removed; changes nothing.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        policy: What to keep.
        now_ms: The present.

    Raises:
        CorruptionError: A file is damaged, so it is not known what it needs; until it is repaired, nothing can be
            removed.
        StorageError: The storage does not answer.
    """
    snapshot = take_snapshot(root, job, policy, now_ms)
    if snapshot.facts.head is None:  # a job without epochs: it never ran, or its state is being deleted
        return _plan(root, job, policy, now_ms, snapshot, [])
    return _plan(root, job, policy, now_ms, snapshot, decide(snapshot.facts))


def plan_discard(root: str, job: str, now_ms: int) -> RetentionPlan:
    """Returns what would be removed to delete all of a job that no savepoint, lease or fork needs; changes nothing.

    Only for a job that has ended. The files that are left show that it ran: a later start begins a new generation, from
    nothing or from a savepoint.

    Raises:
        CorruptionError, StorageError: As `plan_retention`.
    """
    snapshot = take_snapshot(root, job, None, now_ms)
    return _plan(root, job, None, now_ms, snapshot, decide(snapshot.facts))


def apply_retention(
    plan: RetentionPlan,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RetentionReport:
    """Condemns the files of a plan, and deletes condemned ones after their grace time; it never waits.

    So with a grace time the same call has to be made again, at any later time. Calls may overlap, die anywhere, and be
    repeated.

    Args:
        plan: Of `plan_retention` or `plan_discard`.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        progress: Called now and then with the number of deleted files and the number of files to delete.

    Raises:
        CorruptionError: A file is damaged; nothing was deleted.
        StorageError: The storage does not answer; it is safe to call it again later.
    """
    report = RetentionReport()
    for _ in retention_steps(plan, report, clock=clock, ids=ids):
        if progress is not None and report.due:
            progress(len(report.removed), report.due)
    return report


def retention_steps(
    plan: RetentionPlan, report: RetentionReport, *, clock: Clock | None = None, ids: Ids | None = None
) -> Iterator[str]:
    """Does the work of `apply_retention`, and yields the name of each change before it is made, for tests."""
    clock, ids = clock or SystemClock(), ids or RandomIds()
    storage = open_storage(plan.root, plan.job)
    grace_ms = plan.policy.grace_ms if plan.policy is not None else 0
    report.condemned = yield from condemn(storage, plan.job, plan.removals, grace_ms, clock, ids)
    now = clock.now_ms()
    due, lists = [], read_condemned(storage)
    for condemned in lists:
        begins = condemned.condemned_at + condemned.grace_ms
        if now < begins:
            report.waiting += len(condemned.files)
        elif now <= begins + DELETING_MS:
            due.append(condemned)
        elif is_forgotten(condemned, plan.policy, now):
            yield "remove_list"
            storage.delete(condemned_path(condemned.list_id))
    for path in expired_leases(plan.root, plan.job, now):
        yield "remove_lease"
        storage.delete(path)
    if due:
        yield "look_again"
        yield from _delete(storage, plan, due, lists, report, clock)


def _delete(
    storage: CheckpointStorage,
    plan: RetentionPlan,
    due: Sequence[Condemned],
    lists: Sequence[Condemned],
    report: RetentionReport,
    clock: Clock,
) -> Iterator[str]:
    """Deletes condemned files that a look after the lists still finds not needed; then lists without files left."""
    current = take_snapshot(plan.root, plan.job, plan.policy, clock.now_ms())
    again = {removal.path: removal for removal in decide(current.facts)}
    if plan.policy is not None and current.facts.head is None:
        return  # another process is deleting all, and the job has not begun anew
    if plan.policy is None and current.head not in (plan.head, None):
        return  # the job runs again
    condemned = {file.path for one in due for file in one.files}
    going = sorted((again[path] for path in condemned if path in again), key=lambda r: (_ORDER.get(r.kind, 2), r.path))
    report.due = len(going)
    answered = {file.path for one in due if is_answered(one, plan.policy) for file in one.files}
    report.spared = sorted(path for path in answered if path in current.facts.objects and path not in again)
    for floor in _floors(storage, plan, current, going, clock.now_ms()):
        yield "raise_floor"
        raise_floor(storage, floor)
    ends = min(one.condemned_at + one.grace_ms for one in due) + DELETING_MS
    deleted: set[str] = set()
    for kind, removals in groupby(going, key=lambda removal: removal.kind):
        sizes = {removal.path: removal.bytes for removal in removals}
        for paths in batches_to_delete(storage, list(sizes)):
            yield f"delete {kind}"
            if clock.now_ms() > ends:
                return  # this process slept; its snapshot may be out of date
            storage.delete_together(paths)
            deleted.update(paths)
            report.removed.extend(paths)
            report.bytes += sum(sizes[path] for path in paths)
    for one in lists:
        if not any(file.path in current.facts.objects and file.path not in deleted for file in one.files):
            yield "remove_list"
            storage.delete(condemned_path(one.list_id))


def _floors(
    storage: CheckpointStorage, plan: RetentionPlan, snapshot: Snapshot, removals: Sequence[Removal], now_ms: int
) -> list[Floor]:
    """Returns the floors below which manifests are about to be deleted; if all is, pinned ones are below them too."""
    highest: dict[int, int] = {}
    above = BEYOND if plan.policy is None else 0
    paths = [removal.path for removal in removals] if plan.policy is not None else list(snapshot.facts.objects)
    for path in paths:
        if (place := parse_manifest_path(path)) is not None:
            highest[place[0]] = max(highest.get(place[0], 0), place[1])
    if not highest:
        return []
    last_id = CheckpointPublisher(storage, plan.job).next_checkpoint_id() - 1
    return [
        Floor(job=plan.job, generation=generation, epoch=epoch + above, checkpoint_id=last_id, raised_at=now_ms)
        for generation, epoch in sorted(highest.items())
    ]


def _plan(
    root: str, job: str, policy: RetentionPolicy | None, now_ms: int, snapshot: Snapshot, removals: Sequence[Removal]
) -> RetentionPlan:
    retained = snapshot.retained
    kept = (*retained.others, *retained.recent)
    return RetentionPlan(
        root=root,
        job=job,
        policy=policy,
        planned_at=now_ms,
        removals=tuple(sorted(removals)),
        savepoints=snapshot.leaving.native,
        disposals=snapshot.leaving.disposals,
        abandoned=snapshot.leaving.abandoned,
        unlisted=snapshot.leaving.unlisted,
        checkpoints=tuple(row.id for row in sorted(kept, key=lambda row: row.checkpoint_id or 0)),
        oldest_epoch=snapshot.facts.start,
        head=snapshot.head,
    )


__all__ = [
    "DELETING_MS",
    "RetentionPlan",
    "RetentionReport",
    "apply_retention",
    "plan_discard",
    "plan_retention",
    "retention_steps",
]
