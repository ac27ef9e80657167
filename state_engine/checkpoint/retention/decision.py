"""Decides which files are deleted and which stay, from the facts of one look. Pure: the same facts, the same answer."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from state_engine.checkpoint.retention.needs import holds
from state_engine.log.lineage import contains
from state_engine.log.paths import (
    RESTORED,
    parse_beside_manifest,
    parse_manifest_path,
    parse_state_file,
)
from state_engine.log.records import Manifest, Span

RemovalKind = Literal["savepoint", "manifest", "changes", "output", "base", "state", "restored", "unfinished"]
RemovalRule = Literal["checkpoints", "savepoints", "strays"]


class Removal(NamedTuple):
    """A file that is to be deleted.

    Attributes:
        path: Relative to the job's root.
        bytes: Its length.
        kind: What it is.
        reason: Why it is deleted.
        rule: The rule of a `RetentionPolicy` by which it is deleted.
    """

    path: str
    bytes: int
    kind: RemovalKind
    reason: str
    rule: RemovalRule


class Names(NamedTuple):
    """The files that are named, and up to which epochs no more names can be added.

    Attributes:
        files: Named by a manifest, or by a base that a manifest or a checkpoint names.
        sealed: Generation to its newest sealed epoch: no later manifest names change files or output of epochs up to
            that one.
        published: Generation to the epoch of its newest checkpoint: no checkpoint of an earlier epoch becomes visible
            any more.
    """

    files: frozenset[str]
    sealed: Mapping[int, int]
    published: Mapping[int, int]


class Facts(NamedTuple):
    """The facts that the decision uses.

    Attributes:
        objects: Path to length of every object of the job, listed before everything else was read.
        head: The newest sealed manifest; None when everything is to be deleted.
        start: (generation, epoch) from which on every epoch of the current lineage stays; None keeps all epochs, unless
            everything is to be deleted.
        needed: Files that are needed, and stay.
        way_back: Manifests that a restore to a kept epoch reads on its way.
        entered: Manifests of abandoned lines with staged output that such a restore gives to sinks again.
        leaving: Files of savepoints that are deleted, and why.
        copies: Folders with copies of canonical savepoints, and the (generation, epoch) of manifests that name them.
        names: The names of files, to find strays; with None every file stays with its epoch.
        unfinished: Path to length of what dead processes left of their puts; nothing can ever name these files.
    """

    objects: Mapping[str, int]
    head: Manifest | None
    start: tuple[int, int] | None
    needed: frozenset[str] = frozenset()
    way_back: tuple[Span, ...] = ()
    entered: tuple[Span, ...] = ()
    leaving: Mapping[str, str] = MappingProxyType({})
    copies: Mapping[str, Collection[tuple[int, int]]] = MappingProxyType({})
    names: Names | None = None
    unfinished: Mapping[str, int] = MappingProxyType({})


def decide(facts: Facts) -> list[Removal]:
    """Returns the files to delete. A file with a name that this release does not understand always stays."""
    reason = "its writer died before it had put it"
    removals = [Removal(path, size, "unfinished", reason, "checkpoints") for path, size in facts.unfinished.items()]
    idle = _idle_copies(facts)
    for path, length in facts.objects.items():
        if path in facts.needed:
            continue
        if path in facts.leaving:
            removals.append(Removal(path, length, "savepoint", facts.leaving[path], "savepoints"))
            continue
        if folder_below(RESTORED, path) in idle:
            reason = "no epoch that stays began with this copy of a savepoint"
            removals.append(Removal(path, length, "restored", reason, "checkpoints"))
            continue
        parsed = _kind_of(path)
        if parsed is None:
            continue
        kind, generation, epoch = parsed
        old = _why(facts, generation, epoch)
        why = old or _why_stray(facts.names, path, *parsed)
        kept = (kind == "manifest" and holds(facts.way_back, generation, epoch)) or (
            kind == "output" and holds(facts.entered, generation, epoch)
        )
        if why and not kept:
            removals.append(Removal(path, length, kind, why, "checkpoints" if old else "strays"))
    return removals


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
    """Returns why the files of an epoch may be deleted, if nothing needs them; empty when they may not."""
    if facts.head is None:
        return "the job's state is deleted; no savepoint needs it"
    if facts.start is None or generation > facts.head.generation:
        return ""
    if contains(facts.head.lineage, generation, epoch):
        return f"before epoch {facts.start[1]}, the oldest that is kept" if epoch < facts.start[1] else ""
    if generation < facts.start[0]:
        return "a restore abandoned it, and newer checkpoints have completed since"
    return ""


def _why_stray(names: Names | None, path: str, kind: RemovalKind, generation: int, epoch: int) -> str:
    """Returns why a file of an epoch that stays may be deleted: nothing names it, or ever will; empty if it may not."""
    if names is None or kind == "manifest" or path in names.files:
        return ""
    if kind in ("changes", "output"):
        return "no manifest references it" if epoch <= names.sealed.get(generation, 0) else ""
    return "no checkpoint references it" if epoch <= names.published.get(generation, 0) else ""


def _idle_copies(facts: Facts) -> set[str]:
    """Returns the copies of canonical savepoints that have no needed file and that no staying epoch names."""
    needed = {folder_below(RESTORED, path) for path in facts.needed}
    return {
        folder
        for folder, places in facts.copies.items()
        if folder not in needed and all(_why(facts, *place) for place in places)
    }


def folder_below(parent: str, path: str) -> str | None:
    """Returns the name of the folder directly in `parent` that contains a file; None if the file is elsewhere."""
    first, _, rest = path.partition("/")
    return rest.partition("/")[0] if first == parent else None


__all__ = ["Facts", "Names", "Removal", "RemovalKind", "RemovalRule", "decide", "folder_below"]
