"""E3: may a cached operator instance follow the log to the epoch's predecessor, and what does it take from it? Pure.

A worker keeps the state of a subtask between epochs, with the hash of the manifest that it reflects (its token). The
instance is valid if that manifest is an ancestor of the epoch's predecessor in the same job; otherwise the worker
discards it and loads the state anew.
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
"""An instance that is further behind than this is loaded from the base, which is the shorter way."""


class Chain(Protocol):
    """What a task reads of the log."""

    def read(self, generation: int, epoch: int, *, expected: str = "") -> StoredManifest:
        """Returns a manifest; raises NotFoundError if it is not sealed or was deleted.

        One that was read before and has another hash than `expected` is read again.
        """
        ...


class Step(NamedTuple):
    """One manifest that an instance takes.

    Attributes:
        stored: The manifest.
        is_own: It seals the very attempt whose changes the instance still holds: nothing has to be read.
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
    found = log.read(plan.predecessor_generation, plan.predecessor_epoch, expected=plan.predecessor)
    if found.hash != plan.predecessor:
        raise DamagedManifestError(
            f"Epoch {plan.predecessor_epoch} of generation {plan.predecessor_generation} of job {plan.job!r} is not "
            "the one that the epoch was planned on.",
            action="Look for a second store under the same root; the job restarts from the newest sealed epoch.",
        )
    return found


def steps_since(log: Chain, token: str, plan: EpochPlan) -> list[StoredManifest] | None:
    """Returns the manifests after the one that `token` names, up to the epoch's predecessor, oldest first.

    Returns:
        None if the token is not within reach: it names no ancestor in this job, or one that is too far back.

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
            found = log.read(place.generation, place.epoch)
        except NotFoundError:  # retention removed it: the cache is too old
            return None
        if found.hash != current.manifest.predecessor:
            return None
        steps.append(found)
        current = found
    return steps[::-1] if current.manifest.predecessor == token else None


def attempt_of(stored: StoredManifest, own: OperatorPlan, subtask: int) -> str | None:
    """Returns which attempt of a subtask a manifest seals; None if none, or with another parallelism."""
    operator = stored.manifest.operators.get(own.uid)
    if operator is None or operator.parallelism != own.parallelism or len(operator.acks) <= subtask:
        return None
    return operator.acks[subtask].attempt


def steps_to_take(
    steps: Sequence[StoredManifest], pending: str | None, own: OperatorPlan, subtask: int
) -> tuple[list[Step], bool]:
    """Decides what an instance takes from each manifest.

    Args:
        steps: Of `steps_since`.
        pending: The attempt whose changes the instance holds and does not know to be sealed.
        own: The operator.
        subtask: The instance's subtask.

    Returns:
        The steps; and whether the instance goes on: what was sealed is what it did last, and all of it. What it did
        last, and was not sealed, its function may still have in its fields: also if a claim was sealed instead.
    """
    is_own = bool(steps) and pending is not None and attempt_of(steps[0], own, subtask) == pending
    taken = [Step(stored, is_own and number == 0) for number, stored in enumerate(steps)]
    return taken, is_own and all(_brought_nothing(stored, own) for stored in steps[1:])


def _brought_nothing(stored: StoredManifest, own: OperatorPlan) -> bool:
    """Says whether a manifest has no epoch of the operator in it, as that of a claim."""
    operator = stored.manifest.operators.get(own.uid)
    return operator is None or not operator.acks


def types_agree(uid: str, held: Collection[StateSchema], restored: Sequence[StateSchema], head: StoredManifest) -> bool:
    """Says whether the values of an instance went through the same types as those of the log.

    A driver with other code may have changed a type and back since: what its rows lost, the instance would still have.

    Args:
        uid: The operator.
        held: Schemas of the states that the instance holds.
        restored: Schemas of the manifest that its states were loaded from, or caught up with, last.
        head: The manifest that it is to follow to.
    """
    before = {schema.name: schema for schema in restored if schema.uid == uid}
    now = {schema.name: schema for schema in head.manifest.schemas if schema.uid == uid}
    for schema in (schema for schema in held if schema.name in now):
        known, was = now[schema.name], before.get(schema.name)
        if known.schema_id != schema.schema_id:
            return False  # rows that follow would be of the old type
        if was is not None and types_of(known) != types_of(evolve(was, schema, ALL)):
            return False
    return True


__all__ = ["STEPS", "Chain", "Step", "attempt_of", "predecessor", "steps_since", "steps_to_take", "types_agree"]
