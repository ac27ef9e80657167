"""What a restore has to move in a sink: output to take away, output to bring back, and the fence. Pure.

The lines of the newest epoch and of the restored one have a last epoch in common. After it, output of the line that the
job leaves goes. Output of the line that it enters comes back (a restore into a generation that was itself abandoned).
"""

from collections.abc import Sequence
from typing import NamedTuple

from state_engine.epoch.ports import Log
from state_engine.errors import DamagedManifestError
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline
from state_engine.log.records import Manifest, OutputFile

_EPOCH_BITS = 40


class SinkMove(NamedTuple):
    """The changes to one table: files to remove, files to add."""

    removed: tuple[OutputFile, ...] = ()
    added: tuple[OutputFile, ...] = ()


def transaction_id(job: str, sink: str) -> str:
    """Returns the id under which a job commits to a sink's table."""
    return f"lakestate/{job}/{sink}"


def transaction_version(generation: int, epoch: int) -> int:
    """Returns the version of an epoch's commit.

    It grows over generations. So a driver of an old generation, declared dead but still alive, finds its version too
    low.
    """
    return generation << _EPOCH_BITS | epoch


def transaction_place(version: int) -> tuple[int, int]:
    """Returns the (generation, epoch) of a commit's version."""
    return version >> _EPOCH_BITS, version & (1 << _EPOCH_BITS) - 1


def birth_transaction_id(job: str, sink: str) -> str:
    """Returns the id under which a job's commits record the birth id of its log; its version is that number."""
    return f"lakestate-birth/{job}/{sink}"


def outputs_of(manifest: Manifest, sink: str) -> list[OutputFile]:
    """Returns what an epoch staged for a sink."""
    return [o for op in manifest.operators.values() for ack in op.acks for o in ack.outputs if o.output == sink]


def since(log: Log, head: StoredManifest, other: StoredManifest) -> Sequence[Manifest]:
    """Returns the manifests of `head`'s line after the last epoch that it shares with `other`'s line, oldest first.

    They may be those of a week, so they are outlines (`Log.read_outline`), and a log reads each one once.

    Each is the one that its successor names. The shared epoch itself is not read: retention may have removed its
    manifest.

    Raises:
        NotFoundError: A manifest in between is gone.
        DamagedManifestError: Another manifest, which a driver put too late, has its number.
    """

    def is_shared(generation: int, epoch: int) -> bool:
        return epoch <= other.manifest.epoch and contains(other.manifest.lineage, generation, epoch)

    manifests: list[Manifest] = []
    current: StoredManifest | Outline = head
    while not is_shared(current.manifest.generation, current.manifest.epoch):
        manifest = current.manifest
        manifests.append(manifest)
        place = predecessor_of(manifest)
        if place is None or place.job != manifest.job:
            break
        if is_shared(place.generation, place.epoch):
            if (place.generation, place.epoch) == (other.manifest.generation, other.manifest.epoch):
                _check(other, current)
            break
        before = log.read_outline(place.generation, place.epoch)
        _check(before, current)
        current = before
    return manifests[::-1]


def _check(stored: StoredManifest | Outline, successor: StoredManifest | Outline) -> None:
    if stored.hash != successor.manifest.predecessor:
        epoch, after = stored.manifest, successor.manifest
        raise DamagedManifestError(
            f"Epoch {epoch.epoch} of generation {epoch.generation} of job {epoch.job!r} is not the one that epoch "
            f"{after.epoch} of generation {after.generation} goes on from.",
            action="Choose another epoch, checkpoint or savepoint; retention removes what a late driver left.",
        )


__all__ = [
    "SinkMove",
    "birth_transaction_id",
    "outputs_of",
    "since",
    "transaction_id",
    "transaction_place",
    "transaction_version",
]
