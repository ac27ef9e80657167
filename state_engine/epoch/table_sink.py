"""One exactly-once sink of a job: the fence of its table, its commits, and its rewind by a restore.

The table's log keeps the fence: the last transaction of the application that is this job and this sink
(docs/adr/0002-sink-fence.md). Each commit is decided on the version of the table on which it is made: which files that
version has, where its fence is, whether it still takes the output. If another writer was first, it is decided again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from state_engine.epoch import look
from state_engine.epoch.ports import Log, TableFence
from state_engine.epoch.sink_moves import (
    SinkMove,
    birth_transaction_id,
    outputs_of,
    since,
    transaction_id,
    transaction_version,
)
from state_engine.errors import NotFoundError, SinkAheadError, SinkError, SinkRewindError
from state_engine.log.birth import birth_number
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OutputFile
from state_engine.storage.table_log import Commit, DeltaFile, OutputTable, TableHead, TableVersion, commit_once


def standing(table: OutputTable, job: str, sink: str) -> TableFence:
    """Returns how far the table of a sink is, and which log has written to it."""
    named = f"the Delta table {table.path}"
    try:
        version = table.open()
    except NotFoundError:
        return TableFence(uid=sink, table=named)
    birth = version.transaction_version(birth_transaction_id(job, sink))
    return TableFence(uid=sink, table=named, fence=_fence(version, transaction_id(job, sink)), birth=birth)


def _fence(table: TableVersion, app_id: str) -> int:
    return table.transaction_version(app_id) or 0


class Way(NamedTuple):
    """Epochs between the newest and a restored one. Output of the left ones goes; that of the entered comes back."""

    left: Sequence[Manifest] = ()
    entered: Sequence[Manifest] = ()


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
        self._birth_app_id = birth_transaction_id(job, uid)

    def check(self) -> None:
        """Checks the table if it exists, and writes nothing.

        Raises:
            SinkError: It has other columns than the output, or requires more of its writers than adding finished files
                can give (other partitions, constraints, column mapping, …).
        """
        if (table := self._opened()) is not None:
            self._check_fits(table)

    def standing(self) -> TableFence:
        """Returns how far the table is, and which log has written to it."""
        return standing(self._table, self._job, self._uid)

    def adopt(self, generation: int, owed: Sequence[OutputFile] = (), at: tuple[int, int] = (0, 0)) -> None:
        """Moves the fence to a generation above it and records the log's birth id; what the table holds stays.

        A table of another log has refused the output that this log owes it, so that output is added. A table that is
        ahead of its own log has it already.

        Args:
            generation: Of the log; the table has seen none of its numbers.
            owed: What an epoch staged that may not be in the table.
            at: Generation and number of that epoch; the table itself shows whether it has the files.

        Raises:
            SinkError: Files have to be added, and the table's owner has changed it, as in `check`.
            MissingFileError, DamagedFileError: A file to add is gone, or is not what was staged.
            StorageError: It is unknown whether the transaction was committed; calling again is safe.
        """
        fenced = self._transaction(generation, 0)
        mine = fenced.marks.get(self._birth_app_id)
        verify = self._once(owed)

        def commit(table: TableVersion) -> None:
            files = set(table.files())
            stranger = table.transaction_version(self._birth_app_id) not in (None, mine)
            lacks = stranger and not any(file.path in files for file in owed)
            if lacks and owed:
                self._check_fits(table)
                self._table.check_files(self._added(owed))
                verify()
            table.commit(fenced._replace(added=self._added(owed) if lacks else ()))

        commit_once(self._table.path, self._table.open, self._app_id, fenced.version, commit)

    def _once(self, files: Sequence[OutputFile]) -> Callable[[], None]:
        """Returns a function that compares files with their checksums when it is first called: they never change."""
        verified: list[bool] = []

        def verify() -> None:
            if not verified:
                self._table.verify(files)
                verified.append(True)

        return verify

    def create(self) -> None:
        """Creates the table unless it exists; raises StorageError as `OutputTable.create`."""
        self._table.create()

    def commit(self, generation: int, epoch: int, files: Sequence[OutputFile], *, verify: bool = False) -> None:
        """Adds an epoch's files once; does nothing if the table has the epoch, or has been fenced against it.

        Args:
            generation: Of the epoch.
            epoch: The epoch.
            files: What it staged.
            verify: Whether another driver staged it, so that its bytes are compared with their checksums.

        Raises:
            SinkAheadError: Another log has written to the table meanwhile.
            SinkError: The table's owner has changed it, so that it does not take the output, as in `check`.
            MissingFileError, DamagedFileError: A file to add is gone, or is not what was staged.
            StorageError: It is unknown whether the epoch was committed; calling again is safe.
        """
        wanted = self._transaction(generation, epoch, added=self._added(files))
        check = self._once(files)

        def commit(table: TableHead) -> None:
            self._check_fits(table)
            self._table.check_files(wanted.added)
            if verify:
                check()
            table.commit(wanted)

        commit_once(self._table.path, self._open_to_append, self._app_id, wanted.version, commit)

    def leave_out(self, generation: int, epoch: int) -> None:
        """Counts an epoch with missing or damaged files as committed, and records that for later restores.

        Raises:
            StorageError: It is unknown whether that was committed; calling again is safe.
        """
        wanted = self._transaction(generation, epoch)
        wanted = wanted._replace(marks={**wanted.marks, self._left_out_id(generation, epoch): 1})

        def commit(table: TableHead) -> None:
            table.commit(wanted)

        commit_once(self._table.path, self._open_to_append, self._app_id, wanted.version, commit)

    def check_owed(self, generation: int, epoch: int, files: Sequence[OutputFile]) -> None:
        """Checks whether `commit` can give the table an epoch that it lacks; changes nothing.

        Raises:
            MissingFileError, DamagedFileError: A file to add is gone, or is not what was staged.
        """
        table = self._opened()
        if table is None or _fence(table, self._app_id) < transaction_version(generation, epoch):
            self._table.verify(files)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        """Checks whether `rewind` can succeed; changes nothing.

        Raises:
            SinkRewindError: A file that has to be removed is no longer part of the table, or one that has to be added
                again is deleted.
            DamagedFileError: One that has to be added again is not what was staged.
        """
        table = self._opened()
        if table is not None and _fence(table, self._app_id) >= transaction_version(generation, 0):
            return  # an earlier start moved it there, and died before it moved the next sink
        self._move(self._way(target), table, set())

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        """Removes abandoned output, brings back output that the target builds on, and moves the fence: one transaction.

        Does nothing if the fence is at the new generation. The transaction is made even if no file has to move.

        Args:
            target: What is restored.
            generation: The generation that the restore begins.
            keep_output: Whether all files stay, and only the fence moves.

        Raises:
            SinkRewindError: As `check_rewind`.
            SinkError: Files have to move, and the table's owner has changed it, as in `check`.
            DamagedFileError: A file that has to be added again is not what was staged.
            StorageError: It is unknown whether the transaction was committed; calling again is safe.
        """
        fenced = self._transaction(generation, 0)
        info = {**fenced.info, "lakestate.epoch": str(target.manifest.epoch)}
        way = Way() if keep_output else self._way(target)
        verified: set[str] = set()

        def commit(table: TableVersion) -> None:
            move = self._move(way, table, verified)
            removed, added = [output.path for output in move.removed], self._added(move.added)
            if removed or added:
                self._check_fits(table)
                self._table.check_files(added)
            table.commit(fenced._replace(removed=removed, added=added, info=info))

        commit_once(self._table.path, self._open, self._app_id, fenced.version, commit)

    def _open(self) -> TableVersion:
        """Opens the table to write to it, unless another log has written to it."""
        table = self._table.open()
        self._refuse_stranger(table)
        return table

    def _open_to_append(self) -> TableHead:
        """The same to add files; the table is not loaded again after a commit of this sink."""
        table = self._table.open_to_append((self._app_id, self._birth_app_id))
        self._refuse_stranger(table)
        return table

    def _refuse_stranger(self, table: TableHead) -> None:
        birth = self._log.birth()
        if birth is not None and table.transaction_version(self._birth_app_id) not in (None, birth_number(birth)):
            raise SinkAheadError(
                f"The Delta table {self._table.path} has output of sink {self._uid!r} of another job that is also "
                f"called {self._job!r}, or of this job from before its log began anew.",
                action="Give one of them another name or another table. If the other one is gone for good, start once "
                "with adopt_sinks=True (--adopt-sinks): the table then keeps its rows.",
            )

    def _opened(self) -> TableVersion | None:
        try:
            return self._table.open()
        except NotFoundError:  # it is not created yet
            return None

    def _check_fits(self, table: TableHead) -> None:
        path = self._table.path
        if other := table.other_columns():
            raise SinkError(
                f"Sink {self._uid!r} of job {self._job!r} does not fit the Delta table {path}: "
                f"column {'; column '.join(other)}.",
                action="Give the sink another path, or change the table so that it has the columns of the output.",
            )
        if obstacles := table.obstacles():
            raise SinkError(
                f"Sink {self._uid!r} of job {self._job!r} cannot write to the Delta table {path}: "
                f"{'; '.join(obstacle.what for obstacle in obstacles)}.",
                action=f"Give the sink another path, or: {'; '.join(obstacle.remedy for obstacle in obstacles)}.",
            )

    def _way(self, target: StoredManifest) -> Way:
        """Compares the newest epoch with the target. After a closing manifest no driver adds to the abandoned line."""
        head = look.newest(self._log)
        if head is None or target.manifest.job != self._job:
            return Way()
        return Way(since(self._log, head, target), since(self._log, target, head))

    def _move(self, way: Way, table: TableVersion | None, verified: set[str]) -> SinkMove:
        """Returns what has to be moved in a version of the table; raises as `check_rewind`.

        Files that are not yet in `verified` are compared with their checksums, and then added to it.
        """
        files = set(table.files()) if table is not None else set()
        left = [o for manifest in way.left for o in self._committed(manifest, files, table)]
        entered = [o for manifest in way.entered for o in outputs_of(manifest, self._uid)]
        move = SinkMove(tuple(left), tuple(o for o in entered if o.path not in files))
        self._check_move(move, files)
        self._table.verify([o for o in move.added if o.path not in verified])
        verified.update(o.path for o in move.added)
        return move

    def _committed(self, manifest: Manifest, files: set[str], table: TableVersion | None) -> list[OutputFile]:
        """Returns the output of an epoch that the table got.

        The newest epoch may be sealed and not yet committed, and others may have been left out.
        """
        outputs = outputs_of(manifest, self._uid)
        if table is None or any(o.path in files for o in outputs):
            return outputs
        place = manifest.generation, manifest.epoch
        got = _fence(table, self._app_id) >= transaction_version(*place)
        return outputs if got and table.transaction_version(self._left_out_id(*place)) is None else []

    def _left_out_id(self, generation: int, epoch: int) -> str:
        return f"lakestate-left-out/{self._job}/{self._uid}/{transaction_version(generation, epoch)}"

    def _check_move(self, move: SinkMove, files: set[str]) -> None:
        path = self._table.path
        missing = [o.path for o in move.removed if o.path not in files]
        if missing:
            raise SinkRewindError(
                f"{len(missing)} files that sink {self._uid!r} wrote after the restored epoch are no longer part of "
                f"{path}: another writer compacted or changed the table. The first is {missing[0]}.",
                action="Restore the table by hand (RESTORE TABLE), or keep what it holds with keep_output=True.",
            )
        deleted = [o.path for o in move.added if not self._table.exists(o.path)]
        if deleted:
            raise SinkRewindError(
                f"{len(deleted)} files that sink {self._uid!r} had at the restored epoch are deleted from {path}: "
                f"VACUUM was run on the table. The first is {deleted[0]}.",
                action="Bring them back from a backup, or restore with keep_output=True, which keeps what the table "
                "holds.",
            )

    def _added(self, files: Sequence[OutputFile]) -> list[DeltaFile]:
        return [DeltaFile(f.path, f.length, f.rows, f.statistics, self._now_ms(), f.partition) for f in files]

    def _transaction(self, generation: int, epoch: int, added: Sequence[DeltaFile] = ()) -> Commit:
        birth = self._log.birth()
        return Commit(
            self._app_id,
            transaction_version(generation, epoch),
            added=added,
            now_ms=self._now_ms(),
            info={
                "lakestate.job": self._job,
                "lakestate.sink": self._uid,
                "lakestate.generation": str(generation),
                "lakestate.epoch": str(epoch),
            },
            marks={self._birth_app_id: birth_number(birth)} if birth is not None else {},
        )


__all__ = ["TableSink", "standing"]
