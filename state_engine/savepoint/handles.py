"""The files that a pin lists: finds them, verifies that they exist, and reads the state from them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from state_engine.checkpoint.fold_inputs import follow
from state_engine.errors import DamagedFileError, DamagedManifestError, MissingFileError, NotFoundError
from state_engine.log.manifest import StoredManifest, decode_manifest
from state_engine.log.records import Base, BaseReference, Manifest, Pin, StateHandle
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, read_base

_REMEDY = "Restore another savepoint, or bring the file back from a backup."


class Pinned(NamedTuple):
    """The content of a pin: the manifest of its epoch, and the history that folds to its state."""

    head: StoredManifest
    segment: Segment


def handles_of(
    storage: CheckpointStorage, reference: BaseReference | None, base: Base | None, manifests: Iterable[Manifest]
) -> tuple[tuple[str, int], ...]:
    """Returns (path, length) of every file besides manifests that a restore reads, each once.

    Staged outputs are not among them, since a sealed epoch's output is committed before the next one. Inlined content
    is not among them either: changes in a manifest, state in the base.
    """
    lengths: dict[str, int] = {}
    if reference is not None:
        lengths[reference.path] = len(storage.get(reference.path))
    if base is not None:
        lengths |= {file.path: file.length for file in base.files if file.inlined is None}
    for manifest in manifests:
        lengths |= {handle.path: handle.length for handle in changes_of(manifest)}
    return tuple(lengths.items())


def changes_of(manifest: Manifest) -> Iterator[StateHandle]:
    """Yields the handles of an epoch's change files; inlined changes have no file."""
    return (handle for handle in handles_in(manifest) if handle.path not in manifest.inlined)


def handles_in(manifest: Manifest) -> Iterator[StateHandle]:
    """Yields the handles of an epoch's changes, in files and inlined."""
    for operator in manifest.operators.values():
        for ack in operator.acks:
            if ack.changes is not None:
                yield ack.changes


def verify_handles(storage: CheckpointStorage, pin: Pin) -> None:
    """Checks that every file of a pin exists with its length, and every manifest with its hash.

    Lengths come from one listing per folder; contents are not read.

    Raises:
        MissingFileError: A file is gone.
        DamagedFileError: A file has another length.
        DamagedManifestError: A manifest is not the one that was pinned.
    """
    for path, digest in pin.manifests:
        _read_manifest(storage, path, digest)
    lengths: dict[str, int] = {}
    for folder in {path.rpartition("/")[0] for path, _ in pin.handles}:
        lengths |= {info.path: info.size for info in storage.list(folder, recursive=False)}
    for path, length in pin.handles:
        if path not in lengths:
            raise MissingFileError(f"{path}, which savepoint {pin.savepoint_id} needs, is gone.", action=_REMEDY)
        if lengths[path] != length:
            raise DamagedFileError(
                f"{path}, which savepoint {pin.savepoint_id} needs, has {lengths[path]} bytes, expected {length}.",
                action=_REMEDY,
            )


def read_pinned(storage: CheckpointStorage, pin: Pin) -> Pinned:
    """Reads manifests and base of a pin from their handles alone; reads no table and follows no chain of the log.

    Raises:
        CorruptionError: Something is gone or damaged.
    """
    manifests = [_read_manifest(storage, path, digest) for path, digest in pin.manifests]
    base = read_base(storage, pin.base) if pin.base is not None else None
    head = manifests[-1]
    return Pinned(head, Segment(storage, base, tuple(stored.manifest for stored in follow(base, manifests))))


def _read_manifest(storage: CheckpointStorage, path: str, digest: str) -> StoredManifest:
    try:
        stored = decode_manifest(storage.get(path), path=path)
    except NotFoundError as error:
        raise MissingFileError(f"The manifest {path} is gone.", action=_REMEDY) from error
    if stored.hash != digest:
        raise DamagedManifestError(f"{path} has the hash {stored.hash}, expected {digest}.", action=_REMEDY)
    return stored


__all__ = ["Pinned", "changes_of", "handles_in", "handles_of", "read_pinned", "verify_handles"]
