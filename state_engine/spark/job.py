"""A job: what its author builds, and how it is started."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.api.checkpoint_storage import DATA_INLINE_THRESHOLD, MAX_DATA_INLINE_THRESHOLD, path_of
from state_engine.api.descriptors import check_name
from state_engine.api.state_backend import StateBackend, state_backend_of
from state_engine.errors import JobDefinitionError, RestoreError, UnsupportedTopologyError
from state_engine.key_groups import check_parallelism, default_max_parallelism
from state_engine.log.paths import SPARK
from state_engine.log.records import SinkTable, StateSchema
from state_engine.runtime.discovery import discover_states
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.savepoint.claim import ClaimMode
from state_engine.savepoint.copying import Progress
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.spark.changelogs import check_reads_changelog
from state_engine.spark.client import JobClient
from state_engine.spark.dry import DryFrame
from state_engine.spark.dry_restore import plan_restore
from state_engine.spark.fence_watch import default_interval_ms
from state_engine.spark.graph import Edge, OperatorNode, SourceNode, chains_of
from state_engine.spark.link import Packed
from state_engine.spark.local_aggregation import AggPhaseStrategy
from state_engine.spark.names import uid_list
from state_engine.spark.plan import PlannedChain
from state_engine.spark.schemas import struct_of
from state_engine.spark.sinks import DeltaSink, DiscardingSink
from state_engine.spark.sources import Sources
from state_engine.spark.startup import StartOptions
from state_engine.spark.stream import DataStream
from state_engine.spark.task import TaskFunction
from state_engine.spark.task_spec import StageSpec, TaskSpec, pack
from state_engine.spark.uids import Uids
from state_engine.spark.upstream import check_replays, check_upstream
from state_engine.storage.roots import address, local_path


class StreamJob:
    """A named streaming pipeline.

    Args:
        name: Its name; state, savepoints and history lie under it.
        root: Folder or URL of the state root; the job's own folder is `<root>/<name>`. It may be left out where the
            checkpoint storage of `checkpoint_config` names it.
        parallelism: Number of subtasks of each operator.
        max_parallelism: Number of key groups, fixed with the first start; by default what the log has, or, for a new
            job, what Flink derives from the parallelism.
        checkpoint_interval_ms: How often state is published to Delta; None seals epochs and publishes only so often
            that a start stays short. Short for a `checkpoint_config` with nothing but an interval.
        checkpoint_config: When checkpoints are taken, how long they may take, and what it means when they fail.
        heartbeat_interval_ms: How often a running job looks whether a timer is due that no batch comes for.
        fence_interval_ms: How often a job that seals nothing asks storage whether another driver has taken it over, by
            one GET; by default each second on a disk, and every ten seconds in a bucket.
        parameters: For `RuntimeContext.get_job_parameter`.
        strict: Operators and sinks without a uid are refused.
        codec: Compression of change files: `zstd`, `lz4` or `none`.
        data_inline_threshold: What a subtask changed in an epoch lies in the epoch's manifest if it has up to so many
            bytes, and else in a change file; at most 1 MiB. All subtasks of an epoch share 128 KiB evenly, or the
            threshold if that is more. 0: always in a file.
        cache_bytes: How much state one Python worker may keep between epochs: its rows times an estimate of 220 bytes,
            whatever their true size. State in RocksDB does not count, and that of jobs that have ended goes anyway.
        state_backend: Where workers keep keyed state: `heap`, `rocksdb`, or an instance of `HashMapStateBackend` or
            `EmbeddedRocksDBStateBackend`. It may be another one with each start.
        operator_chaining: Whether operators between which nothing needs an exchange run in one task. State does not
            depend on it.
        agg_phase_strategy: Whether declared aggregations (`aggregate`) have a first phase in Spark, in front of the
            exchange, where the result is the same: `TWO_PHASE`, `ONE_PHASE`, or `AUTO`, as the epoch before suggests.
            State does not depend on it.
        preferred_locations: Whether on a cluster each subtask prefers one executor, whose workers hold its state. State
            does not depend on it; with a `local[…]` master nothing does.
        show_records: Whether messages of failures may hold keys and records, cut at 200 characters. Messages go into
            logs, the status file, REST answers and Dagster's events. False leaves them out.
        spark_directory: Where Spark keeps its own files, on a local disk: in the folder `<name>` there. By default
            `<root>/<name>/_spark`. Each start makes a new folder in it and removes those of earlier starts but the
            newest.

    Raises:
        JobDefinitionError: A name or number is out of bounds.
    """

    def __init__(
        self,
        name: str,
        *,
        root: str | os.PathLike[str] | None = None,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        checkpoint_interval_ms: int | None = None,
        checkpoint_config: CheckpointConfig | None = None,
        heartbeat_interval_ms: int = 200,
        fence_interval_ms: int | None = None,
        parameters: Mapping[str, str] | None = None,
        strict: bool = False,
        codec: str = "zstd",
        data_inline_threshold: int = DATA_INLINE_THRESHOLD,
        cache_bytes: int = 2 << 30,
        state_backend: StateBackend | str = "heap",
        operator_chaining: bool = True,
        agg_phase_strategy: AggPhaseStrategy = "AUTO",
        preferred_locations: bool = True,
        show_records: bool = True,
        spark_directory: str | None = None,
    ) -> None:
        self.name = check_name(name, "a job")
        self.checkpoint_config = _checkpoint_config(checkpoint_config, checkpoint_interval_ms)
        self.root = _root_of(root, self.checkpoint_config)
        self.parallelism = parallelism
        self._derived = max_parallelism is None
        self.max_parallelism = max_parallelism or default_max_parallelism(parallelism)
        check_parallelism(parallelism, self.max_parallelism)
        if codec not in ("zstd", "lz4", "none"):
            raise JobDefinitionError(f"There is no codec {codec!r}.", action="Use 'zstd', 'lz4' or 'none'.")
        if not 0 <= data_inline_threshold <= MAX_DATA_INLINE_THRESHOLD:
            raise JobDefinitionError(
                f"data_inline_threshold is {data_inline_threshold}.",
                action=f"Give bytes from 0, for none, to {MAX_DATA_INLINE_THRESHOLD} (1 MiB).",
            )
        if heartbeat_interval_ms < 1:
            raise JobDefinitionError("heartbeat_interval_ms is below 1.", action="Give whole milliseconds above 0.")
        self.heartbeat_interval_ms = heartbeat_interval_ms
        if fence_interval_ms is not None and fence_interval_ms < 1:
            raise JobDefinitionError("fence_interval_ms is below 1.", action="Give whole milliseconds above 0.")
        self.fence_interval_ms = default_interval_ms(self.root) if fence_interval_ms is None else fence_interval_ms
        self.parameters = dict(parameters or {})
        self.codec = codec
        self.data_inline_threshold = data_inline_threshold
        self.cache_bytes = cache_bytes
        self.state_backend = state_backend_of(state_backend)
        self.operator_chaining = operator_chaining
        if agg_phase_strategy not in get_args(AggPhaseStrategy):
            raise JobDefinitionError(
                f"There is no agg_phase_strategy {agg_phase_strategy!r}.",
                action=f"Use one of {', '.join(get_args(AggPhaseStrategy))}.",
            )
        self.agg_phase_strategy: AggPhaseStrategy = agg_phase_strategy
        self.preferred_locations = preferred_locations
        self.show_records = show_records
        own = os.path.join(local_path(self.root) or tempfile.gettempdir(), self.name, SPARK)
        self.spark_directory = os.path.join(spark_directory, self.name) if spark_directory else own
        self.operators: list[OperatorNode] = []
        self._uids = Uids(strict=strict)
        self._names: list[str] = []
        self._read: dict[int, SourceNode] = {}
        self._sources: Sources | None = None
        self.session: SparkSession

    def from_stream(
        self, df: DataFrame, name: str = "source", *, replays: bool = True, bounded: bool = False
    ) -> DataStream:
        """Begins the pipeline at a streaming DataFrame; a job may have several.

        Args:
            df: The stream, after any stateless and deterministic transformation.
            name: For messages, and for Dagster's lineage. A second source of a name gets its number behind it. A job's
                positions in its sources go by their order, not by their names: to add, remove or exchange sources
                changes the job.
            replays: False declares that a source cannot read again what it has read (a socket): each start then begins
                where the sources' options say, and records between the last sealed epoch and the start are lost.
            bounded: The stream ends with what is there when the job is started, which has to be with `available_now`.
                Behind its last record comes the last watermark, which fires every event-time timer; the job is over
                then, and what a later start reads is late. With several sources the input ends when all are bounded.

        Raises:
            SourcesChangedError: A source cannot replay, and that was not declared.
            UnsupportedUpstreamError: The DataFrame holds Spark state or is not deterministic.
            UnsupportedTypeError: A column has a type that no function can take.
        """
        stream: object = df
        dry = stream.columns_type if isinstance(stream, DryFrame) else None
        if dry is None:
            check_upstream(df)
            if replays:
                check_replays(df)
        self.session = df.sparkSession
        while name in self._names:
            name = f"{name}_{len(self._names) + 1}"
        source = SourceNode(df, name, len(self._names), replays, bounded)
        self._names.append(name)
        self._sources = None
        return DataStream(self, (Edge(source),), dry or struct_of(df.schema, f"stream {name!r}"))

    # Called by streams while the author chains them ---------------------------------------------------------------

    def claim_uid(self, uid: str | None, kind: str) -> str:
        """Takes the uid of an operator."""
        return self._uids.operator(uid, kind)

    def claim_sink_uid(self, uid: str | None, place: str) -> str:
        """Takes the uid of a sink."""
        return self._uids.sink(uid, place)

    def claim_table(self, sink: SinkTable) -> None:
        """Takes the table of a sink."""
        self._uids.table(sink.uid, sink.kind, sink.table)

    def append(self, node: OperatorNode) -> None:
        """Adds an operator behind what feeds it, and finds out which states it will ask for.

        Raises:
            JobDefinitionError: A state cannot be stored, the function cannot be sent to workers, or it would read a
                changelog as records.
            UnsupportedTopologyError: Another operator reads a source that it reads.
        """
        for source, _ in node.sources:
            if source.number in self._read:
                raise UnsupportedTopologyError(
                    f"Two operators read the source {source.name!r}; an epoch would read it twice.",
                    action="Put an operator behind it, map(lambda row: row, ..., uid=...), whose output both may read.",
                )
        if not self.operator_chaining:
            node.chaining = "never"
        check_reads_changelog(node)
        node.states, node.all_states_known = discover_states(self._spec(node), _sent_copy)
        for upstream, number in node.upstream:
            upstream.downstream.append((node, number))
        self._read |= {source.number: source for source, _ in node.sources}
        self.operators.append(node)
        self._sources = None

    # What a start needs -------------------------------------------------------------------------------------------

    @property
    def sources(self) -> Sources:
        """The sources, once the job is built.

        Raises:
            JobDefinitionError: The job has no operator, a source feeds none, or only some of the sources can replay.
        """
        if self._sources is None:
            self._sources = self._checked_sources()
        return self._sources

    def _checked_sources(self) -> Sources:
        if not self.operators:
            raise JobDefinitionError(
                f"Job {self.name!r} has no operator.", action="Chain from_stream(...).key_by(...).process(...) first."
            )
        idle = [name for number, name in enumerate(self._names) if number not in self._read]
        if idle:
            raise JobDefinitionError(
                f"The source {idle[0]!r} of job {self.name!r} feeds no operator.",
                action="Unite or connect it with another stream, or leave it out.",
            )
        return Sources([self._read[number] for number in sorted(self._read)])

    def adopt_max_parallelism(self, known: int) -> None:
        """Takes over the number of key groups that the log has, unless the author gave one."""
        if self._derived:
            check_parallelism(self.parallelism, known)
            self.max_parallelism = known

    def use_max_parallelism(self, wanted: int) -> None:
        """Takes the number of key groups into which a restore sorts all keys anew."""
        check_parallelism(min(self.parallelism, wanted), wanted)
        self.max_parallelism = wanted

    def specs(self) -> list[OperatorSpec]:
        """The operators as their tasks know them."""
        return [self._spec(node) for node in self.operators]

    def _spec(self, node: OperatorNode) -> OperatorSpec:
        return OperatorSpec(
            uid=node.uid,
            kind=node.kind,
            function=node.function,
            input=node.input,
            key=key_columns(node.input, node.key),
            order_by=node.order_by,
            output=node.output,
            side_outputs=node.side_outputs,
            max_parallelism=self.max_parallelism,
            generated_uid=node.generated_uid,
            parameters=self.parameters,
            two_inputs=node.two_inputs,
            broadcast=node.broadcast_states,
            emits_event_time=node.emits_event_time,
            timed_side_outputs=node.timed_side_outputs,
            out_of_orderness=node.out_of_orderness,
            keeps_rows=node.keeps_rows,
            writes_main=node.writes_main,
        )

    def planned(self) -> list[PlannedChain]:
        """Packs what the workers are sent, task by task."""
        return [PlannedChain(chain, TaskFunction([self._packed(node) for node in chain])) for chain in self.chains]

    @property
    def chains(self) -> list[tuple[OperatorNode, ...]]:
        """The operators, task by task."""
        return chains_of(self.operators)

    def _packed(self, node: OperatorNode) -> Packed:
        stages = tuple(StageSpec(s.uid, s.output, _table(s.sink)) for s in node.sinks)
        spec, readers = self._spec(node), node.handover.readers
        return Packed(*pack(TaskSpec(spec, stages, readers, self.codec, self.cache_bytes, self.state_backend)))

    def states(self) -> tuple[StateSchema, ...]:
        """Schemas of the states that the functions' `open()` ask for."""
        return tuple(schema for node in self.operators for schema in node.states)

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        available_now: bool = False,
        trigger_interval_ms: int = 0,
        restore: str | None = None,
        parallelism: int | None = None,
        allow_non_restored_state: bool = False,
        resume_state: str | Sequence[str] = (),
        discard_state: str | Sequence[str] = (),
        keep_output: bool = False,
        adopt_sinks: bool = False,
        reset_processing_time: bool = False,
        allow_changed_sources: Sequence[int] = (),
        strict: bool = False,
        max_parallelism: int | None = None,
        uid_mapping: Mapping[str, str] | None = None,
        claim_mode: ClaimMode = "NO_CLAIM",
        validate: bool = True,
        cancelled: Callable[[], bool] | None = None,
        progress: Progress | None = None,
    ) -> JobClient:
        """Starts the job, from its newest sealed epoch or from what `restore` names; returns when the query runs.

        Args:
            spark: Not needed; the stream knows its session.
            available_now: Read what is there and end.
            trigger_interval_ms: Least time between two epochs.
            restore: `latest` (the newest sealed epoch), a savepoint's id, `checkpoint:<id>`,
                `epoch:<generation>/<epoch>`, or `<job>/<savepoint id>` for a fork. It begins a new generation; the
                sinks go back with it.
            parallelism: Another number of subtasks than the job says.
            allow_non_restored_state: Leave state of operators that the job no longer has in the log.
            resume_state: uids of operators that are back after releases without them: they go on with the state that
                they had before. Changes nothing for others.
            discard_state: uids of such operators that begin without that state. If any is back, the newest epoch is
                restored, and the state of the other operators is copied for it.
            keep_output: Restore although a sink cannot take its output back, or start although a sink is gone, renamed
                or moved: output that it may still be owed is left out.
            adopt_sinks: Start although a sink's table has output that the job's log does not know: the log is new, or
                older than the table. The table keeps its rows, and the job goes on behind them in a new generation.
            reset_processing_time: With `restore`: begin with the time of this machine's clock, though processing time
                was later before, because a clock was wrong. Timers, TTLs and windows keep their times.
            allow_changed_sources: Numbers of sources, counted from 0 as refusals name them, whose options or path may
                differ from those at the position that the job goes on from. Records that come from then on may be
                others, or be read otherwise. A folder that has moved keeps its position.
            strict: Refuse to start if there is state, or a field of one, that the code does not read. Without it the
                log names them.
            max_parallelism: With `restore`: sort all keys anew into so many key groups, from now on. State of the
                source is copied for it.
            uid_mapping: With `restore`: from uids that operators had in the source to those that they have now. State
                is copied for it.
            claim_mode: With `restore`: `CLAIM` hands the savepoint to the job, which removes it once it stands without.
            validate: With `restore`: read every file of what is restored and compare its checksum before anything is
                written. Copied state always is.
            cancelled: Asked while state is checked or copied; once it says True the start ends.
            progress: Is told what is checked or copied, and the share that is done, from 0 to 1.

        Raises:
            JobDefinitionError: The job cannot run as it is built.
            RestoreError: The job does not fit what it would be restored from; nothing was written.
            RestoreCancelledError: It was cancelled; nothing is left of it.
            SinkError: A Delta sink's table has other columns than the output, or asks more of its writers than adding
                finished files gives (partitions, constraints, …), or a sink is gone, renamed or moved that may be owed
                output; nothing was written.
            SinkAheadError: A Delta sink's table was written by another log of a job of this name, or has output that
                this one has lost; nothing was written.
            FencedError: Another driver owns the job.
            JobAlreadyRunningError: Another process of this machine holds the job; nothing was written.
        """
        if self.sources.bounded and not available_now:
            raise JobDefinitionError(
                f"The input of job {self.name!r} is bounded, and Spark would wait for more of it.",
                action="Start it with available_now=True, or leave bounded=True out of from_stream().",
            )
        if restore is None and (max_parallelism is not None or uid_mapping or reset_processing_time):
            raise RestoreError(
                "max_parallelism, uid_mapping and reset_processing_time change what is restored, and nothing is.",
                action="Say what to restore, for instance restore='latest'.",
            )
        options = StartOptions(
            available_now=available_now,
            trigger_interval_ms=trigger_interval_ms,
            restore=restore,
            parallelism=parallelism,
            allow_non_restored_state=allow_non_restored_state,
            resume_state=uid_list(resume_state),
            discard_state=uid_list(discard_state),
            keep_output=keep_output,
            adopt_sinks=adopt_sinks,
            reset_processing_time=reset_processing_time,
            allow_changed_sources=allow_changed_sources,
            strict=strict,
            max_parallelism=max_parallelism,
            uid_mapping=uid_mapping or {},
            claim_mode=claim_mode,
            validate=validate,
            cancelled=cancelled,
            progress=progress,
        )
        client = JobClient(self, options)
        client.start()
        return client

    def plan_restore(
        self,
        restore: str,
        *,
        parallelism: int | None = None,
        allow_non_restored_state: bool = False,
        resume_state: str | Sequence[str] = (),
        discard_state: str | Sequence[str] = (),
        keep_output: bool = False,
        adopt_sinks: bool = False,
        allow_changed_sources: Sequence[int] = (),
        strict: bool = False,
        max_parallelism: int | None = None,
        uid_mapping: Mapping[str, str] | None = None,
        claim_mode: ClaimMode = "NO_CLAIM",
        cancelled: Callable[[], bool] | None = None,
        progress: Progress | None = None,
    ) -> WholeRestore:
        """Says what `start` with the same arguments would restore, and all that speaks against it; writes nothing.

        It reads all state that would be restored: live rows, bytes, and whether every file is there and sound.

        Raises:
            NothingToRestoreError: `restore` names nothing that is there.
            RestoreError: The arguments themselves fit nothing, such as a mapping of unknown uids.
            RestoreCancelledError: It was cancelled.
        """
        options = StartOptions(
            restore=restore,
            parallelism=parallelism,
            allow_non_restored_state=allow_non_restored_state,
            resume_state=uid_list(resume_state),
            discard_state=uid_list(discard_state),
            keep_output=keep_output,
            adopt_sinks=adopt_sinks,
            allow_changed_sources=allow_changed_sources,
            strict=strict,
            max_parallelism=max_parallelism,
            uid_mapping=uid_mapping or {},
            claim_mode=claim_mode,
            cancelled=cancelled,
            progress=progress,
        )
        return plan_restore(self, options)


