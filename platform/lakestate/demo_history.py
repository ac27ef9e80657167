"""Counts a job's epochs, records and restores, from its sealed manifests alone."""

from pathlib import Path
from typing import NamedTuple

from state_engine.log.lineage import contains
from state_engine.log.records import Manifest
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage


class History(NamedTuple):
    """Counts over all generations; `records_in` only over the lineage of the newest epoch.

    Attributes:
        records_in: Records that the first operator read in epochs of that lineage.
        epochs: Sealed epochs with data, including those that a restore discarded.
        restores: Starts that continued from an epoch sealed earlier.
        parallelism: Of the first operator: its first value, and each one that it changed to.
    """

    records_in: int
    epochs: int
    restores: int
    parallelism: list[int]


def read_history(root: Path, job: str, first_operator: str) -> History:
    """Reads the manifests of all generations."""
    log = ManifestLog(open_storage(str(root), job), job)
    epochs = [(generation, epoch) for generation in log.generations() for epoch in log.epochs(generation)]
    return summarise([log.read(generation, epoch).manifest for generation, epoch in epochs], first_operator)


def summarise(manifests: list[Manifest], first_operator: str) -> History:
    """Counts over manifests, given in the order of generation and epoch."""
    incarnations = {manifest.incarnation for manifest in manifests}
    began_empty = {manifest.incarnation for manifest in manifests if not manifest.predecessor}
    parallelism: list[int] = []
    records = 0
    lineage = manifests[-1].lineage if manifests else ()
    for manifest in manifests:
        operator = manifest.operators.get(first_operator)
        if manifest.kind != "epoch" or operator is None:
            continue
        if not parallelism or parallelism[-1] != operator.parallelism:
            parallelism.append(operator.parallelism)
        if contains(lineage, manifest.generation, manifest.epoch):
            records += sum(ack.records_in for ack in operator.acks)
    epochs = sum(manifest.kind == "epoch" for manifest in manifests)
    return History(records, epochs, len(incarnations - began_empty), parallelism)


__all__ = ["History", "read_history", "summarise"]
