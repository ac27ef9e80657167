"""Whom a savepoint belongs to behind a restore: Flink's claim modes.

`NO_CLAIM`: whoever took it keeps it, and removes it when they like. `CLAIM`: it belongs to the job that goes on from
it, and goes as soon as that job has no need of it: once the new generation is sealed, which stands on the log or on
copies. Checkpoints and epochs belong to their job anyway.
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
    """Asked before anything is written.

    Raises:
        RestoreError: There is no such mode, or the savepoint is of another job that the new one would stand on.
    """
    if mode not in get_args(ClaimMode):
        raise RestoreError(f"There is no claim mode {mode!r}.", action=f"Use one of {', '.join(get_args(ClaimMode))}.")
    owner = target.stored.manifest.job
    copied = target.location is not None or target.rewrite is not None
    if mode == "CLAIM" and target.savepoint_id is not None and owner != job and not copied:
        raise RestoreError(
            f"Native savepoint {target.savepoint_id} of job {owner!r} cannot be claimed by job {job!r}: its files "
            f"belong to {owner!r}.",
            action="Restore it with NO_CLAIM, or take a canonical savepoint, whose files are copied.",
        )


def claim_source(root: str, target: RestoreTarget) -> bool:
    """Removes a claimed savepoint, once the job that goes on from it is sealed.

    The restore has succeeded then, so what cannot be removed is told by a warning.

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
