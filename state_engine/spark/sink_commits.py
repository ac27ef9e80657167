"""The `Sinks` port: E7 from the manifest, and the way back of a restore."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.clock import SystemClock
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest
from state_engine.errors import LakestateError, MissingFileError, NotFoundError, SinkError, SinkRewindError
from state_engine.log.lineage import contains, predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, OutputFile, SinkTable
from state_engine.serialization.types import schema_of
from state_engine.spark import rewind as history
from state_engine.spark.graph import OperatorNode, SinkNode
from state_engine.spark.sink_identity import SinkIdentity
from state_engine.spark.sinks import DeltaSink, EpochId, ForeachEpochSink, MemorySink
from state_engine.storage import delta
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage


class SinkCommits:
    """All sinks of one job.

    Args:
        job: Its name.
        operators: Its operators with their sinks.
        storage: Where output for other sinks than Delta is staged.
        log: The job's log.
        crash: Is told when one sink has committed.
        early: Whether functions get output before its epoch is sealed (`AT_LEAST_ONCE`).
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
    ) -> None:
        self._job = job
        self._storage = storage
        self._log = log
        self._crash = crash
        self._early = early
        self._delivered: tuple[int, int] | None = None
        self._sinks: list[tuple[SinkNode, pa.Schema]] = []
        for node in operators:
            for sink in node.sinks:
                struct = node.output if sink.output == "main" else node.side_outputs[sink.output]
                self._sinks.append((sink, schema_of(struct)))
        self._identity = SinkIdentity(job, (node for node, _ in self._sinks))

    @property
    def declared(self) -> tuple[SinkTable, ...]:
        """What manifests say about the sinks."""
        return self._identity.declared

    def check(self) -> None:
        """Looks at the Delta tables that are there, and writes nothing.

        Raises:
            SinkError: A table has other columns than the output, or asks more of its writers than adding finished
                files gives (partitions, constraints, column mapping, …).
        """
        for uid, path, schema in self._tables():
            if other := delta.other_columns(path, schema):
                raise SinkError(
                    f"Sink {uid!r} of job {self._job!r} does not fit the Delta table {path}: "
                    f"column {'; column '.join(map(str, other))}.",
                    action="Give the sink another path, or change the table so that it has the columns of the output.",
                )
            if found := delta.obstacles(path):
                raise SinkError(
                    f"Sink {uid!r} of job {self._job!r} cannot write to the Delta table {path}: "
                    f"{'; '.join(obstacle.what for obstacle in found)}.",
                    action=f"Give the sink another path, or: {'; '.join(obstacle.remedy for obstacle in found)}.",
                )

    def prepare(self) -> None:
        for _, path, schema in self._tables():
            delta.ensure_table(path, schema, delta.SINK_TABLE_PROPERTIES)

    def _tables(self) -> list[tuple[str, str, pa.Schema]]:
        """Uid, path and columns of each Delta sink."""
        return [(node.uid, node.sink.path, schema) for node, schema in self._sinks if isinstance(node.sink, DeltaSink)]

    def deliver(self, manifest: Manifest) -> None:
        if not self._early:
            return
        functions = [(node, schema) for node, schema in self._sinks if isinstance(node.sink, ForeachEpochSink)]
        for _ in self._give(manifest, functions, "The epoch is not sealed; the next start runs its records again."):
            pass
        self._delivered = (manifest.generation, manifest.epoch)

    def commit(self, sealed: StoredManifest) -> None:
        manifest = sealed.manifest
        delivered = self._delivered == (manifest.generation, manifest.epoch)
        sinks = [s for s in self._sinks if not (delivered and isinstance(s[0].sink, ForeachEpochSink))]
        action = "Mend the sink; the epoch is sealed and its output is committed again at the next start."
        for _ in self._give(manifest, sinks, action):
            self._crash(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)

    def _give(self, manifest: Manifest, sinks: Sequence[tuple[SinkNode, pa.Schema]], action: str) -> Iterator[str]:
        """Gives an epoch's output to sink after sink; yields the uid of each that has taken it."""
        staged: dict[str, list[OutputFile]] = {}
        for operator in manifest.operators.values():
            for ack in operator.acks:
                for file in ack.outputs:
                    staged.setdefault(file.output, []).append(file)
        for node, schema in sinks:
            files = staged.get(node.uid)
            if not files or not self._identity.stands(node.uid, manifest):
                continue  # a sink that writes elsewhere now: S1 has refused it, or was told to keep output
            try:
                self._commit_one(node, schema, self._id(manifest), files)
            except LakestateError:
                raise
            except Exception as error:
                raise SinkError(
                    f"Sink {node.uid!r} of job {self._job!r} did not take epoch {manifest.epoch}: "
                    f"{type(error).__name__}: {error}.",
                    action=action,
                ) from error
            yield node.uid

    def _id(self, manifest: Manifest) -> EpochId:
        plain = EpochId(self._job, manifest.generation, manifest.epoch)
        if not self._early:
            return plain
        attempts = [ack.attempt for operator in manifest.operators.values() for ack in operator.acks]
        return plain._replace(behind=self._behind(manifest), attempt=attempts[0] if attempts else "")

    def _behind(self, manifest: Manifest) -> int:
        """The epoch in front that brought output, or might have: claims and the like lie between, as often as not."""
        place = predecessor_of(manifest)
        while place is not None and place.job == self._job:
            before = self._log.read(place.generation, place.epoch).manifest
            if before.kind in ("epoch", "idle"):
                return before.epoch
            place = predecessor_of(before)
        return 0

    def _commit_one(self, node: SinkNode, schema: pa.Schema, epoch: EpochId, files: Sequence[OutputFile]) -> None:
        sink = node.sink
        if isinstance(sink, DeltaSink):
            delta.append_files(
                sink.path,
                [_delta_file(f) for f in files],
                app_id=history.transaction_id(self._job, node.uid),
                version=history.transaction_version(epoch.generation, epoch.epoch),
                schema=schema,
                info=self._info(node, epoch.generation, epoch.epoch),
            )
        elif isinstance(sink, MemorySink):
            sink.put(epoch, self._staged(files))
        elif isinstance(sink, ForeachEpochSink):
            sink.function(epoch, self._staged(files))

    def _info(self, node: SinkNode, generation: int, epoch: int) -> dict[str, str]:
        return {
            "lakestate.job": self._job,
            "lakestate.sink": node.uid,
            "lakestate.generation": str(generation),
            "lakestate.epoch": str(epoch),
        }

    def _staged(self, files: Sequence[OutputFile]) -> pa.Table:
        tables = []
        for file in files:
            try:
                tables.append(pq.read_table(pa.BufferReader(self._storage.get(file.path))))
            except NotFoundError as error:
                raise MissingFileError(
                    f"The staged output {file.path} is gone before its sink had it.",
                    action="Bring it back from a backup, or restore an older checkpoint or savepoint.",
                ) from error
        return pa.concat_tables(tables)

    def check_owed(self, sealed: StoredManifest) -> None:
        self._identity.check_owed(sealed)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        head = newest(self._log)
        if head is None or target.manifest.job != self._job:
            return
        left, entered = history.since(self._log, head, target), history.since(self._log, target, head)
        self._identity.check_moved(left, entered, target.manifest, generation)
        for node, _ in self._sinks:
            sink = node.sink
            if isinstance(sink, DeltaSink):
                if history.fence(sink.path, self._job, node.uid) >= history.transaction_version(generation, 0):
                    continue  # an earlier start took it there, and died on the way to the next one
                history.check(self._move(node, sink, target), node.uid, sink.path)
            elif isinstance(sink, MemorySink):
                for _, files in self._entered(node, target):
                    self._staged(files)
            elif any(history.outputs_of(manifest, node.uid) for manifest in (*left, *entered)):
                raise SinkRewindError(
                    f"Sink {node.uid!r} cannot take back what it got behind epoch {target.manifest.epoch}.",
                    action="Restore with keep_output=True: it gets those records again then, under new epoch ids.",
                )

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        lineage, last = target.manifest.lineage, target.manifest.epoch

        def abandoned(epoch: EpochId) -> bool:
            return epoch.job == self._job and not (epoch.epoch <= last and contains(lineage, *epoch.place))

        for node, _ in self._sinks:
            if isinstance(node.sink, MemorySink) and not keep_output:
                node.sink.remove(abandoned)
                for epoch, files in self._entered(node, target):
                    node.sink.put(epoch, self._staged(files))
            elif isinstance(node.sink, DeltaSink) and target.manifest.job == self._job:
                move = history.SinkMove((), ()) if keep_output else self._move(node, node.sink, target)
                self._rewind_table(node, node.sink, move, target, generation)

    def _entered(self, node: SinkNode, target: StoredManifest) -> list[tuple[EpochId, list[OutputFile]]]:
        """What an abandoned generation gave to a memory sink, where a restore goes into it again."""
        head = newest(self._log)
        if head is None or target.manifest.job != self._job:
            return []
        entered = history.since(self._log, target, head)
        outputs = [(EpochId(self._job, m.generation, m.epoch), history.outputs_of(m, node.uid)) for m in entered]
        return [(epoch, files) for epoch, files in outputs if files]

    def _move(self, node: SinkNode, sink: DeltaSink, target: StoredManifest) -> history.SinkMove:
        head = newest(self._log)
        if head is None or target.manifest.job != self._job:
            return history.SinkMove((), ())
        return history.move(self._log, self._job, node.uid, sink.path, head, target)

    def _rewind_table(
        self, node: SinkNode, sink: DeltaSink, move: history.SinkMove, target: StoredManifest, generation: int
    ) -> None:
        """One transaction takes away what is abandoned, brings back what the target stands on, and moves the fence."""
        try:
            delta.replace_files(
                sink.path,
                [o.path for o in move.removed],
                [_delta_file(o) for o in move.added],
                app_id=history.transaction_id(self._job, node.uid),
                version=history.transaction_version(generation, 0),
                now_ms=_now_ms(),
                info=self._info(node, generation, target.manifest.epoch),
            )
        except MissingFileError as error:
            raise SinkRewindError(error.message, action=error.action) from error


def _now_ms() -> int:
    return SystemClock().now_ms()


def _delta_file(file: OutputFile) -> delta.DeltaFile:
    return delta.DeltaFile(
        path=file.path, size=file.length, rows=file.rows, statistics=file.statistics, modified_ms=_now_ms()
    )


__all__ = ["SinkCommits"]
