"""Decides whether a cached operator instance may catch up along the log, and what it takes from it (E3). Pure.

A worker keeps the state of a subtask between epochs, with the hash of the manifest that it reflects (its token). The
instance catches up to the epoch's predecessor. It is valid if the manifest of its token is an ancestor of that
predecessor in the same job; otherwise the worker discards it and loads the state anew.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import DamagedManifestError, NotFoundError
from state_engine.log.evolution import evolve, types_of
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import ALL

STEPS = 64
"""An instance that lags by more manifests than this is loaded from the base, which is faster."""


class Chain(Protocol):
    """What a task reads of the log."""

    def read(self, generation: int, epoch: int, *, expected: str = "") -> StoredManifest:
        """Returns a manifest; raises NotFoundError if it is not sealed or was deleted.

        A cached manifest whose hash is not `expected` is read again.
        """
        ...


class Step(NamedTuple):
    """One manifest that an instance takes.

    Attributes:
        stored: The manifest.
        is_own: It seals the very attempt of which the instance still holds the changes: nothing has to be read.
    """

    stored: StoredManifest
    is_own: bool


def predecessor(log: Chain, plan: EpochPlan) -> StoredManifest | None:
    """Returns the manifest that an epoch was planned on, None for the first epoch of a job.

    Raises:
        NotFoundError: It is gone.
        DamagedManifestError: Another manifest has its number.
    """
    if not plan.predecessor:
        return None
    stored = log.read(plan.predecessor_generation, plan.predecessor_epoch, expected=plan.predecessor)
    if stored.hash != plan.predecessor:
        raise DamagedManifestError(
            f"Epoch {plan.predecessor_epoch} of generation {plan.predecessor_generation} of job {plan.job!r} is not "
            "the one that the epoch was planned on.",
            action="Look for a second store under the same root; the job restarts from the newest sealed epoch.",
        )
    return stored


def steps_since(log: Chain, token: str, plan: EpochPlan) -> list[StoredManifest] | None:
    """Returns the manifests after the one that `token` names, up to the epoch's predecessor, oldest first.

    Returns:
        None if the token is out of reach: it names no ancestor in this job, or one that is too far back.

    Raises:
        NotFoundError, DamagedManifestError: As `predecessor`.
    """
    head = predecessor(log, plan)
    if token == plan.predecessor:
        return []
    if head is None:
        return None
    steps, current = [head], head
    while len(steps) <= STEPS and current.manifest.predecessor != token:
        place = predecessor_of(current.manifest)
        if place is None or place.job != plan.job:
            return None
        try:
            previous = log.read(place.generation, place.epoch)
        except NotFoundError:  # retention removed it: the cache is too old
            return None
        if previous.hash != current.manifest.predecessor:
            return None
        steps.append(previous)
        current = previous
    return steps[::-1] if current.manifest.predecessor == token else None


def attempt_of(stored: StoredManifest, own: OperatorPlan, subtask: int) -> str | None:
    """Returns which attempt of a subtask a manifest seals; None if none, or if the parallelism differs."""
    operator = stored.manifest.operators.get(own.uid)
    if operator is None or operator.parallelism != own.parallelism or len(operator.acks) <= subtask:
        return None
    return operator.acks[subtask].attempt


def steps_to_take(
    steps: Sequence[StoredManifest], pending: str | None, own: OperatorPlan, subtask: int
) -> tuple[list[Step], bool]:
    """Decides what an instance takes from each manifest.

    Args:
        steps: The manifests that `steps_since` returned.
        pending: The attempt of the changes that the instance holds and does not know to be sealed.
        own: The operator.
        subtask: The instance's subtask.

    Returns:
        The steps, and whether the instance goes on. It does if its last attempt was sealed, and no later step has an
        epoch of the operator. Otherwise the fields of its function may still hold values of an attempt that was not
        sealed, also if a claim was sealed instead.
    """
    is_own = bool(steps) and pending is not None and attempt_of(steps[0], own, subtask) == pending
    taken = [Step(stored, is_own and number == 0) for number, stored in enumerate(steps)]
    return taken, is_own and all(_brought_nothing(stored, own) for stored in steps[1:])


def _brought_nothing(stored: StoredManifest, own: OperatorPlan) -> bool:
    """Returns whether a manifest contains no epoch of the operator, as a claim does."""
    operator = stored.manifest.operators.get(own.uid)
    return operator is None or not operator.acks


def types_agree(uid: str, held: Collection[StateSchema], restored: Sequence[StateSchema], head: StoredManifest) -> bool:
    """Returns whether the values of an instance went through the same types as those of the log.

    A driver with other code may have changed a type and changed it back since. Values that the rows of the log lost by
    that would then still be in the instance.

    Args:
        uid: The operator.
        held: Schemas of the states that the instance holds.
        restored: Schemas of the manifest that its states were loaded from, or caught up with, last.
        head: The manifest that the instance has to catch up with.
    """
    before = {schema.name: schema for schema in restored if schema.uid == uid}
    now = {schema.name: schema for schema in head.manifest.schemas if schema.uid == uid}
    for schema in (schema for schema in held if schema.name in now):
        schema_now, schema_before = now[schema.name], before.get(schema.name)
        if schema_now.schema_id != schema.schema_id:
            return False  # rows that follow would be of the old type
        if schema_before is not None and types_of(schema_now) != types_of(evolve(schema_before, schema, ALL)):
            return False
    return True


__all__ = ["STEPS", "Chain", "Step", "attempt_of", "predecessor", "steps_since", "steps_to_take", "types_agree"]
