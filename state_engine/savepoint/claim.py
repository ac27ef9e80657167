"""Flink's claim modes: who owns a savepoint after a restore from it.

`NO_CLAIM`: the owner stays the same, and removes the savepoint when they like. `CLAIM`: the savepoint belongs to the
job that goes on from it, and is removed as soon as that job does not need it any more. This is once the new generation
is sealed, because that uses files of the log or copies. Checkpoints and epochs belong to their job anyway.
"""

import warnings
from typing import Literal, get_args

from state_engine.epoch.request import RestoreTarget
from state_engine.errors import CorruptionError, LakestateError, NotFoundError, RestoreError
from state_engine.log.paths import METADATA
from state_engine.savepoint.canonical import remove_tables
from state_engine.savepoint.dispose import dispose_savepoint
from state_engine.savepoint.source import location_in_job, open_location, read_canonical

ClaimMode = Literal["NO_CLAIM", "CLAIM"]


def check_claim(job: str, target: RestoreTarget, mode: ClaimMode) -> None:
    """Checks the claim mode of a restore, before anything is written.

    Raises:
        RestoreError: There is no such mode; or the savepoint to claim is of another job, and the job would use its
            files without a copy.
    """
    if mode not in get_args(ClaimMode):
        raise RestoreError(f"There is no claim mode {mode!r}.", action=f"Use one of {', '.join(get_args(ClaimMode))}.")
    owner = target.stored.manifest.job
    copied = target.location is not None or target.rewrite is not None
    if mode == "CLAIM" and target.savepoint_id is not None and owner != job and not copied:
        raise RestoreError(
            f"Native savepoint {target.savepoint_id} of job {owner!r} cannot be claimed by job {job!r}: its files "
            f"belong to {owner!r}.",
            action="Restore it with NO_CLAIM, or take a canonical savepoint; its files are copied.",
        )


def claim_source(root: str, target: RestoreTarget) -> bool:
    """Removes a claimed savepoint, after the first manifest of the job that goes on from it is sealed.

    By then the restore has succeeded, so a savepoint that cannot be removed causes only a warning.

    Returns:
        Whether there was a savepoint, and it was removed.
    """
    if target.savepoint_id is None:
        return False
    try:
        return _remove(root, target)
    except LakestateError as error:
        warnings.warn(f"Savepoint {target.savepoint_id} was claimed and could not be removed: {error}", stacklevel=2)
        return False


def _remove(root: str, target: RestoreTarget) -> bool:
    assert target.savepoint_id is not None
    owner = target.stored.manifest.job
    if target.location is None or target.location == location_in_job(root, owner, target.savepoint_id):
        return dispose_savepoint(root, owner, target.savepoint_id)
    storage = open_location(target.location)
    try:
        tables = [table.path for table in read_canonical(storage).savepoint.tables]
    except (NotFoundError, CorruptionError):
        return False
    storage.delete(METADATA)
    remove_tables(storage, tables)
    return True


__all__ = ["ClaimMode", "check_claim", "claim_source"]
