"""A restore of key groups between two epochs of a running job."""

from collections.abc import Callable

from msgspec.structs import replace

from state_engine.epoch.driver import EpochDriver
from state_engine.errors import FencedError
from state_engine.log.manifest import StoredManifest
from state_engine.savepoint import KeyGroupRestore
from state_engine.savepoint.group_restore import GroupRestorer

Record = Callable[[Callable[[], StoredManifest]], StoredManifest]
"""Seals a manifest and notes it as progress."""


def restored_between_epochs(restorer: GroupRestorer, driver: EpochDriver, record: Record) -> KeyGroupRestore:
    """Replaces the state that a restorer has chosen, with a manifest of its own; returns what happened.

    Raises:
        RestoreError: The restore is refused; nothing was written.
        RestoreCancelledError: The restore was cancelled.
        FencedError: Another driver owns the job; what was written is gone.
    """
    with restorer.kept():
        report = restorer.plan(driver.head)  # outside the lock: reading both sides may take a while
        try:
            sealed = record(lambda: driver.restore_groups(restorer.write)).manifest
        except FencedError:
            restorer.discard()
            raise
    return replace(report, sealed=(sealed.generation, sealed.epoch))


__all__ = ["restored_between_epochs"]
