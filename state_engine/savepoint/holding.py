"""Keeps the source of a restore and its copies from retention, until the log shows that the job goes on from them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from state_engine.checkpoint.kept import ensure_files_kept
from state_engine.checkpoint.leases import HeldLease, files_kept, leased, leased_folder
from state_engine.clock import Clock, Ids
from state_engine.epoch.request import StartRequest
from state_engine.log.paths import RESTORED, manifest_path
from state_engine.log.records import Adopted
from state_engine.log.retention_records import FreeNumber
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import read_base


class RestoreHold:
    """The `SourceHold` of one start.

    Args:
        root: Of the storage.
        job: The job that starts.
        leases: On the source and on the copies; empty for a start that restores nothing by name.
    """

    def __init__(self, root: str, job: str, leases: Sequence[HeldLease]) -> None:
        self._job, self._leases = job, leases
        self._storage = open_storage(root, job)

    def renew(self) -> None:
        """Renews the leases that are due. Long work calls it between two of its steps."""
        for lease in self._leases:
            lease.renew()

    def until(self, adopted: Adopted | None, generation: int, epoch: int) -> None:
        number = FreeNumber(job=self._job, generation=generation, epoch=epoch)
        for lease in self._leases:
            lease.until(number)
        if adopted is not None:
            files = [file.path for file in read_base(self._storage, adopted.base).files if file.inlined is None]
            ensure_files_kept(self._storage, {adopted.manifest_path, adopted.base.path, *files}, "The restore")


@contextmanager
def kept_for_start(
    request: StartRequest, log: ManifestLog | None = None, *, clock: Clock | None = None, ids: Ids | None = None
) -> Iterator[RestoreHold]:
    """Keeps retention away from what a start restores and copies, until the log itself shows that the job needs it.

    The block contains `adopt_for` and the start; both get the hold.

    Args:
        request: The request of the start.
        log: The job's log; if given, each manifest of the way back is read once.
        clock: Time; that of this machine by default.
        ids: New names; random ones by default.

    Raises:
        CondemnedError, MissingFileError: Retention is removing the source, or has removed it.
    """
    restore, leases = request.restore, []
    with ExitStack() as stack:
        if restore is not None:
            copies = leased_folder(request.root, request.job, RESTORED, "restore", clock=clock, ids=ids)
            leases.append(stack.enter_context(copies))
        if restore is not None and not restore.imported and restore.location is None:
            way = restore.stored.manifest.job == request.job and not request.keep_output
            log_of_source = log if restore.stored.manifest.job == request.job else None
            source = leased(request.root, restore.stored, "restore", clock=clock, ids=ids, way=way, log=log_of_source)
            leases.append(stack.enter_context(source))
        elif restore is not None and not restore.imported:  # its state is copied, but the log must lead to its epoch
            place = restore.stored.manifest
            storage, led = open_storage(request.root, place.job), [manifest_path(place.generation, place.epoch)]
            leases.append(stack.enter_context(files_kept(storage, restore.stored, led, "restore", clock, ids)))
        yield RestoreHold(request.root, request.job, leases)


__all__ = ["RestoreHold", "kept_for_start"]
