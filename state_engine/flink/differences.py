"""PyFlink methods and names that are missing here, with advice; and methods that have no effect."""

import warnings
from typing import Any, ClassVar, NoReturn

from state_engine.errors import UnsupportedMethodError, UnsupportedNameError
from state_engine.spark.graph.uids import authors_level

_PLACES = "an operator's subtasks are Spark's tasks, which take whatever slot is free"
IGNORED = {
    "slot_sharing_group": _PLACES,
    "set_buffer_timeout": "records are sent one epoch at a time",
    "set_description": "nothing shows descriptions",
    "set_max_parallelism": "the number of key groups is set for the whole job: env.set_max_parallelism()",
    "set_parallelism": "parallelism is set for the whole job: env.set_parallelism()",
}
"""Methods of streams and sinks that do not change results, with the reason; each warns once per program."""

STREAM = {
    "set_uid_hash": "Give the operator a uid(): its state is found under it.",
    "partition_custom": "Use key_by(): the key of a record decides its subtask.",
    "cache": "Send the stream to a DeltaSink, and read that table in the next job.",
    "get_execution_config": "Use the setter methods of the environment.",
}
DATA_STREAM = STREAM
KEYED_STREAM = STREAM
WINDOWED_STREAM: dict[str, str] = {}
CONNECTED_STREAMS: dict[str, str] = {}
JOB_CLIENT = {
    "get_accumulators": "Count in a state: instances of functions, and so accumulators, live longer than an epoch."
}
DATA_STREAM_SINK = {"set_uid_hash": STREAM["set_uid_hash"]}
_FILES = "Send files to the workers with Spark: spark.sparkContext.addPyFile(...), addFile(...), or its archives."
_PYTHON = "Workers run Spark's Python: set spark.pyspark.python."
_SAVEPOINTS = "Savepoints are stored in the job's folder below the state root: set_state_root(path)."
ENVIRONMENT = {
    "enable_changelog_state_backend": "There is nothing to enable: every epoch's changes are logged.",
    "is_changelog_state_backend_enabled": "Every epoch's changes are logged.",
    "set_default_savepoint_directory": _SAVEPOINTS,
    "get_default_savepoint_directory": _SAVEPOINTS,
    "get_config": "Use the setter methods of the environment.",
    "get_buffer_timeout": "Records are sent one epoch at a time.",
    "get_default_local_parallelism": "Parallelism is 1 unless it is set: get_parallelism().",
    "set_default_local_parallelism": "Set it in each program: set_parallelism(...).",
    "get_execution_plan": "state_engine.spark.explain.explain_job(env.build_job()) shows operators, chains and states.",
    "is_chaining_of_operators_with_different_max_parallelism_enabled": "All operators have the job's max parallelism.",
    "register_slot_sharing_group": "An operator's subtasks are Spark's tasks, which take whatever slot is free.",
    "add_source": "Read the source with spark.readStream, and give its DataFrame to from_source().",
    "create_input": "Read the source with spark.readStream, and give its DataFrame to from_source().",
    "read_text_file": "Read it with spark.readStream.text(folder), and give its DataFrame to from_source().",
    "add_jars": "Give jars to the Spark session.",
    "add_classpaths": "Give jars to the Spark session.",
    "add_python_file": _FILES,
    "add_python_archive": _FILES,
    "register_cached_file": _FILES,
    "set_python_requirements": _PYTHON,
    "set_python_executable": _PYTHON,
    "set_restart_strategy": "Start the program again: it continues from its newest sealed epoch.",
}
_NO_RESTART = "Remove it, and start the program again: it continues from its newest sealed epoch."
_NO_ASYNC = "Call the service in a map(), a batch of records at a time if it can, or join its data in Spark."
_SOURCE = "Read the source with spark.readStream, and give its DataFrame to from_source()."
_SINK = "Use DeltaSink, or ForeachEpochSink, which gives each epoch's rows to a function."
_DATABASE = "Use PostgresSink, or a TransactionalSink of your own for another database."
_FORMATS = "Read and write formats with Spark: spark.readStream before from_source(), DeltaSink at the end."
_TABLES = "Use Spark SQL on the DataFrame, before from_source()."
NAMES = {
    "AssignerWithPeriodicWatermarksWrapper": "Give a WatermarkStrategy; watermarks advance once per epoch.",
    **dict.fromkeys(("AsyncDataStream", "AsyncFunction", "AsyncFunctionDescriptor"), _NO_ASYNC),
    **dict.fromkeys(("AsyncRetryPredicate", "AsyncRetryStrategy"), _NO_ASYNC),
    "CustomCheckpointStorage": "Use DeltaCheckpointStorage, or PyFlink's other two storages.",
    "CustomStateBackend": "Use HashMapStateBackend or EmbeddedRocksDBStateBackend.",
    "ConfigOption": "Set it by its key: Configuration().set_string(key, value).",
    "ConfigOptions": "Set it by its key: Configuration().set_string(key, value).",
    "ExecutionConfig": "Use the setter methods of the environment.",
    **dict.fromkeys(("RestartStrategies", "RestartStrategyConfiguration"), _NO_RESTART),
    "Instant": "A point in time is an aware datetime: datetime.now(timezone.utc).",
    "RowKind": "Remove it: every record is an insert.",
    "Partitioner": STREAM["partition_custom"],
    **dict.fromkeys(("SlotSharingGroup", "MemorySize"), "Remove it: subtasks are Spark's tasks."),
    **dict.fromkeys(("Source", "SourceFunction", "FileSource", "KafkaSource", "NumberSequenceSource"), _SOURCE),
    **dict.fromkeys(("SinkFunction", "FileSink", "RollingPolicy", "OutputFileConfig"), _SINK),
    "KafkaSink": "Use state_engine.spark.KafkaSink(servers, topic): it has no builder.",
    "JdbcSink": _DATABASE,
    **dict.fromkeys(("SerializationSchema", "DeserializationSchema", "SimpleStringSchema", "Encoder"), _FORMATS),
    **dict.fromkeys(("ByteArraySchema", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"), _FORMATS),
    **dict.fromkeys(("TableEnvironment", "StreamTableEnvironment", "DataTypes", "Schema"), _TABLES),
    "TypeSerializer": "Give a class of your own a TypeCodec: register_type_codec(cls, codec).",
    "InputDependencyConstraint": "Remove it.",
}
"""PyFlink's names that programs import and that are missing here, with what to do instead."""


class PyFlinkCounterpart:
    """Base of the classes that PyFlink has too: the error for a missing method says what to do instead."""

    _unsupported: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in self._unsupported:
            raise UnsupportedMethodError(f"{kind}.{name}() is not supported.", action=self._unsupported[name])
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def refuse_name(name: str) -> NoReturn:
    """Raises the error for a name that the module does not have.

    Raises:
        UnsupportedNameError: PyFlink has the name; the error says what to do instead.
        AttributeError: PyFlink does not have it either.
    """
    if name in NAMES:
        raise UnsupportedNameError(f"There is no {name} here.", action=NAMES[name])
    raise AttributeError(f"module 'state_engine.flink' has no attribute {name!r}")


def ignore(method: str, seen: set[str]) -> None:
    """Warns, once per program, that a call has no effect.

    Args:
        method: Its name, one of `IGNORED`.
        seen: Methods of which the program was already warned.
    """
    if method not in seen:
        seen.add(method)
        warnings.warn(f"{method}() has no effect here: {IGNORED[method]}.", stacklevel=authors_level())


__all__ = [
    "CONNECTED_STREAMS",
    "DATA_STREAM",
    "DATA_STREAM_SINK",
    "ENVIRONMENT",
    "IGNORED",
    "JOB_CLIENT",
    "KEYED_STREAM",
    "NAMES",
    "STREAM",
    "WINDOWED_STREAM",
    "PyFlinkCounterpart",
    "ignore",
    "refuse_name",
]
