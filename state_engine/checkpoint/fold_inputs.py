"""Reads what folds to the state of an epoch: a base, and the chain of manifests after it."""

from collections.abc import Iterable
from typing import NamedTuple

from state_engine.checkpoint.table import CheckpointTable, newest_base
from state_engine.log.lineage import check_base_joins
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Base, BaseReference, Manifest
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import read_base


class FoldInputs(NamedTuple):
    """A base, if any, and the manifests after it up to an epoch, oldest first; none if the base is of that epoch."""

    reference: BaseReference | None
    base: Base | None
    chain: tuple[StoredManifest, ...]

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests of the chain without their hashes."""
        return tuple(stored.manifest for stored in self.chain)


def newest_fold_inputs(
    storage: CheckpointStorage, log: ManifestLog, rows: CheckpointTable, head: StoredManifest
) -> FoldInputs:
    """Reads the newest visible base at or before the epoch of `head`, and the chain of manifests after it.

    If `head` names a base that is at least as new, it reads that one. A restore may have copied or rewritten it: then
    no checkpoint made it. A checkpoint of the very epoch that was rewritten has other key groups, or operators under
    other uids.

    Raises:
        CorruptionError: A manifest or the base is gone or damaged, or the chain does not join the base.
    """
    named, visible = head.manifest.base, newest_base(rows.newest_first(), head.manifest)
    reference = named if visible is None or (named is not None and named.epoch >= visible.epoch) else visible
    return read_fold_inputs(storage, log, head, reference)


def read_fold_inputs(
    storage: CheckpointStorage, log: ManifestLog, head: StoredManifest, reference: BaseReference | None
) -> FoldInputs:
    """Reads a base and the chain from it to `head`, both verified.

    Raises:
        CorruptionError: A manifest or the base is gone or damaged, or the chain does not join the base.
    """
    base = read_base(storage, reference) if reference is not None else None
    return FoldInputs(reference, base, follow(base, log.chain(head)))


def follow(base: Base | None, chain: Iterable[StoredManifest]) -> tuple[StoredManifest, ...]:
    """Returns the part of a chain that is after a base, and checks that it begins where the base ends.

    Raises:
        DamagedManifestError: It does not.
    """
    after = base.epoch if base is not None else 0
    following = tuple(stored for stored in chain if stored.manifest.epoch > after)
    if base is not None:
        check_base_joins(following, base)
    return following


__all__ = ["FoldInputs", "follow", "newest_fold_inputs", "read_fold_inputs"]
