"""What goes and what stays, decided from what was found. Pure: the same facts give the same answer."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from state_engine.checkpoint.retention_needs import holds
from state_engine.log.lineage import contains
from state_engine.log.paths import SAVEPOINTS, parse_beside_manifest, parse_manifest_path, parse_state_file
from state_engine.log.records import Manifest, Span

RemovalKind = Literal["savepoint", "manifest", "changes", "output", "base", "state"]


class Removal(NamedTuple):
    """A file that goes: its path relative to the job's root, its length, what it is, and why it goes."""

    path: str
    bytes: int
    kind: RemovalKind
    reason: str


class Facts(NamedTuple):
    """All that the decision stands on.

    Attributes:
        objects: Path to length of every object of the job, listed before everything else was read.
        head: The newest sealed manifest; None when everything is to go.
        start: (generation, epoch) from which on every epoch of the current lineage stays; None keeps all epochs, unless
            everything is to go.
        needed: Files that somebody needs.
        way_back: Manifests that restores to what is kept walk.
        entered: Manifests of abandoned lines whose staged output such a restore gives to sinks again.
        savepoints: Ids of the savepoints that go.
    """

    objects: Mapping[str, int]
    head: Manifest | None
    start: tuple[int, int] | None
    needed: frozenset[str] = frozenset()
    way_back: tuple[Span, ...] = ()
    entered: tuple[Span, ...] = ()
    savepoints: frozenset[str] = frozenset()


def decide(facts: Facts) -> list[Removal]:
    """Returns the files that go. A file whose name this release does not understand always stays."""
    found = []
    for path, length in facts.objects.items():
        if path in facts.needed:
            continue
        if (savepoint := _savepoint_of(path)) is not None:
            if savepoint in facts.savepoints:
                found.append(Removal(path, length, "savepoint", f"the policy keeps savepoint {savepoint} no longer"))
            continue
        known = _kind_of(path)
        if known is None:
            continue
        kind, generation, epoch = known
        why = _why(facts, generation, epoch)
        kept = (kind == "manifest" and holds(facts.way_back, generation, epoch)) or (
            kind == "output" and holds(facts.entered, generation, epoch)
        )
        if why and not kept:
            found.append(Removal(path, length, kind, why))
    return found


def _kind_of(path: str) -> tuple[RemovalKind, int, int] | None:
    if (place := parse_manifest_path(path)) is not None:
        return ("manifest", *place)
    if (place := parse_state_file(path)) is not None:
        return ("state", *place)
    if (place := parse_beside_manifest(path)) is None:
        return None
    if "/bases/" in path:
        return ("base", *place)
    return ("output" if path.endswith(".parquet") else "changes", *place)


def _why(facts: Facts, generation: int, epoch: int) -> str:
    """Says why the files of an epoch may go, if nobody needs them; empty when they may not."""
    if facts.head is None:
        return "the job's state is deleted; no savepoint needs it"
    if facts.start is None or generation > facts.head.generation:
        return ""
    if contains(facts.head.lineage, generation, epoch):
        return f"it lies before epoch {facts.start[1]}, the oldest one kept" if epoch < facts.start[1] else ""
    if generation < facts.start[0]:
        return "a restore abandoned it, and newer checkpoints have completed since"
    return ""


def _savepoint_of(path: str) -> str | None:
    folder, _, rest = path.partition("/")
    return rest.partition("/")[0] if folder == SAVEPOINTS else None


__all__ = ["Facts", "Removal", "RemovalKind", "decide"]
