"""Finds strays: files of sealed epochs that dead attempts and zombies left, and no manifest or checkpoint names."""

from collections.abc import Collection, Sequence

from state_engine.checkpoint.retention.decision import Names
from state_engine.checkpoint.retention.needs import History, changes_of, files_of_base, outputs_of
from state_engine.checkpoint.table import CheckpointRow
from state_engine.errors import NotFoundError
from state_engine.log.paths import parse_manifest_path


def read_names(history: History, objects: Collection[str], completed: Sequence[CheckpointRow]) -> Names:
    """Reads all listed manifests, and returns all files that they, their bases and completed checkpoints name.

    Args:
        history: Of the job.
        objects: Paths of a listing that is older than everything else that is read here. An epoch that was sealed
            after the listing is not known, and none of its files counts as a stray.
        completed: Rows of completed checkpoints.

    Raises:
        CorruptionError: A manifest or a base is damaged, so it is not known what it names.
    """
    files: set[str] = set()
    sealed: dict[int, int] = {}
    bases = {row.base for row in completed if row.base is not None and row.base_path in objects}
    for path in objects:
        if (place := parse_manifest_path(path)) is None:
            continue
        try:
            manifest = history.log.read(*place).manifest
        except NotFoundError:  # retention has just deleted it
            continue
        sealed[place[0]] = max(sealed.get(place[0], 0), place[1])
        files |= changes_of(manifest) | outputs_of(manifest)
        if manifest.base is not None:
            bases.add(manifest.base)
    for base in bases:
        files |= files_of_base(history, base)
    published: dict[int, int] = {}
    for row in completed:
        published[row.generation] = max(published.get(row.generation, 0), row.epoch)
    return Names(frozenset(files), sealed, published)


__all__ = ["read_names"]
