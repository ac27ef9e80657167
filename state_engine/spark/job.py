"""`StreamJob`: the job that an author builds, and its start."""

import os
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.api.checkpoint_storage import DATA_INLINE_THRESHOLD
from state_engine.api.state_backend import StateBackend, state_backend_of
from state_engine.backends.choose import check_installed
from state_engine.errors import JobDefinitionError, RestoreError
from state_engine.key_groups import check_parallelism, default_max_parallelism
from state_engine.savepoint.claim import ClaimMode
from state_engine.savepoint.copying import Progress
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.spark.driver.client import JobClient
from state_engine.spark.driver.dry_restore import plan_restore
from state_engine.spark.driver.startup import StartOptions
from state_engine.spark.driver.trigger import TRIGGER_INTERVAL_MS, checked_interval
from state_engine.spark.graph.building import JobGraph
from state_engine.spark.graph.definition import JobDefinition
from state_engine.spark.graph.dry import DryFrame
from state_engine.spark.graph.nodes import Edge, OperatorNode
from state_engine.spark.graph.settings import (
    AggPhaseStrategy,
    JobSettings,
    config_of,
    fence_interval_of,
    root_of,
    spark_directory_of,
)
from state_engine.spark.graph.stream import DataStream
from state_engine.spark.graph.upstream import check_replays, check_upstream
from state_engine.spark.session.costs import warn_of_costs
from state_engine.spark.session.executors import check_executors
from state_engine.spark.wire.names import uid_list
from state_engine.spark.wire.schemas import struct_of


