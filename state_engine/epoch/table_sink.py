"""One exactly-once sink of a job: the fence of its table, its commits, and the way of a restore.

The table's log keeps the fence: the last transaction of the application that is this job and this sink
(docs/adr/0002-sink-fence.md).
"""

from collections.abc import Callable, Sequence

from state_engine.epoch import look
from state_engine.epoch.ports import Log
from state_engine.epoch.sink_moves import (
    SinkMove,
    outputs_of,
    since,
    transaction_id,
    transaction_version,
)
from state_engine.errors import MissingFileError, NotFoundError, SinkError, SinkRewindError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OutputFile
from state_engine.storage.table_log import Commit, DeltaFile, OutputTable, TableVersion, commit_once


def fence(table: OutputTable, job: str, sink: str) -> int:
    """Returns the last transaction that a table has of a sink; 0 if there is none, or no table."""
    try:
        return table.open().transaction_version(transaction_id(job, sink)) or 0
    except NotFoundError:
        return 0


class TableSink:
    """A sink and its table.

    Args:
        job: The job's name.
        uid: The sink's uid.
        table: Its table.
        log: The job's log.
        now_ms: The present, in ms since the epoch.
    """

    def __init__(self, job: str, uid: str, table: OutputTable, log: Log, now_ms: Callable[[], int]) -> None:
        self._job = job
        self._uid = uid
        self._table = table
        self._log = log
        self._now_ms = now_ms
        self._app_id = transaction_id(job, uid)

    def check(self) -> None:
        """Looks at the table if it is there, and writes nothing.

        Raises:
            SinkError: It has other columns than the output, or asks more of its writers than adding finished files
                gives (partitions, constraints, column mapping, …).
        """
        path = self._table.path
        if other := self._table.other_columns():
            raise SinkError(
                f"Sink {self._uid!r} of job {self._job!r} does not fit the Delta table {path}: "
                f"column {'; column '.join(other)}.",
                action="Give the sink another path, or change the table so that it has the columns of the output.",
            )
        if found := self._table.obstacles():
            raise SinkError(
                f"Sink {self._uid!r} of job {self._job!r} cannot write to the Delta table {path}: "
                f"{'; '.join(obstacle.what for obstacle in found)}.",
                action=f"Give the sink another path, or: {'; '.join(obstacle.remedy for obstacle in found)}.",
            )

    def create(self) -> None:
        """Creates the table unless there is one; raises StorageError as `OutputTable.create`."""
        self._table.create()

    def commit(self, generation: int, epoch: int, files: Sequence[OutputFile]) -> None:
        """Adds an epoch's files once; does nothing if the table has the epoch, or has been fenced against it.

        Raises:
            MissingFileError, DamagedFileError: A file to add is gone, or has another length.
            StorageError: Nobody knows whether it was committed; calling again is safe.
        """
        added = self._added(files)
        self._table.check_files(added)
        version = transaction_version(generation, epoch)
        wanted = Commit(self._app_id, version, added=added, info=self._info(generation, epoch))
        commit_once(self._table.path, self._table.open, self._app_id, version, lambda table: table.commit(wanted))

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        """Says whether `rewind` can succeed; changes nothing.

        Raises:
            SinkRewindError: A file that has to be removed is no longer part of the table, or one that has to be added
                again is deleted.
        """
        if fence(self._table, self._job, self._uid) >= transaction_version(generation, 0):
            return  # an earlier start took it there, and died on the way to the next sink
        self._check_move(self._move(target))

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        """Takes away what is abandoned, brings back what the target stands on, and moves the fence: one transaction.

        Does nothing if the fence is at the new generation. The transaction is made even if no file has to move.

        Args:
            target: What is restored.
            generation: The generation that the restore begins.
            keep_output: Whether all files stay, and only the fence moves.

        Raises:
            SinkRewindError: As `check_rewind`.
            StorageError: Nobody knows whether it was committed; calling again is safe.
        """
        move = SinkMove() if keep_output else self._move(target)
        removed, added = [output.path for output in move.removed], self._added(move.added)
        try:
            self._table.check_files(added)
        except MissingFileError as error:
            raise SinkRewindError(error.message, action=error.action) from error
        version = transaction_version(generation, 0)
        info = self._info(generation, target.manifest.epoch)
        wanted = Commit(self._app_id, version, removed, added, self._now_ms(), info)

        def commit(table: TableVersion) -> None:
            gone = sorted(set(removed) - set(table.files()))
            if gone:
                raise SinkRewindError(
                    f"{len(gone)} of {len(removed)} files are no longer part of {self._table.path}, the first is "
                    f"{gone[0]}.",
                    action="Somebody compacted or changed the table; keep what it holds, or rewrite it by hand.",
                )
            table.commit(wanted)

        commit_once(self._table.path, self._table.open, self._app_id, version, commit)

    def _move(self, target: StoredManifest) -> SinkMove:
        """Compares what the sink holds at the newest epoch with what it held at the target."""
        head = look.newest(self._log)
        if head is None or target.manifest.job != self._job:
            return SinkMove()
        files = self._files()
        left = [o for m in since(self._log, head, target) for o in self._committed(m, files)]
        entered = [o for m in since(self._log, target, head) for o in outputs_of(m, self._uid)]
        return SinkMove(tuple(left), tuple(o for o in entered if o.path not in files))

    def _committed(self, manifest: Manifest, files: set[str]) -> list[OutputFile]:
        """Returns the output of an epoch that the table got: the newest epoch may be sealed and not yet committed."""
        outputs = outputs_of(manifest, self._uid)
        if not outputs or any(o.path in files for o in outputs):
            return outputs
        version = transaction_version(manifest.generation, manifest.epoch)
        return outputs if fence(self._table, self._job, self._uid) >= version else []

    def _check_move(self, move: SinkMove) -> None:
        files, path = self._files(), self._table.path
        gone = [o.path for o in move.removed if o.path not in files]
        if gone:
            raise SinkRewindError(
                f"{len(gone)} files that sink {self._uid!r} wrote behind the restored epoch are no longer part of "
                f"{path}: somebody compacted or changed the table. The first is {gone[0]}.",
                action="Take the table back by hand (RESTORE TABLE), or keep what is there with keep_output=True.",
            )
        lost = [o.path for o in move.added if not self._table.exists(o.path)]
        if lost:
            raise SinkRewindError(
                f"{len(lost)} files that sink {self._uid!r} had at the restored epoch are deleted from {path}: "
                f"somebody ran VACUUM on the table. The first is {lost[0]}.",
                action="Bring them back from a backup, or restore with keep_output=True and keep what is there.",
            )

    def _files(self) -> set[str]:
        try:
            return set(self._table.open().files())
        except NotFoundError:  # the table is still to be made
            return set()

    def _added(self, files: Sequence[OutputFile]) -> list[DeltaFile]:
        return [DeltaFile(f.path, f.length, f.rows, f.statistics, self._now_ms()) for f in files]

    def _info(self, generation: int, epoch: int) -> dict[str, str]:
        return {
            "lakestate.job": self._job,
            "lakestate.sink": self._uid,
            "lakestate.generation": str(generation),
            "lakestate.epoch": str(epoch),
        }


__all__ = ["TableSink", "fence"]
