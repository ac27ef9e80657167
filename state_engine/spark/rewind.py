"""Taking a Delta sink from one point of a job's history to another, when a restore goes there.

The two points have a last epoch in common. Output of the epochs behind it is removed on the side that is left, and
added again on the side that is entered (a restore into a generation that was itself abandoned).
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from state_engine.errors import NotFoundError, SinkRewindError
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OutputFile
from state_engine.storage import delta
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import open_root


class SinkMove(NamedTuple):
    """What has to happen to one table: files to remove, files to add."""

    removed: tuple[OutputFile, ...]
    added: tuple[OutputFile, ...]


def move(log: ManifestLog, job: str, sink: str, path: str, head: StoredManifest, target: StoredManifest) -> SinkMove:
    """Compares what a sink holds at `head` with what it held at `target`.

    Args:
        log: The job's log.
        job: Its name.
        sink: The sink's uid.
        path: Root of its table.
        head: The newest sealed manifest of the job.
        target: What is restored.
    """
    live = _live(path)
    left = [o for m in since(log, head, target) for o in _committed(m, sink, path, job, live)]
    entered = [o for m in since(log, target, head) for o in outputs_of(m, sink)]
    return SinkMove(tuple(left), tuple(o for o in entered if o.path not in live))


def check(move_: SinkMove, sink: str, path: str) -> None:
    """Raises SinkRewindError if files that have to be removed, or added again, are not there any more."""
    live = _live(path)
    gone = [o.path for o in move_.removed if o.path not in live]
    if gone:
        raise SinkRewindError(
            f"{len(gone)} files that sink {sink!r} wrote behind the restored epoch are no longer part of {path}: "
            f"somebody compacted or changed the table. The first is {gone[0]}.",
            action="Take the table back by hand (RESTORE TABLE), or keep what is there with keep_output=True.",
        )
    if not move_.added:
        return
    table = open_root(path)
    lost = [o.path for o in move_.added if not table.exists(o.path)]
    if lost:
        raise SinkRewindError(
            f"{len(lost)} files that sink {sink!r} had at the restored epoch are deleted from {path}: somebody ran "
            f"VACUUM on the table. The first is {lost[0]}.",
            action="Bring them back from a backup, or restore with keep_output=True and keep what is there.",
        )


def transaction_id(job: str, sink: str) -> str:
    """Returns the id under which a job commits to a sink's table."""
    return f"lakestate/{job}/{sink}"


def transaction_version(generation: int, epoch: int) -> int:
    """Returns the version of an epoch's commit.

    It grows over generations, so that a driver of an old one, declared dead and still on its way, finds itself behind.
    """
    return generation << 40 | epoch


def fence(path: str, job: str, sink: str) -> int:
    """Returns the version that a table has of a sink: the newest commit, or the newest rewind; 0 if there is none."""
    return delta.transaction_version(path, transaction_id(job, sink)) or 0


def outputs_of(manifest: Manifest, sink: str) -> list[OutputFile]:
    """Returns what an epoch staged for a sink."""
    return [o for op in manifest.operators.values() for ack in op.acks for o in ack.outputs if o.output == sink]


def _live(path: str) -> set[str]:
    """Files of a table; none where the table is still to be made."""
    try:
        return set(delta.live_files(path))
    except NotFoundError:
        return set()


def _committed(manifest: Manifest, sink: str, path: str, job: str, live: set[str]) -> list[OutputFile]:
    """Output of an epoch that the table got. The newest epoch may have been sealed and not yet committed."""
    outputs = outputs_of(manifest, sink)
    if not outputs or any(o.path in live for o in outputs):
        return outputs
    committed = fence(path, job, sink) >= transaction_version(manifest.generation, manifest.epoch)
    return outputs if committed else []


def since(log: ManifestLog, head: StoredManifest, other: StoredManifest) -> Sequence[Manifest]:
    """Manifests of `head`'s line behind the last epoch that it shares with the line of `other`, oldest first."""
    lineage, last = other.manifest.lineage, other.manifest.epoch
    found: list[Manifest] = []
    current = head
    while True:
        manifest = current.manifest
        if manifest.epoch <= last and contains(lineage, manifest.generation, manifest.epoch):
            return found[::-1]
        found.append(replace(manifest, inlined={}))  # it is asked for its outputs, and there may be many
        place = predecessor_of(manifest)
        if place is None or place.job != manifest.job:
            return found[::-1]
        current = log.read(place.generation, place.epoch)


__all__ = ["SinkMove", "check", "fence", "move", "outputs_of", "since", "transaction_id", "transaction_version"]
