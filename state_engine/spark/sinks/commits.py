"""Implements the `Sinks` port for all sinks of a job's graph; `epoch/table_sink.py` decides what happens to a table."""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from state_engine.api.sinks import SinkName, TransactionalSink
from state_engine.causes import cause_line, records_shown, report_of, sentence
from state_engine.clock import SystemClock
from state_engine.connectors.known import opened
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest
from state_engine.epoch.marked_sink import MarkedSink
from state_engine.epoch.ports import TableFence
from state_engine.epoch.sink_identity import SinkIdentity
from state_engine.epoch.sink_moves import outputs_of, since, transaction_version
from state_engine.epoch.table_sink import TableSink, standing
from state_engine.errors import (
    DamagedFileError,
    LakestateError,
    MissingFileError,
    NotFoundError,
    SinkError,
    SinkRewindError,
)
from state_engine.log.birth import birth_number
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OutputFile, SinkTable
from state_engine.serialization.types import schema_of
from state_engine.spark.graph.nodes import OperatorNode, SinkNode, recorded
from state_engine.spark.graph.sinks import DeltaSink, EpochId, ForeachEpochSink, MemorySink
from state_engine.storage.background import Background
from state_engine.storage.delta_output import DeltaOutputTable
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.staged import StagedRows

MEND = "Fix the sink; the epoch is sealed and its output is committed again at the next start."

_log = logging.getLogger(__name__)


class _Giving(NamedTuple):
    """What is given to sinks: an epoch's output.

    Attributes:
        manifest: The epoch.
        action: What to do if a sink refuses it.
        commits: Whether the epoch is sealed, so that this is its commit (E7).
        verify: Whether another driver staged it, so that its bytes are compared with their checksums.
        leave_out: Whether output with missing or damaged files is left out by name, for good.
    """

    manifest: Manifest
    action: str
    commits: bool = False
    verify: bool = False
    leave_out: bool = False

    def staged(self) -> dict[str, list[OutputFile]]:
        """Returns the staged files by output."""
        staged: dict[str, list[OutputFile]] = {}
        for operator in self.manifest.operators.values():
            for ack in operator.acks:
                for file in ack.outputs:
                    staged.setdefault(file.output, []).append(file)
        return staged