def _checkpoint_config(config: CheckpointConfig | None, interval_ms: int | None) -> CheckpointConfig:
    if config is None:
        config = CheckpointConfig()
        return config if interval_ms is None else config.set_checkpoint_interval(interval_ms)
    if interval_ms is not None:
        raise JobDefinitionError(
            "checkpoint_interval_ms and checkpoint_config are given.",
            action="Say the interval with checkpoint_config.set_checkpoint_interval().",
        )
    return config


def _root_of(root: str | os.PathLike[str] | None, config: CheckpointConfig) -> str:
    """The root that the job or its checkpoint storage names: there is one, since a log and its folds lie together."""
    named = path_of(config.get_checkpoint_storage())
    given = named if root is None else root
    if given is None:
        raise JobDefinitionError(
            "The job has no state root.", action="Give root, or a checkpoint storage with a checkpoint_path."
        )
    found = address(given)
    if named is not None and address(named).rstrip("/") != found.rstrip("/"):
        raise JobDefinitionError(
            f"The state root is {found}, and the checkpoint storage is at {named}.",
            action="Give one of them, or the same path to both: checkpoints lie below the state root.",
        )
    return found


def _sent_copy(function: Any) -> Any:
    """Returns the copy of a function that a worker would get."""
    return cloudpickle.loads(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]


def _table(sink: object) -> str | None:
    if isinstance(sink, DeltaSink):
        return sink.path
    return "" if isinstance(sink, DiscardingSink) else None


__all__ = ["StreamJob"]