class StreamJob:
    """A named streaming pipeline.

    Args:
        name: Name of the job; state, savepoints and history are stored under it.
        root: Folder or URL of the state root; the job's own folder is `<root>/<name>`. It may be left out if the
            checkpoint storage of `checkpoint_config` names it.
        parallelism: Number of subtasks of each operator.
        max_parallelism: Number of key groups, fixed with the first start. By default the number in the log or, for a
            new job, the number that Flink derives from the parallelism.
        checkpoint_interval_ms: How often state is published to Delta. None seals epochs and publishes only as often as
            needed to keep a start short. Short for a `checkpoint_config` that has only an interval.
        checkpoint_config: When checkpoints are taken, how long they may take, and what happens when they fail.
        heartbeat_interval_ms: How often a running job checks whether a timer is due while no batch comes.
        fence_interval_ms: How often a job that seals nothing asks storage, with one GET, whether another driver has
            taken it over; by default each second on a disk, and every ten seconds in a bucket.
        parameters: Parameters for `RuntimeContext.get_job_parameter`.
        strict: Whether operators and sinks without a uid are refused.
        codec: Compression of change files: `zstd`, `lz4` or `none`.
        data_inline_threshold: Number of bytes, at most 1 MiB. Up to this size, the changes of a subtask in an epoch are
            stored in the epoch's manifest; larger ones in a change file. All subtasks of an epoch share 128 KiB evenly,
            or the threshold if that is more. 0: always in a file.
        cache_bytes: How much state one Python worker may keep between epochs: its rows times an estimate of 220 bytes,
            whatever their true size. State in RocksDB does not count. State of jobs that have ended goes anyway.
        state_backend: Where workers keep keyed state: `heap`, `rocksdb`, or an instance of `HashMapStateBackend` or
            `EmbeddedRocksDBStateBackend`. It may differ from start to start.
        operator_chaining: Whether operators that need no exchange between them run in one task. State does not depend
            on it.
        agg_phase_strategy: Whether declared aggregations (`aggregate`) have a first phase in Spark, before the
            exchange, if the result is the same: `TWO_PHASE`, `ONE_PHASE`, or `AUTO`, which decides by the epoch before.
            State does not depend on it.
        preferred_locations: Whether on a cluster each subtask prefers one executor with workers that hold its state.
            State does not depend on it. With a `local[…]` master it has no effect.
        show_records: Whether messages of failures may hold keys and records, cut at 200 characters. Messages go into
            logs, the status file, REST answers and Dagster's events. False leaves them out.
        spark_directory: Where Spark keeps its own files, on a local disk: in the folder `<name>` there. By default
            `<root>/<name>/_spark`. Each start makes a new folder in it and removes those of earlier starts except the
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
        config = config_of(checkpoint_config, checkpoint_interval_ms)
        state_root = root_of(root, config)
        key_groups = max_parallelism or default_max_parallelism(parallelism)
        check_parallelism(parallelism, key_groups)
        settings = JobSettings(
            name=name,
            root=state_root,
            checkpoint_config=config,
            parallelism=parallelism,
            max_parallelism=key_groups,
            max_parallelism_is_derived=max_parallelism is None,
            heartbeat_interval_ms=heartbeat_interval_ms,
            fence_interval_ms=fence_interval_of(state_root) if fence_interval_ms is None else fence_interval_ms,
            parameters=dict(parameters or {}),
            codec=codec,
            data_inline_threshold=data_inline_threshold,
            cache_bytes=cache_bytes,
            state_backend=state_backend_of(state_backend),
            operator_chaining=operator_chaining,
            agg_phase_strategy=agg_phase_strategy,
            preferred_locations=preferred_locations,
            show_records=show_records,
            spark_directory=spark_directory_of(spark_directory, state_root, name),
        )
        self._graph = JobGraph(settings, strict=strict)

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.settings.name

    @property
    def root(self) -> str:
        """The state root."""
        return self.settings.root

    @property
    def settings(self) -> JobSettings:
        """The job's settings."""
        return self._graph.settings

    @property
    def operators(self) -> Sequence[OperatorNode]:
        """The operators so far, upstream first."""
        return self._graph.operators

    @property
    def definition(self) -> JobDefinition:
        """The job as it is now, which a start takes.

        Raises:
            JobDefinitionError: The job has no operator, a source feeds none, or only some of the sources can replay.
        """
        return self._graph.definition

    def from_stream(
        self, df: DataFrame, name: str = "source", *, replays: bool = True, bounded: bool = False
    ) -> DataStream:
        """Begins the pipeline at a streaming DataFrame; a job may have several.

        Args:
            df: The stream, after any stateless and deterministic transformation.
            name: Name of the source, for messages and for Dagster's lineage. If it is taken, a number is appended. A
                job's positions in its sources go by their order, not by their names: to add, remove or exchange sources
                changes the job.
            replays: False declares that a source cannot read again what it has read (a socket). Each start then begins
                where the sources' options say, and records between the last sealed epoch and the start are lost.
            bounded: The stream ends with the records that exist when the job is started, which must be done with
                `available_now`. After its last record comes the last watermark, which fires every event-time timer.
                The job is then over, and what a later start reads is late. With several sources the input ends only if
                all are bounded.

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
        source = self._graph.add_source(df, name, replays=replays, bounded=bounded)
        return DataStream(self._graph, (Edge(source),), dry or struct_of(df.schema, f"stream {source.name!r}"))

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        available_now: bool = False,
        trigger_interval_ms: int = TRIGGER_INTERVAL_MS,
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
            available_now: Read the records that exist now, and end.
            trigger_interval_ms: Least time between the beginnings of two epochs with input, in ms; 0 for epochs as
                close as they can be. The first record after a pause begins an epoch at once. Ignored with
                `available_now`.
            restore: `latest` (the newest sealed epoch), a savepoint's id, `checkpoint:<id>`,
                `epoch:<generation>/<epoch>`, or `<job>/<savepoint id>` for a fork. It begins a new generation and
                rewinds the sinks.
            parallelism: Number of subtasks, in place of the job's own.
            allow_non_restored_state: Leave state of operators that the job no longer has in the log.
            resume_state: uids of operators that are back after releases without them: they go on with the state that
                they had before. Changes nothing for other operators.
            discard_state: uids of such operators that begin without that state. If any of them is back, the newest
                epoch is restored, and the state of the other operators is copied for it.
            keep_output: Restore although a sink cannot retract its output, or start although a sink is gone, renamed or
                moved: output that it may still be owed is left out.
            adopt_sinks: Start although a sink's table has output that the job's log does not contain: the log is new,
                or older than the table. The table keeps its rows, and the job goes on after them in a new generation.
            reset_processing_time: With `restore`: begin with the time of this machine's clock, although processing time
                was later before, because a clock was wrong. Timers, TTLs and windows keep their times.
            allow_changed_sources: Numbers of sources, counted from 0 as refusals name them. Their options or path may
                differ from those at the position that the job goes on from. Records that come from then on may be
                other ones, or be read differently. A folder that has moved keeps its position.
            strict: Refuse to start if there is state, or a field of a state, that the code does not read. Without it,
                log lines name them.
            max_parallelism: With `restore`: re-key the state into this number of key groups, from now on. State of the
                source is copied for it.
            uid_mapping: With `restore`: from uids that operators had in the source to those that they have now. State
                is copied for it.
            claim_mode: With `restore`: `CLAIM` hands the savepoint to the job, which removes it once it does not need
                it any more.
            validate: With `restore`: read every file that is restored, and compare its checksum, before anything is
                written. Copied state is always checked.
            cancelled: Called while state is checked or copied; once it returns True the start ends.
            progress: Called with what is checked or copied, and the share that is done, from 0 to 1.

        Raises:
            JobDefinitionError: The job cannot run as it is built, or the trigger interval is below 0.
            MissingExtraError: The package of its state backend is not installed.
            RestoreError: The job does not fit what it would be restored from; nothing was written.
            RestoreCancelledError: The start was cancelled; nothing is left of it.
            SinkError: A Delta sink's table has other columns than the output, or requires more of its writers than to
                add finished files (partitions, constraints, …). Or a sink that may be owed output is gone, renamed or
                moved. Nothing was written.
            SinkAheadError: A Delta sink's table was written by another log of a job with this name, or has output that
                this log has lost; nothing was written.
            SessionError: The executors of the cluster cannot run the job; nothing was written.
            FencedError: Another driver owns the job.
            JobAlreadyRunningError: Another process on this machine holds the job's lock; nothing was written.
        """
        definition = self.definition
        if definition.sources.bounded and not available_now:
            raise JobDefinitionError(
                f"The input of job {self.name!r} is bounded, and Spark would wait for more of it.",
                action="Start it with available_now=True, or leave bounded=True out of from_stream().",
            )
        if restore is None and (max_parallelism is not None or uid_mapping or reset_processing_time):
            raise RestoreError(
                "max_parallelism, uid_mapping and reset_processing_time change what is restored, and nothing is.",
                action="Name what to restore, for instance restore='latest'.",
            )
        check_installed(definition.settings.state_backend)
        check_executors(definition.session)
        warn_of_costs(definition.session, self.name)
        options = StartOptions(
            available_now=available_now,
            trigger_interval_ms=checked_interval(trigger_interval_ms),
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
        client = JobClient(definition, options)
        client.start()
        self._graph.is_started = True
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
        """Returns what `start` with the same arguments would restore, and all reasons against it; writes nothing.

        It reads all state that would be restored: live rows, bytes, and whether every file exists and is sound.

        Raises:
            NothingToRestoreError: `restore` names nothing that exists.
            RestoreError: The arguments themselves fit nothing, such as a mapping of unknown uids.
            RestoreCancelledError: The dry run was cancelled.
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
        return plan_restore(self.definition, options)


__all__ = ["StreamJob"]
