"""Finds the files that a sealed epoch needs to be restored, read, pinned or continued. Rather too many than too few."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from state_engine.checkpoint.table import CheckpointRow, newest_base
from state_engine.errors import MissingFileError, NotFoundError
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.log.records import BaseReference, Manifest, Span
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import read_base


class History(NamedTuple):
    """What the needs are read from. `checkpoints` are the rows of all checkpoints, from the highest id down."""

    storage: CheckpointStorage
    log: ManifestLog
    checkpoints: Sequence[CheckpointRow]


def files_of_epoch(history: History, stored: StoredManifest) -> set[str]:
    """Returns the paths of all files of its own job that a restore of an epoch reads.

    A restore begins with the base that the manifest names, a savepoint and a checkpoint with the newest visible one.
    Both are kept, and the manifests and change files from the older one on. Files that are already gone are left out.

    Raises:
        CorruptionError: A manifest or a base is damaged, so it is not known what it needs.
    """
    manifest = stored.manifest
    files: set[str] = set()
    for reference in (manifest.base, newest_base(history.checkpoints, manifest)):
        if reference is not None:
            files |= files_of_base(history, reference)
    for one in _chain(history.log, stored):
        files.add(manifest_path(one.generation, one.epoch))
        files |= changes_of(one)
    return files


def files_of_base(history: History, reference: BaseReference) -> set[str]:
    """Returns the path of a base and those of its files; the path alone when the base is gone."""
    try:
        files = read_base(history.storage, reference).files
    except MissingFileError:
        return {reference.path}
    return {reference.path, *(file.path for file in files if file.inlined is None)}


def files_owed(log: ManifestLog, head: StoredManifest) -> set[str]:
    """Returns the manifests in which a start looks for owed output (`epoch/debts.py`), and that output.

    The walk includes the batch before the one that may owe: sinks that get output early are told of that batch.
    """
    files: set[str] = set()
    batches = 0
    current: StoredManifest | None = head
    while current is not None and batches < 2:
        manifest = current.manifest
        files.add(manifest_path(manifest.generation, manifest.epoch))
        files |= outputs_of(manifest)
        batches += manifest.kind in ("epoch", "idle")
        current = _before(log, manifest)
    return files


def changes_of(manifest: Manifest) -> set[str]:
    """Returns the change files that a manifest names; changes that are inlined in it have none."""
    handles = (ack.changes for operator in manifest.operators.values() for ack in operator.acks)
    return {handle.path for handle in handles if handle is not None and handle.path not in manifest.inlined}


def outputs_of(manifest: Manifest) -> set[str]:
    """Returns the staged outputs that a manifest names and that are below the job's root."""
    acks = (ack for operator in manifest.operators.values() for ack in operator.acks)
    return {output.path for ack in acks for output in ack.outputs if not output.in_table}


class WayBack(NamedTuple):
    """Manifests that a restore reads, from the newest epoch down to the common past and up again to its target.

    They record what to retract from sinks, and what to add to them again: that is output of an abandoned line
    (`entered`).
    """

    left: tuple[Span, ...]
    entered: tuple[Span, ...]


def way_back(head: Manifest, target: Manifest) -> WayBack:
    """Returns the manifests between the newest epoch and a target, both of the same job. Pure."""
    common = 0
    ends = {span.generation: _end(span, target) for span in target.lineage}
    for span in head.lineage:
        if span.generation in ends:
            common = max(common, min(_end(span, head), ends[span.generation]))
    return WayBack(_behind(head, common), _behind(target, common))


def holds(spans: Iterable[Span], generation: int, epoch: int) -> bool:
    """Returns whether an epoch of a generation is in one of some closed spans."""
    return any(s.generation == generation and s.first <= epoch <= (s.last or 0) for s in spans)


def _behind(manifest: Manifest, common: int) -> tuple[Span, ...]:
    cut = (
        Span(generation=s.generation, first=max(s.first, common + 1), last=_end(s, manifest)) for s in manifest.lineage
    )
    return tuple(span for span in cut if span.first <= (span.last or 0))


def _end(span: Span, manifest: Manifest) -> int:
    return manifest.epoch if span.last is None else min(span.last, manifest.epoch)


def _chain(log: ManifestLog, head: StoredManifest) -> Iterable[Manifest]:
    """Yields manifests of the same job from `head` down to the first after the base that it names, or to their end."""
    base = head.manifest.base
    current: StoredManifest | None = head
    while current is not None:
        yield current.manifest
        if base is not None and current.manifest.epoch <= base.epoch + 1:
            return
        current = _before(log, current.manifest)


def _before(log: ManifestLog, manifest: Manifest) -> StoredManifest | None:
    place = predecessor_of(manifest)
    if place is None or place.job != manifest.job:
        return None
    try:
        return log.read(place.generation, place.epoch)
    except NotFoundError:
        return None


__all__ = [
    "History",
    "WayBack",
    "changes_of",
    "files_of_base",
    "files_of_epoch",
    "files_owed",
    "holds",
    "outputs_of",
    "way_back",
]
