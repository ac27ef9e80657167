"""Finds and pays what sealed epochs still owe to sinks (S3, E7)."""

from collections.abc import Callable, Collection
from functools import partial

from state_engine.epoch.ports import Log, Sinks
from state_engine.errors import DamagedManifestError, NotFoundError, SinkError, StorageError
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest


def owed(log: Log, head: StoredManifest) -> StoredManifest | None:
    """Returns the one epoch in the chain of `head` whose sink commit may be missing, or None.

    Only the newest epoch with output can owe: no epoch is sealed before the previous one has paid. Claims, closings
    and restored key groups have no output, so several of them may follow it. The first manifest of a generation owes
    nothing: what its target owed was paid before it was sealed.

    Raises:
        DamagedManifestError: The chain is broken.
    """
    while head.manifest.kind in ("claim", "closing") or head.manifest.restored is not None:
        manifest = head.manifest
        if (place := predecessor_of(manifest)) is None:
            return None
        published = manifest.base is not None and manifest.base.epoch >= place.epoch
        try:
            before = log.read(place.generation, place.epoch)
        except NotFoundError:
            if published:
                return None  # retention removed it, and only does so once its sinks have their output
            raise
        if before.hash != manifest.predecessor and published:
            return None  # retention removed it, and a late driver put another manifest under its number
        if before.hash != manifest.predecessor:
            raise DamagedManifestError(
                f"Epoch {manifest.epoch} of generation {manifest.generation} of job {manifest.job!r} names another "
                f"predecessor than epoch {before.manifest.epoch}.",
                action="Restore a savepoint from before this epoch, and find out who wrote to the job's root.",
            )
        head = before
    return None if head.manifest.kind == "restore" else head


def owed_by_target(log: Log, head: StoredManifest, target: StoredManifest) -> StoredManifest | None:
    """Returns the epoch that a restore to `target` still has to pay, or None: an abandoned epoch need not be paid."""
    debt = owed(log, head)
    if debt is None or debt.manifest.epoch > target.manifest.epoch:
        return None
    return debt if contains(target.manifest.lineage, debt.manifest.generation, debt.manifest.epoch) else None


def commit(sinks: Sinks, sealed: StoredManifest, attempts: int) -> None:
    """Commits the output of an epoch that this driver has just sealed. Tries again after errors; it is idempotent.

    Raises:
        SinkError, StorageError: Every try failed; the epoch stays sealed and owes its output.
    """
    _try(partial(sinks.commit, sealed), attempts)


def pay(sinks: Sinks, sealed: StoredManifest, attempts: int, *, leave_out: bool, without: Collection[str] = ()) -> None:
    """Commits what another driver has sealed. Tries again after errors; it is idempotent. Raises as `Sinks.pay`."""
    _try(partial(sinks.pay, sealed, leave_out=leave_out, without=without), attempts)


def _try(work: Callable[[], None], attempts: int) -> None:
    for remaining in reversed(range(attempts)):
        try:
            return work()
        except (SinkError, StorageError):
            if not remaining:
                raise


__all__ = ["commit", "owed", "owed_by_target", "pay"]
