"""Finds the generation of an epoch, along the line of epochs that leads to a manifest.

Epochs are consecutive along a lineage: the first epoch of a new generation is the restored epoch + 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

from state_engine.errors import DamagedManifestError, NothingToRestoreError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Base, Manifest, Span

IMPORTED = 0
"""The generation of state that a savepoint brought from elsewhere; a job's own generations begin with 1."""


class Place(NamedTuple):
    """The job, generation and epoch under which a manifest is stored."""

    job: str
    generation: int
    epoch: int


def generation_of(lineage: Sequence[Span], epoch: int) -> int | None:
    """Returns the generation that sealed `epoch` on this lineage, None when the lineage does not reach it."""
    for span in reversed(lineage):
        if span.first <= epoch and (span.last is None or epoch <= span.last):
            return span.generation
    return None


def contains(lineage: Sequence[Span], generation: int, epoch: int) -> bool:
    """Returns whether an epoch of a generation is on this lineage and was not abandoned by a restore."""
    return generation_of(lineage, epoch) == generation


def imported_lineage(epoch: int, generation: int) -> tuple[Span, ...]:
    """Returns the lineage of a generation that goes on after the epoch of a savepoint that came from elsewhere.

    Numbers of generations elsewhere mean nothing here: the epoch of the savepoint is the only one of `IMPORTED`.
    """
    return (Span(generation=IMPORTED, first=epoch, last=epoch), Span(generation=generation, first=epoch + 1))


def first_own(lineage: Sequence[Span]) -> Span:
    """Returns the first step of a lineage that the job took itself."""
    return next(span for span in lineage if span.generation != IMPORTED)


def fork_lineage(lineage: Sequence[Span], epoch: int, generation: int) -> tuple[Span, ...]:
    """Returns the lineage of a new generation that goes on after `epoch`; the rest of `lineage` is abandoned.

    Raises:
        NothingToRestoreError: `epoch` is not on the lineage.
    """
    if generation_of(lineage, epoch) is None:
        raise NothingToRestoreError(
            f"Epoch {epoch} is not on the lineage {[(s.generation, s.first, s.last) for s in lineage]}.",
            action="Name a sealed epoch of this job; `state_engine.inspect.open_job(root, job).epochs()` lists them.",
        )
    kept = [span for span in lineage if span.first <= epoch]
    last = kept[-1]
    closed = Span(generation=last.generation, first=last.first, last=epoch)
    return (*kept[:-1], closed, Span(generation=generation, first=epoch + 1))


def predecessor_of(manifest: Manifest) -> Place | None:
    """Returns where the predecessor of a manifest is stored, None for the first of its line.

    State that a generation imported from a savepoint is in its base alone: its first manifest is the first of its line.

    Raises:
        DamagedManifestError: the manifest contradicts itself.
    """
    if not manifest.predecessor:
        return None
    origin = manifest.origin
    if origin is not None and _is_first_of_generation(manifest):
        if origin.manifest != manifest.predecessor:
            raise _contradiction(manifest, f"its origin has the hash {origin.manifest}, its predecessor another")
        if origin.imported:
            return None
        return Place(origin.job, origin.generation, origin.epoch)
    generation = generation_of(manifest.lineage, manifest.epoch - 1)
    if generation is None:
        raise _contradiction(manifest, f"its lineage does not reach epoch {manifest.epoch - 1}, its predecessor")
    return Place(manifest.job, generation, manifest.epoch - 1)


def check_base_joins(chain: Sequence[StoredManifest], base: Base) -> None:
    """Checks that a chain down to a base begins directly after the very manifest at which the base was folded.

    Raises:
        DamagedManifestError: it does not; folding the chain onto the base would give a wrong state.
    """
    if chain:
        check_joins(chain[0].manifest, base)


def check_joins(first: Manifest, base: Base) -> None:
    """Checks that a manifest follows the very one at which the base was folded.

    Raises:
        DamagedManifestError: it does not.
    """
    if first.epoch != base.epoch + 1 or first.predecessor != base.manifest:
        raise DamagedManifestError(
            f"Epoch {first.epoch} of generation {first.generation} follows the manifest {first.predecessor}, but the "
            f"base of epoch {base.epoch} was folded at {base.manifest}.",
            action="Restore an older checkpoint or savepoint.",
        )


def _is_first_of_generation(manifest: Manifest) -> bool:
    return not manifest.lineage or manifest.lineage[-1].first == manifest.epoch


def _contradiction(manifest: Manifest, what: str) -> DamagedManifestError:
    return DamagedManifestError(
        f"The manifest of epoch {manifest.epoch} in generation {manifest.generation} contradicts itself: {what}.",
        action="Restore an older checkpoint or savepoint.",
    )


__all__ = [
    "IMPORTED",
    "Place",
    "check_base_joins",
    "check_joins",
    "contains",
    "first_own",
    "fork_lineage",
    "generation_of",
    "imported_lineage",
    "predecessor_of",
]
