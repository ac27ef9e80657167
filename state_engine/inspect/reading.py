"""Keeps state from retention while it is read."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from state_engine.checkpoint.leases import LEASE_MS, leased
from state_engine.clock import Clock, Ids
from state_engine.errors import NotWritableError
from state_engine.inspect.read import At, History, history_at, segments_of
from state_engine.log.manifest import StoredManifest
from state_engine.savepoint.catalogue import resolve_restore
from state_engine.savepoint.keeping import in_use, segments_kept
from state_engine.storage.open import open_root, open_storage


@contextmanager
def reading(
    root: str,
    job: str,
    at: str = "latest",
    *,
    purpose: str = "reader",
    clock: Clock | None = None,
    ids: Ids | None = None,
    for_ms: int = LEASE_MS,
) -> Iterator[StoredManifest | str]:
    """Keeps all that an epoch needs while it is read: from retention, and its savepoint from being disposed of.

    ```
    with reading(root, "flights", "latest", purpose="daily report") as at:
        counts = read_state(root, "flights", "aircraft", "count", at=at)
        legs = read_state(root, "flights", "aircraft", "legs", at=at)
    ```

    Both states are those of one epoch. A lease is a small file below the job's root, so the reader must be able to
    write there. Canonical savepoints have files of their own, and need none.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        at: What `resolve_restore` takes.
        purpose: What it is read for, in words; a refused disposal of the savepoint reports it.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.
        for_ms: When the lease expires, should this process die. A reader that takes longer has to set more.

    Yields:
        The `at` to pass to `read_state` and other readers.

    Raises:
        NothingToRestoreError: There is nothing of this name.
        CondemnedError, MissingFileError: Retention is removing some of it, or has removed it.
    """
    target = resolve_restore(root, job, at)
    if target.location is not None:
        yield at
        return
    with leased(root, target.stored, purpose, clock=clock, ids=ids, for_ms=for_ms, way=False):
        yield target.stored if target.savepoint_id is None else at


@contextmanager
def history_kept(
    root: str,
    job: str,
    at: At = None,
    *,
    purpose: str = "reader",
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Iterator[History]:
    """Gives the history that folds to the state at an epoch, and keeps exactly its files until the block ends.

    A file that is already gone is reported only when it is read, so that one damaged state does not hide the others. A
    reader that may not write below the job's root can still read; but then retention does not wait for its end.

    Args:
        root: Of the storage.
        job: Name of the job; it may be running.
        at: As of `read_state`.
        purpose: What it is read for, in words; a refused disposal of the savepoint reports it.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.

    Raises:
        NothingToRestoreError: There is nothing of this name.
        CondemnedError: Retention is removing some of it.
        CorruptionError: A manifest or the base is gone or damaged.
    """
    history = history_at(root, job, at)
    with ExitStack() as stack:
        if history.segment.storage.url != open_storage(root, job).url:  # a canonical savepoint, in any folder
            stack.enter_context(in_use(open_root(history.segment.storage.url), purpose, clock=clock, ids=ids))
        else:
            segments = segments_of(root, job, history)
            kept = segments_kept(root, history.head, segments, purpose, clock=clock, ids=ids, must_exist=False)
            with suppress(NotWritableError):
                stack.enter_context(kept)
        yield history


__all__ = ["history_kept", "reading"]
