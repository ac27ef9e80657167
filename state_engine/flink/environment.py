"""`StreamExecutionEnvironment`, with PyFlink's name: where a program begins, and how it runs."""

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
from state_engine.flink.differences import ENVIRONMENT, PyFlinkCounterpart, ignore
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


class StreamExecutionEnvironment(PyFlinkCounterpart):
    """Records the calls of a program; `execute` makes a `StreamJob` from them and runs it.

    An unsupported method of PyFlink's class raises `UnsupportedMethodError`.

    Args:
        configuration: Settings by Flink's keys.
        session: The Spark session; by default the process's session, or a local one, created when it is needed.
    """

    _unsupported = ENVIRONMENT

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
        """Applies settings, and warns of settings that have no effect."""
        keys.warn_of_unknown(configuration, keys.KNOWN | checkpointing.KNOWN)
        checkpointing.configure(self._checkpoint_config, configuration)
        self._configuration.add_all(configuration)

    def set_state_root(self, path: str | os.PathLike[str]) -> "StreamExecutionEnvironment":
        """Sets the folder or URL below which the state of jobs is stored; Flink's key is `execution.checkpointing.dir`.

        If state of the job's name exists there, the job continues from its newest sealed epoch.
        """
        self._root = os.fspath(path)
        return self

    def set_state_backend(self, state_backend: StateBackend) -> "StreamExecutionEnvironment":
        """Sets where workers keep their working state; Flink's key is `state.backend.type`."""
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
        """Sets the number of key groups, which is fixed with a job's first start."""
        self._configuration.set_integer(keys.MAX_PARALLELISM, str(max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 if it is derived from the parallelism."""
        return self._configuration.get_integer(keys.MAX_PARALLELISM, -1)

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> "StreamExecutionEnvironment":
        """Sets how often state is published, in ms: to Delta tables, or to another checkpoint storage.

        Every epoch is sealed, with or without this call. `get_checkpoint_config()` has the other settings, and explains
        the mode.
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
        """Returns the setting of the checkpoint configuration; it has no effect."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns the setting of the checkpoint configuration; it has no effect."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> "StreamExecutionEnvironment":
        """Accepts only `STREAMING`: results come as records come, also from sources that end.

        Raises:
            UnsupportedMethodError: Another mode, which gives only each key's last result.
        """
        if execution_mode is not RuntimeExecutionMode.STREAMING:
            raise UnsupportedMethodError(
                f"set_runtime_mode({execution_mode}): programs run in the mode STREAMING.",
                action="Remove the call. To get only each key's last result, register an event-time timer at 2^63 - 1, "
                "or use an event-time window: both fire when the sources have ended.",
            )
        return self

    def disable_operator_chaining(self) -> "StreamExecutionEnvironment":
        """Runs every operator in tasks of its own."""
        self._chaining = False
        return self

    def is_chaining_enabled(self) -> bool:
        """Returns whether operators share a task if nothing between them needs an exchange."""
        return self._chaining

    def set_buffer_timeout(self, timeout_millis: int) -> "StreamExecutionEnvironment":
        """Has no effect: records are sent one epoch at a time."""
        ignore("set_buffer_timeout", self.ignored)
        return self

    def close(self) -> None:
        """Does nothing: an environment holds nothing open. PyFlink drops cached streams."""

    # Sources --------------------------------------------------------------------------------------------------------

    def from_collection(self, collection: Sequence[Any], type_info: Any = None) -> DataStream:
        """Returns a stream of values, which ends.

        Args:
            collection: The values: bare values, tuples, rows, or dataclasses.
            type_info: Their type; by default it is derived from the values.

        Raises:
            UnsupportedTypeError: The values are not of the type, or have several types.
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
        """Returns the stream of a streaming Spark DataFrame.

        Args:
            source: The DataFrame, after any stateless and deterministic transformations.
            watermark_strategy: Gives event times and watermarks; `no_watermarks()` for none.
            source_name: Name for messages.
            type_info: How an element holds the columns: `Types.TUPLE`, a dataclass, or, for one column, the type of
                its bare value; by default a row.
            bounded: The stream ends with the records that exist when the job starts.
            replays: False for a source that cannot read again what it has read, as in `StreamJob.from_stream`.

        Raises:
            JobDefinitionError: `source` is no DataFrame, or its columns differ from those of the type.
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
                    action="Cast and select them before from_source(), or change type_info.",
                )
            columns = type(columns)(columns.names, columns.types, declared.carrier)
        node = FrameNode("from_source", (), columns, name=source_name, df=source, bounded=bounded, replays=replays)
        stream = DataStream(self, node)
        if watermark_strategy.out_of_orderness is None and not _gives_time(watermark_strategy):
            return stream
        return stream.assign_timestamps_and_watermarks(watermark_strategy)

    # Running --------------------------------------------------------------------------------------------------------

    def add(self, said: Node | SinkEntry) -> None:
        """Records an operator or a sink; streams call it."""
        self._said.append(said)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the program until its bounded sources end, it is stopped, it fails, or Ctrl-C.

        Args:
            job_name: Name of the job, under which its state is stored.

        Raises:
            LakestateError: The program cannot run, or the job failed with this error.
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
        """Starts the program; returns the client of the Spark job, and the job's name."""
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
        """Returns the job that `execute` would start, for inspection.

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
    """Returns a job's name in a form that fits a folder name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "job"


def _temporary_root() -> str:
    root = tempfile.mkdtemp(prefix="lakestate-")
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    warnings.warn(
        "The job has no state root: its state is in a temporary folder, which is deleted when this process ends. "
        "To keep it, call env.set_state_root(path), or set execution.checkpointing.dir.",
        stacklevel=authors_level(),
    )
    return root


def _warn_of_generated(job: StreamJob, sinks: int) -> None:
    """Warns of operators with state, and sinks, that have no uid: a changed program would not find them again."""
    nameless = [node.uid for node in job.operators if node.generated_uid and node.states]
    if nameless or sinks:
        parts = [*([f"operators with state ({', '.join(nameless)})"] if nameless else [])]
        parts += [f"{sinks} sink(s)"] if sinks else []
        warnings.warn(
            f"{' and '.join(parts)} of job {job.name!r} have no uid, and are named after their place. "
            "Call .uid('...') on each of them: a changed program will not find their state and output.",
            stacklevel=authors_level(),
        )


__all__ = ["StreamExecutionEnvironment"]
