"""`StreamExecutionEnvironment`, by PyFlink's name: where a program begins, and how it runs."""

import atexit
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from typing import Any

from state_engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode
from state_engine.api.checkpoint_storage import path_of
from state_engine.api.state_backend import StateBackend
from state_engine.api.type_hints import type_information
from state_engine.api.types import columns_of_type
from state_engine.api.watermarks import WatermarkStrategy
from state_engine.errors import JobDefinitionError, UnsupportedMethodError
from state_engine.flink import checkpointing
from state_engine.flink import configuration as keys
from state_engine.flink.collections import batch_of
from state_engine.flink.configuration import Configuration, RuntimeExecutionMode
from state_engine.flink.data_stream import DataStream
from state_engine.flink.differences import ENVIRONMENT, Unlike, ignore
from state_engine.flink.elements import type_of_values
from state_engine.flink.job_client import JobClient
from state_engine.flink.nodes import CollectionNode, FrameNode, Node, SinkEntry
from state_engine.flink.results import JobExecutionResult
from state_engine.flink.translate import Translation
from state_engine.iterating import whole
from state_engine.key_groups import check_parallelism, default_max_parallelism
from state_engine.spark.driver.client import JobClient as SparkJobClient
from state_engine.spark.graph.dry import DryFrame
from state_engine.spark.graph.uids import authors_level
from state_engine.spark.job import StreamJob
from state_engine.spark.session.local import active_session
from state_engine.spark.wire.schemas import struct_of

DEFAULT_NAME = "Flink Streaming Job"


