"""Folds the ranges of a canonical savepoint and writes their files: in this process, or in many.

A range of key groups is folded from the log alone, and the name of its file determines its content. So it does not
matter which process folds a range, in which order, or how often.
"""

from collections.abc import Sequence
from threading import BoundedSemaphore
from typing import NamedTuple, Protocol

from state_engine.checkpoint.fold_inputs import read_fold_inputs
from state_engine.checkpoint.fold_state import EncodedRange, WrittenRange, encode_range, put_range
from state_engine.checkpoint.plan import StatePlan
from state_engine.epoch.request import SavepointLocation
from state_engine.errors import DamagedManifestError
from state_engine.log.records import BaseReference
from state_engine.savepoint.few_at_once import cores, few_at_once
from state_engine.savepoint.source import open_location
from state_engine.serialization.column import Record
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, history_of


class WriteOrder(Record, frozen=True, kw_only=True):
    """All that another process needs to fold a state of a sealed epoch into a savepoint's folder.

    `manifest` is the hash of the epoch's manifest; the fold begins with `base`. `url` and `folder` name the savepoint's
    folder, as in `SavepointLocation`.
    """

    root: str
    job: str
    generation: int
    epoch: int
    manifest: str
    base: BaseReference | None
    url: str
    folder: str = ""


class Fold(NamedTuple):
    """An order that is ready in this process: with the storage for the files, and the history that is folded."""

    order: WriteOrder
    target: CheckpointStorage
    segments: Sequence[Segment]

    def write(self, plan: StatePlan, first: int, last: int) -> WrittenRange | None:
        """Folds one range of key groups, both inclusive, and writes its file; None when it has no rows."""
        encoded = self.encode(plan, first, last)
        return None if encoded is None else self.put(encoded)

    def encode(self, plan: StatePlan, first: int, last: int) -> EncodedRange | None:
        """Does the first half of `write`, which needs a core: folds and encodes the range."""
        return encode_range(plan, self.segments, self.order.generation, first, last)

    def put(self, encoded: EncodedRange) -> WrittenRange:
        """Does the second half of `write`, which waits for the disk: writes the file."""
        return put_range(self.target, encoded)


class RangeWriter(Protocol):
    """Writes the ranges of a state's plan."""

    def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
        """Returns what was written for the ranges that have rows, in the order of the plan.

        Raises:
            CorruptionError: A file that is folded is gone or damaged.
            StorageError: A file could not be written.
        """
        ...


class ProcessWriter:
    """Folds in this process, several ranges at a time: Arrow and NumPy release the GIL meanwhile.

    While the disk writes the file of a range, its core folds another one. So for each range that is being folded,
    memory may also hold the file of one more.

    Args:
        threads: Number of ranges that are folded at a time; by default one per core, at most `MOST_AT_ONCE`.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()

    def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
        folding = BoundedSemaphore(self._threads)

        def write(range_: tuple[int, int]) -> WrittenRange | None:
            with folding:
                encoded = fold.encode(plan, *range_)
            return None if encoded is None else fold.put(encoded)

        threads = 2 * self._threads if self._threads > 1 else 1
        with few_at_once(write, plan.ranges, threads) as results:  # no file may appear after the clean-up of an error
            return [written for written in results if written is not None]


def open_fold(order: WriteOrder) -> Fold:
    """Prepares the fold of an order in a process that has only the order.

    Raises:
        CorruptionError: The epoch, its base or a manifest between them is gone, damaged, or another than in the order.
    """

    def storage_of(job: str) -> CheckpointStorage:
        return open_storage(order.root, job)

    storage = storage_of(order.job)
    log = ManifestLog(storage, order.job, open_job=storage_of)
    head = log.read(order.generation, order.epoch)
    if head.hash != order.manifest:
        raise DamagedManifestError(
            f"Epoch {order.epoch} of generation {order.generation} of job {order.job!r} has the hash {head.hash}, "
            f"expected {order.manifest}.",
            action="Check that every process sees the same storage under this root.",
        )
    inputs = read_fold_inputs(storage, log, head, order.base)
    segments = history_of(inputs.base, order.job, inputs.manifests, storage_of)
    return Fold(order, open_location(SavepointLocation(url=order.url, folder=order.folder)), segments)


__all__ = ["Fold", "ProcessWriter", "RangeWriter", "WriteOrder", "open_fold"]
