"""One sink in a system with transactions: each epoch once, whichever driver commits, and whatever a commit answers.

The system keeps a marker, which is replaced in the transaction that writes an epoch's rows. All decisions are made on
the marker that was read, and the transaction takes effect only if the system still has that marker. So a commit without
an answer is decided by the marker, and a driver that was declared dead changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from state_engine.api.sinks import SinkConnection, SinkMarker
from state_engine.causes import cause_line, chained, sentence, shows_records
from state_engine.epoch import look
from state_engine.epoch.ports import Log, TableFence
from state_engine.epoch.sink_moves import outputs_of, since, transaction_version
from state_engine.epoch.sink_names import described, same, table_of
from state_engine.errors import (
    CorruptionError,
    DamagedFileError,
    FencedError,
    LakestateError,
    MissingFileError,
    NotFoundError,
    SinkAheadError,
    SinkError,
    SinkRewindError,
    StorageError,
)
from state_engine.log.birth import birth_number
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import OutputFile, SinkTable

if TYPE_CHECKING:
    import pyarrow as pa

_CONFLICTS = 10

Rows = Callable[[Sequence[OutputFile]], "Iterable[pa.RecordBatch]"]


class MarkedSink:
    """A sink and the system that keeps its marker.

    Args:
        job: The job's name.
        sink: The sink, as manifests record it.
        connect: Connects to the system.
        log: The job's log.
        rows: Returns the rows of staged files, and can do so repeatedly. It raises MissingFileError or DamagedFileError
            while they are read.
    """

    def __init__(self, job: str, sink: SinkTable, connect: Callable[[], SinkConnection], log: Log, rows: Rows) -> None:
        self._job = job
        self._sink = sink
        self._uid = sink.uid
        self._place = described(sink)
        self._connect = connect
        self._log = log
        self._rows = rows
        self._connection: SinkConnection | None = None
        self._newest: SinkMarker | None = None

    def check(self) -> None:
        """Checks whether the system can take the output; changes nothing. Raises SinkError if it cannot."""
        with self._connected("check") as connection:
            connection.check()

    def standing(self) -> TableFence:
        """Returns the marker of the system; raises SinkError if the system cannot be asked."""
        marker = self._marker()
        if marker is None:
            return TableFence(uid=self._uid, table=self._place, sink=self._sink)
        fence, birth = _version(marker), marker.log
        return TableFence(uid=self._uid, table=self._place, fence=fence, birth=birth, sink=self._sink)

    def create(self) -> None:
        """Creates what the system lacks, and its first marker. Raises SinkError if that is unknown; idempotent."""
        with self._connected("prepare") as connection:
            connection.prepare()
            if connection.marker() is None:
                connection.commit((), None, self._at(0, 0))

    def commit(self, generation: int, epoch: int, files: Sequence[OutputFile], *, verify: bool = False) -> None:
        """Writes an epoch's rows once; does nothing if the system has the epoch, or was fenced against it.

        Args:
            generation: Of the epoch.
            epoch: The epoch.
            files: What it staged.
            verify: Whether another driver staged it. The bytes are compared with their checksums in any case.

        Raises:
            FencedError: The connection was lost, and by now another driver owns the job.
            SinkAheadError: Another log has written to the system meanwhile.
            SinkError: The rows were not written, or that is unknown; calling again is safe.
            MissingFileError, DamagedFileError: A staged file is gone, or is not what was staged.
        """
        if self._connection is None and not verify:
            self._refuse_if_overtaken(generation, epoch)
        self._replace(generation, epoch, lambda: self._rows(files))

    def leave_out(self, generation: int, epoch: int) -> None:
        """Counts an epoch with missing or damaged files as committed."""
        self._replace(generation, epoch, lambda: ())

    def adopt(self, generation: int, owed: Sequence[OutputFile] = (), at: tuple[int, int] = (0, 0)) -> None:
        """Makes the system this log's, from a generation above its marker on; the rows stay.

        Args:
            generation: Of the log; the system has seen none of its numbers.
            owed: What an epoch staged. It is written if the marker is of another log, missing or older: that system
                has refused this output, or lost it.
            at: Generation and number of that epoch.
        """
        wanted = self._at(generation, 0)
        for _ in self._tries():
            before = self._marker()
            if before is not None and before.log == wanted.log and _version(before) >= _version(wanted):
                return
            lacks = before is None or before.log != wanted.log or _version(before) < transaction_version(*at)
            with self._connected("write to") as connection:
                if connection.commit(self._rows(owed) if lacks and owed else (), before, wanted):
                    return

    def check_owed(self, generation: int, epoch: int, files: Sequence[OutputFile]) -> None:
        """Checks whether `commit` can give the system an epoch that it lacks; changes nothing.

        Raises:
            MissingFileError, DamagedFileError: A staged file is gone, or is not what was staged.
        """
        if not self.holds(generation, epoch):
            for _ in self._rows(files):
                pass

    def holds(self, generation: int, epoch: int) -> bool | None:
        """Returns whether the system has an epoch, or was fenced against it; None if its marker is of another log."""
        marker, birth = self._marker(), self._log.birth()
        if marker is None:
            return False
        if birth is not None and marker.log != birth_number(birth):
            return None
        return _version(marker) >= transaction_version(generation, epoch)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        """Raises SinkRewindError if output would have to be taken back or given again: a system keeps what it has."""
        if self.holds(generation, 0):
            return  # an earlier start moved the marker there, and died before it moved the next sink
        head = look.newest(self._log)
        if head is None or target.manifest.job != self._job:
            return
        moved = (*since(self._log, head, target), *since(self._log, target, head))
        if any(outputs_of(manifest, self._uid) for manifest in moved):
            raise SinkRewindError(
                f"Sink {self._uid!r} of job {self._job!r} cannot retract the rows that {self._place} got after epoch "
                f"{target.manifest.epoch}.",
                action="Restore with keep_output=True: the rows stay, and the input after the restored epoch is read "
                "again.",
            )

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        """Moves the marker to a new generation; the system keeps its rows, and is told which were abandoned.

        Does nothing if the marker is at that generation.

        Args:
            target: What is restored.
            generation: The generation that the restore begins.
            keep_output: Whether rows may be abandoned; without it `check_rewind` has found none.

        Raises:
            SinkAheadError, SinkError: As `commit`.
        """
        self._replace(generation, 0, lambda: self._abandoned(target), rewinds=True)

    def _abandoned(self, target: StoredManifest) -> "Iterator[pa.RecordBatch]":
        """Yields what is still known of the rows that a restore abandons: a restore must not fail for lack of it."""
        head = look.newest(self._log)
        if head is None or target.manifest.job != self._job:
            return
        try:
            left = since(self._log, head, target)
        except (NotFoundError, CorruptionError):  # retention has removed manifests, or the target is from elsewhere
            return
        for manifest in left:
            sink = table_of(manifest, self._uid)
            if sink is None or not same(sink, self._sink):
                continue
            for file in outputs_of(manifest, self._uid):
                with suppress(MissingFileError, DamagedFileError):
                    yield from self._rows([file])

    def close(self) -> None:
        """Closes the connection, if there is one; the next call opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _replace(
        self, generation: int, epoch: int, rows: "Callable[[], Iterable[pa.RecordBatch]]", *, rewinds: bool = False
    ) -> None:
        after = self._at(generation, epoch)
        for _ in self._tries():
            before = self._marker()
            self._refuse_unknown(before, after)
            if before is not None and _version(before) >= _version(after):
                return
            with self._connected("write to") as connection:
                replace = connection.rewind if rewinds else connection.commit
                if replace(rows(), before, after):
                    self._newest = after
                    return

    def _refuse_if_overtaken(self, generation: int, epoch: int) -> None:
        """Asks the log before a new connection is made.

        Kafka fences by who came last, and not by generation: two drivers that connect again and again would fence each
        other for ever.
        """
        newest = look.newest(self._log)
        if newest is not None and (newest.manifest.generation, newest.manifest.epoch) != (generation, epoch):
            raise FencedError(
                f"Another driver of job {self._job!r} has taken over after epoch {epoch} of generation {generation}.",
                action="Nothing; it goes on with the job.",
            )

    def _tries(self) -> Iterator[int]:
        """Yields the numbers of tries; raises StorageError after too many: each time another driver was first."""
        yield from range(_CONFLICTS)
        raise StorageError(
            f"{_CONFLICTS} commits of sink {self._uid!r} of job {self._job!r} to {self._place} were refused, because "
            "each time another driver had replaced the marker.",
            action="Find out which other program runs this job; the next start tries the commit again.",
        )

    def _refuse_unknown(self, marker: SinkMarker | None, mine: SinkMarker) -> None:
        if marker is None:
            raise SinkAheadError(
                f"Sink {self._uid!r} of job {self._job!r}: {self._place} has lost the marker of this sink, so it is "
                "unknown which rows it has.",
                action="Bring the marker back from a backup of the system. Or start once with adopt_sinks=True "
                "(--adopt-sinks): the job then goes on, and what the system lacks stays out.",
            )
        if marker.log != mine.log:
            raise SinkAheadError(
                f"Sink {self._uid!r}: {self._place} has output of another job that is also called {self._job!r}, or of "
                "this job from before its log began anew.",
                action="Give one of them another name or another place. If the other one is gone for good, start once "
                "with adopt_sinks=True (--adopt-sinks): the rows then stay.",
            )

    def _at(self, generation: int, epoch: int) -> SinkMarker:
        birth = self._log.birth()
        assert birth is not None, "a start gives the log a birth id before it prepares sinks"
        return SinkMarker(birth_number(birth), generation, epoch)

    def _marker(self) -> SinkMarker | None:
        """Returns the marker; it never goes back, unless the system has lost commits that it had confirmed."""
        with self._connected("ask") as connection:
            marker, newest = connection.marker(), self._newest
        if (
            marker is not None
            and newest is not None
            and marker.log == newest.log
            and _version(marker) < _version(newest)
        ):
            raise SinkAheadError(
                f"Sink {self._uid!r} of job {self._job!r}: {self._place} has gone back from epoch {newest.epoch} to "
                f"epoch {marker.epoch} of generation {marker.generation}: it has lost rows that it had confirmed.",
                action="If it comes from a backup, restore the job to that epoch with keep_output=True. Or start once "
                "with adopt_sinks=True (--adopt-sinks): the job goes on without these rows.",
            )
        self._newest = marker or newest
        return marker

    @contextmanager
    def _connected(self, doing: str) -> Iterator[SinkConnection]:
        """Lends the connection; after an error it is closed, since its state is unknown.

        Raises:
            SinkError: With the cause, for errors that are not ours.
        """
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except LakestateError:
            self.close()
            raise
        except Exception as error:
            self.close()
            cause = cause_line(error) if shows_records() else type(error).__name__  # its message may have rows
            raise SinkError(
                sentence(f"Sink {self._uid!r} of job {self._job!r} cannot {doing} {self._place}: {cause}"),
                action="Look at what it says. Nothing is lost: output stays staged until the sink has it, and the next "
                "start tries again.",
            ) from chained(error)
        except BaseException:
            self.close()
            raise


def _version(marker: SinkMarker) -> int:
    return transaction_version(marker.generation, marker.epoch)


__all__ = ["MarkedSink", "Rows"]