class StreamExecutionEnvironment(Unlike):
    """Takes down what a program says; `execute` makes a `StreamJob` of it and runs that.

    A method of PyFlink's that is not here raises `UnsupportedMethodError`.

    Args:
        configuration: Settings by Flink's keys.
        session: Spark's session; by default the one that the process has, or a local one, once it is needed.
    """

    _not_there = ENVIRONMENT

    def __init__(self, configuration: Configuration | None = None, session: Any = None) -> None:
        self.ignored: set[str] = set()
        self._configuration = Configuration()
        self._session = session
        self._root: str | None = None
        self._backend: StateBackend | None = None
        self._said: list[Node | SinkEntry] = []
        self._collections = 0
        self._chaining = True
        self._checkpoint_config = CheckpointConfig()
        if configuration is not None:
            self.configure(configuration)

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> "StreamExecutionEnvironment":
        """Returns an environment."""
        return StreamExecutionEnvironment(configuration)

    # Settings -------------------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """Takes over settings. Those that mean nothing here are warned of."""
        keys.warn_of_unknown(configuration, keys.KNOWN | checkpointing.KNOWN)
        checkpointing.configure(self._checkpoint_config, configuration)
        self._configuration.add_all(configuration)

    def set_state_root(self, path: str | os.PathLike[str]) -> "StreamExecutionEnvironment":
        """Says below which folder or URL the state of jobs lies; Flink's key is `execution.checkpointing.dir`.

        A job that is executed under a name which has state there goes on from its newest sealed epoch.
        """
        self._root = os.fspath(path)
        return self

    def set_state_backend(self, state_backend: StateBackend) -> "StreamExecutionEnvironment":
        """Says where workers keep the state that they work on; Flink's key is `state.backend.type`."""
        self._backend = state_backend
        return self

    def set_parallelism(self, parallelism: int) -> "StreamExecutionEnvironment":
        """Sets the number of subtasks of each operator; 1 by default."""
        check_parallelism(parallelism, max(self.get_max_parallelism(), default_max_parallelism(parallelism)))
        self._configuration.set_integer(keys.PARALLELISM, str(parallelism))
        return self

    def get_parallelism(self) -> int:
        """Returns the number of subtasks of each operator."""
        return self._configuration.get_integer(keys.PARALLELISM, 1)

    def set_max_parallelism(self, max_parallelism: int) -> "StreamExecutionEnvironment":
        """Sets the number of key groups, which a job keeps from its first start on."""
        self._configuration.set_integer(keys.MAX_PARALLELISM, str(max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 if it is derived from the parallelism."""
        return self._configuration.get_integer(keys.MAX_PARALLELISM, -1)

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> "StreamExecutionEnvironment":
        """Says how often state is published, in ms: to Delta tables, or to another checkpoint storage.

        Every epoch is sealed, with and without it. `get_checkpoint_config()` holds the rest, and what the mode means.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Returns the settings of checkpoints; changing them changes the environment."""
        return self._checkpoint_config

    def get_checkpoint_interval(self) -> int:
        """Returns the interval in ms; -1 without one."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the mode."""
        return self._checkpoint_config.get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns what the checkpoint configuration was told; it has no effect."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns what the checkpoint configuration was told; it has no effect."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> "StreamExecutionEnvironment":
        """Takes `STREAMING`: results come as records do, also from sources that end.

        Raises:
            UnsupportedMethodError: Another mode, which gives each key's last result alone.
        """
        if execution_mode is not RuntimeExecutionMode.STREAMING:
            raise UnsupportedMethodError(
                f"set_runtime_mode({execution_mode}): programs run in the mode STREAMING.",
                action="Leave it out. To get each key's last result alone, register an event-time timer at 2^63 - 1, "
                "or use an event-time window: both fire when the sources have ended.",
            )
        return self

    def disable_operator_chaining(self) -> "StreamExecutionEnvironment":
        """Runs every operator in tasks of its own."""
        self._chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Says whether operators between which nothing needs an exchange share a task."""
        return self._chaining

    def set_buffer_timeout(self, timeout_millis: int) -> "StreamExecutionEnvironment":
        """Has no effect: records travel an epoch at a time."""
        ignore("set_buffer_timeout", self.ignored)
        return self

    def close(self) -> None:
        """Does nothing: an environment holds nothing open. PyFlink drops cached streams."""

    # Sources --------------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Sequence[Any], type_info: Any = None) -> DataStream:
        """Begins at values, which end.

        Args:
            collection: The values: bare ones, tuples, rows, or dataclasses.
            type_info: Their type; by default what can be seen of them.

        Raises:
            UnsupportedTypeError: They are not of the type, or of several.
        """
        values = list(whole(collection))
        type_ = type_of_values(values) if type_info is None else type_information(type_info)
        batch_of(values, columns_of_type(type_))
        self._collections += 1
        node = CollectionNode("from_collection", (), type_, values=values, number=self._collections)
        node.name = f"collection-{node.number}"
        return DataStream(self, node)

    def from_source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: Any = None,
        *,
        bounded: bool = False,
        replays: bool = True,
    ) -> DataStream:
        """Begins at a streaming DataFrame of Spark.

        Args:
            source: It, after any stateless and deterministic transformation.
            watermark_strategy: Where event times come from; `no_watermarks()` for none.
            source_name: For messages.
            type_info: How an element holds the columns: `Types.TUPLE`, a dataclass, or, for one column, the type of
                its bare value; by default a row.
            bounded: The stream ends with what is there when the job is started.
            replays: False for a source that cannot read again what it has read, as in `StreamJob.from_stream`.

        Raises:
            JobDefinitionError: This is no DataFrame, or it has other columns than the type.
        """
        if not (isinstance(source, DryFrame) or hasattr(source, "isStreaming")):
            raise JobDefinitionError(
                f"from_source() got {type(source).__name__}.",
                action="Read the source with spark.readStream, and give the DataFrame.",
            )
        columns = source.columns_type if isinstance(source, DryFrame) else struct_of(source.schema, source_name)
        if type_info is not None:
            declared = columns_of_type(type_information(type_info))
            if declared.types != columns.types:
                raise JobDefinitionError(
                    f"The source {source_name!r} has the columns {columns.ddl()}, and type_info is {declared.ddl()}.",
                    action="Cast and select them in front, or change type_info.",
                )
            columns = type(columns)(columns.names, columns.types, declared.carrier)
        node = FrameNode("from_source", (), columns, name=source_name, df=source, bounded=bounded, replays=replays)
        stream = DataStream(self, node)
        if watermark_strategy.out_of_orderness is None and not _gives_time(watermark_strategy):
            return stream
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    # Running --------------------------------------------------------------------------------------------------------

    def add(self, said: Node | SinkEntry) -> None:
        """Takes down an operator or a sink; streams call it."""
        self._said.append(said)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the program to its end: that of its bounded sources, a stop, a failure, or Ctrl-C.

        Args:
            job_name: Name of the job, under which its state lies.

        Raises:
            LakestateError: The program cannot run, or what the job failed with.
        """
        begun = time.monotonic()
        client, name = self.start(job_name)
        try:
            client.await_termination()
        except KeyboardInterrupt:
            client.stop()
            raise
        return JobExecutionResult(name, round((time.monotonic() - begun) * 1000))

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Starts the program and returns the running job."""
        return JobClient(*self.start(job_name))

    def start(self, job_name: str | None) -> tuple[SparkJobClient, str]:
        """Starts the program; returns the job as Spark runs it, and its name."""
        job = self.build_job(job_name)
        self._said.clear()
        settings = self._configuration
        ignore_unclaimed = any(settings.get_boolean(key, False) for key in keys.NON_RESTORED)
        mode: Any = keys.first_of(settings, keys.CLAIM_MODE) or "NO_CLAIM"
        client = job.start(
            available_now=job.definition.sources.bounded,
            restore=keys.first_of(settings, keys.RESTORE),
            allow_non_restored_state=ignore_unclaimed,
            claim_mode=mode.upper(),
        )
        return client, job.name

    def build_job(self, job_name: str | None = None) -> StreamJob:
        """Returns the job that `execute` would start, for a look at it.

        Raises:
            JobDefinitionError: The program cannot run as one job.
        """
        settings = self._configuration
        max_parallelism = self.get_max_parallelism()
        storage = self._checkpoint_config.get_checkpoint_storage()
        root = self._root or keys.first_of(settings, keys.ROOT) or path_of(storage)
        job = StreamJob(
            _name_of(job_name or str(settings.get_string(keys.NAME, DEFAULT_NAME))),
            root=_temporary_root() if root is None else root,
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            checkpoint_config=self._checkpoint_config,
            state_backend=self._backend or keys.backend(settings),
            operator_chaining=self._chaining,
            data_inline_threshold=checkpointing.data_inline_threshold(settings),
            show_records=settings.get_boolean(keys.SHOW_RECORDS, True),
        )
        if self._session is None:
            self._session = active_session()
        translation = Translation(job, self._session, self._said)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"The (operator|sink) has no uid")
            translation.build()
        if root is not None:
            _warn_of_generated(job, translation.nameless_sinks)
        return job


def _gives_time(strategy: WatermarkStrategy) -> bool:
    return strategy.timestamp is not None or strategy.assigner is not None


def _name_of(name: str) -> str:
    """Returns a job's name as folders have it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "job"


def _temporary_root() -> str:
    root = tempfile.mkdtemp(prefix="lakestate-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    warnings.warn(
        "The job has no state root: its state lies in a temporary folder, and goes with this process. "
        "env.set_state_root(path), or the setting execution.checkpointing.dir, keeps it.",
        stacklevel=authors_level(),
    )
    return root


def _warn_of_generated(job: StreamJob, sinks: int) -> None:
    """Warns of what a program of another shape would not find again."""
    nameless = [node.uid for node in job.operators if node.generated_uid and node.states]
    if nameless or sinks:
        found = [*([f"operators with state ({', '.join(nameless)})"] if nameless else [])]
        found += [f"{sinks} sink(s)"] if sinks else []
        warnings.warn(
            f"{' and '.join(found)} of job {job.name!r} have no uid, and are called after their place. "
            "Call .uid('...') behind them: a program of another shape will not find their state and output.",
            stacklevel=authors_level(),
        )


__all__ = ["StreamExecutionEnvironment"]