class SinkCommits:
    """All sinks of one job.

    Args:
        job: The job's name.
        operators: The job's operators with their sinks.
        storage: Where output for other sinks than Delta is staged.
        log: The job's log.
        crash: Called after each sink that has committed.
        early: Whether functions get output before its epoch is sealed (`AT_LEAST_ONCE`).
        show_records: Whether messages of failures may hold records.
    """

    def __init__(
        self,
        job: str,
        operators: Sequence[OperatorNode],
        storage: CheckpointStorage,
        log: ManifestLog,
        crash: Callable[[CrashPoint, int], None],
        *,
        early: bool = False,
        show_records: bool = True,
    ) -> None:
        self._show_records = show_records
        self._job = job
        self._storage = storage
        self._log = log
        self._crash = crash
        self._early = early
        self._delivered: tuple[int, int] | None = None
        columns = [
            (sink, schema_of(node.output if sink.output == "main" else node.side_outputs[sink.output]))
            for node in operators
            for sink in node.sinks
        ]
        self._use(columns)

    def _use(
        self,
        sinks: Sequence[tuple[SinkNode, pa.Schema]],
        background: Background | None = None,
        tables: Sequence[SinkTable] | None = None,
    ) -> None:
        """Takes the sinks.

        Args:
            sinks: Each with the columns of its output.
            background: Where checkpoints of tables' logs are written.
            tables: The sinks as manifests record them, if that is known.
        """
        self._sinks = [node for node, _ in sinks]
        if tables is None:
            tables = [sink for node in self._sinks if (sink := recorded(node)) is not None]
        self._identity = SinkIdentity(self._job, tables, self._holds)
        self._exact: dict[str, TableSink | MarkedSink] = {}
        for node, schema in sinks:
            if isinstance(node.sink, DeltaSink):
                table = DeltaOutputTable(node.sink.path, schema, background, node.sink.partition_by)
                self._exact[node.uid] = TableSink(self._job, node.uid, table, self._log, SystemClock().now_ms)
            elif isinstance(node.sink, TransactionalSink):
                self._exact[node.uid] = self._marked(node.sink, recorded(node), schema if len(schema) else None)

    def _marked(self, sink: TransactionalSink, table: SinkTable | None, columns: pa.Schema | None) -> MarkedSink:
        assert table is not None
        connect = partial(sink.connect, SinkName(self._job, table.uid), columns)
        return MarkedSink(self._job, table, connect, self._log, partial(StagedRows, self._storage))

    @property
    def declared(self) -> tuple[SinkTable, ...]:
        """The sinks as manifests record them."""
        return self._identity.declared

    def check(self) -> None:
        """Checks the tables and systems of exactly-once sinks, and writes nothing.

        Raises:
            SinkError: A table has other columns than the output, or requires more of its writers than to add finished
                files (other partitions, constraints, column mapping, …); or a system cannot be reached, or cannot take
                it.
        """
        for sink in self._exact.values():
            sink.check()

    def close(self) -> None:
        for sink in self._exact.values():
            if isinstance(sink, MarkedSink):
                sink.close()

    def fences(self) -> list[TableFence]:
        return [sink.standing() for sink in self._exact.values()]

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None:
        for node in self._sinks:
            if node.uid not in uids or (sink := self._exact.get(node.uid)) is None:
                continue
            stands = owed is not None and self._identity.is_current(node.uid, owed.manifest)
            files = outputs_of(owed.manifest, node.uid) if owed is not None and stands else []
            at = (owed.manifest.generation, owed.manifest.epoch) if owed is not None else (0, 0)
            try:
                with records_shown(self._show_records):
                    sink.adopt(generation, files, at)
            except (MissingFileError, DamagedFileError) as error:
                assert owed is not None
                self._log_left_out(node, owed.manifest, error)
                sink.adopt(generation)

    def prepare(self) -> None:
        for sink in self._exact.values():
            sink.create()

    def deliver(self, manifest: Manifest) -> None:
        if not self._early:
            return
        functions = [node for node in self._sinks if isinstance(node.sink, ForeachEpochSink)]
        self._give(functions, _Giving(manifest, "The epoch is not sealed; the next start runs its records again."))
        self._delivered = (manifest.generation, manifest.epoch)

    def commit(self, sealed: StoredManifest) -> None:
        manifest = sealed.manifest
        delivered = self._delivered == (manifest.generation, manifest.epoch)
        sinks = [node for node in self._sinks if not (delivered and isinstance(node.sink, ForeachEpochSink))]
        self._give(sinks, _Giving(manifest, MEND, commits=True))

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None:
        sinks = [node for node in self._sinks if node.uid not in without]
        self._give(sinks, _Giving(sealed.manifest, MEND, commits=True, verify=True, leave_out=leave_out))

    def _give(self, sinks: Sequence[SinkNode], giving: "_Giving") -> None:
        """Gives an epoch's output to sinks: to exactly-once ones side by side, then to others one after the other."""
        staged, epoch = giving.staged(), self._id(giving.manifest)
        # Where a sink writes elsewhere now, S1 has refused that, or the start keeps output.
        due = [node for node in sinks if node.uid in staged and self._identity.is_current(node.uid, giving.manifest)]

        def take(node: SinkNode) -> None:
            self._take(node, epoch, staged[node.uid], giving)

        _side_by_side(take, [node for node in due if node.uid in self._exact])
        for node in due:
            if node.uid not in self._exact:
                take(node)

    def _take(self, node: SinkNode, epoch: EpochId, files: Sequence[OutputFile], giving: "_Giving") -> None:
        """Gives one sink its files, or leaves out what cannot be given; announces it when the sink has taken them."""
        manifest = giving.manifest
        try:
            with records_shown(self._show_records):
                self._commit_one(node, epoch, files, verify=giving.verify)
        except (MissingFileError, DamagedFileError) as error:
            if not giving.leave_out:
                raise
            self._log_left_out(node, manifest, error)
            if (exact := self._exact.get(node.uid)) is not None:
                exact.leave_out(manifest.generation, manifest.epoch)
            return
        except LakestateError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a user presses Ctrl-C during a start; a batch is on another thread
            refusal = self._refusal(node, manifest, files, error, giving.action)
            raise refusal from (error if self._show_records else None)
        if giving.commits:
            self._crash(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)

    def _refusal(
        self, node: SinkNode, manifest: Manifest, files: Sequence[OutputFile], error: BaseException, action: str
    ) -> SinkError:
        """Returns the error that a sink has not taken its output, with the last line of the traceback."""
        rows = self._staged(files) if not self._show_records and isinstance(node.sink, ForeachEpochSink) else None
        with records_shown(self._show_records):
            cause = cause_line(error, rows)
        return SinkError(
            sentence(f"Sink {node.uid!r} of job {self._job!r} did not take epoch {manifest.epoch}: {cause}"),
            action=action,
        )

    def _log_left_out(self, node: SinkNode, manifest: Manifest, error: LakestateError) -> None:
        _log.warning(
            "Sink %r of job %r goes without its output of epoch %d. %s",
            node.uid, self._job, manifest.epoch, error.message,
        )  # fmt: skip

    def _id(self, manifest: Manifest) -> EpochId:
        plain = EpochId(self._job, manifest.generation, manifest.epoch)
        if not self._early:
            return plain
        attempts = [ack.attempt for operator in manifest.operators.values() for ack in operator.acks]
        return plain._replace(previous_epoch=self._previous_epoch(manifest), attempt=attempts[0] if attempts else "")

    def _previous_epoch(self, manifest: Manifest) -> int:
        """Returns the last epoch before this one that brought output, or might have: claims and the like are skipped.

        An epoch that retention has removed had its output committed, and counts too.
        """
        while (place := predecessor_of(manifest)) is not None and place.job == self._job:
            try:
                previous = self._log.read(place.generation, place.epoch)
            except NotFoundError:
                return place.epoch
            if previous.hash != manifest.predecessor or previous.manifest.kind in ("epoch", "idle"):
                return place.epoch
            manifest = previous.manifest
        return 0

    def _commit_one(self, node: SinkNode, epoch: EpochId, files: Sequence[OutputFile], *, verify: bool) -> None:
        sink = node.sink
        if (exact := self._exact.get(node.uid)) is not None:
            exact.commit(epoch.generation, epoch.epoch, files, verify=verify)
        elif isinstance(sink, MemorySink):
            sink.put(epoch, self._staged(files))
        elif isinstance(sink, ForeachEpochSink):
            sink.function(epoch, self._staged(files))

    def _staged(self, files: Sequence[OutputFile]) -> pa.Table:
        return StagedRows(self._storage, files).table()

    def check_owed(self, sealed: StoredManifest) -> None:
        manifest = sealed.manifest
        self._identity.check_owed(sealed)
        for node in self._sinks:
            files = outputs_of(manifest, node.uid)
            if not files or not self._identity.is_current(node.uid, manifest):
                continue
            if (exact := self._exact.get(node.uid)) is not None:
                exact.check_owed(manifest.generation, manifest.epoch, files)
            elif not (isinstance(node.sink, MemorySink) and self._id(manifest) in node.sink.epochs):
                self._staged(files)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        head = newest(self._log)
        if head is None or target.manifest.job != self._job:
            return
        abandoned, entered = since(self._log, head, target), since(self._log, target, head)
        self._identity.check_moved(abandoned, entered, target.manifest, generation)
        for node in self._sinks:
            if (exact := self._exact.get(node.uid)) is not None:
                exact.check_rewind(target, generation)
            elif isinstance(node.sink, MemorySink):
                for _, files in self._entered(node, target):
                    self._staged(files)
            elif any(outputs_of(manifest, node.uid) for manifest in (*abandoned, *entered)):
                raise SinkRewindError(
                    f"Sink {node.uid!r} cannot retract what it got after epoch {target.manifest.epoch}.",
                    action="Restore with keep_output=True: it then gets those records again, under new epoch ids.",
                )

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        lineage, last = target.manifest.lineage, target.manifest.epoch

        def abandoned(epoch: EpochId) -> bool:
            return epoch.job == self._job and not (epoch.epoch <= last and contains(lineage, *epoch.place))

        for node in self._sinks:
            if isinstance(node.sink, MemorySink) and not keep_output:
                node.sink.remove(abandoned)
                for epoch, files in self._entered(node, target):
                    node.sink.put(epoch, self._staged(files))
            elif (exact := self._exact.get(node.uid)) is not None and target.manifest.job == self._job:
                with records_shown(self._show_records):
                    exact.rewind(target, generation, keep_output=keep_output)

    def _entered(self, node: SinkNode, target: StoredManifest) -> list[tuple[EpochId, list[OutputFile]]]:
        """Returns what an abandoned generation gave to a memory sink, if a restore enters that generation again."""
        head = newest(self._log)
        if head is None or target.manifest.job != self._job:
            return []
        entered = since(self._log, target, head)
        outputs = [(EpochId(self._job, m.generation, m.epoch), outputs_of(m, node.uid)) for m in entered]
        return [(epoch, files) for epoch, files in outputs if files]

    def _holds(self, sink: SinkTable, generation: int, epoch: int) -> bool | None:
        """Returns whether a sink, current or former, has got the output of an epoch; None if that cannot be known."""
        if sink.kind == "delta":
            table, birth = standing(DeltaOutputTable(sink.table), self._job, sink.uid), self._log.birth()
            if birth is not None and table.birth not in (None, birth_number(birth)):
                return None  # its fence is that of another log
            return table.fence >= transaction_version(generation, epoch)
        if sink.kind == "memory":
            return EpochId(self._job, generation, epoch) in MemorySink(sink.table).epochs
        return self._system_holds(sink, generation, epoch)

    def _system_holds(self, sink: SinkTable, generation: int, epoch: int) -> bool | None:
        """The same for a system with transactions, which may be that of a former sink."""
        system = opened(sink)
        if system is None or system.address != sink.table:
            return None
        with closing(self._marked(system, sink, None)) as marked:
            try:
                return marked.holds(generation, epoch)
            except LakestateError:  # it is gone, or out of reach
                return None


def _side_by_side(take: Callable[[SinkNode], None], nodes: Sequence[SinkNode]) -> None:
    """Calls a function for each sink, on a thread for each if there are several.

    Not by an executor: that starts no thread any more once the main thread has ended, although the job goes on.

    Raises:
        BaseException: What it raised first, in the order of the sinks, after all have ended; others are logged.
    """
    if len(nodes) < 2:
        for node in nodes:
            take(node)
        return
    errors: dict[str, BaseException] = {}

    def run(node: SinkNode) -> None:
        try:
            take(node)
        except BaseException as error:
            errors[node.uid] = error

    threads = [threading.Thread(target=run, args=(node,), name=f"sink-{node.uid}") for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [errors[node.uid] for node in nodes if node.uid in errors]
    for other in failed[1:]:
        _log.warning("Another sink failed, too: %s", report_of(other))
    if failed:
        raise failed[0]


__all__ = ["SinkCommits"]
