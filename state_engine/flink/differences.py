"""What PyFlink's classes have and ours do not, with what to do instead; and what is taken without an effect."""

import warnings
from typing import Any, ClassVar, NoReturn

from state_engine.errors import UnsupportedMethodError, UnsupportedNameError
from state_engine.spark.graph.uids import authors_level

_PLACES = "an operator's subtasks are Spark's tasks, which take whatever slot is free"
IGNORED = {
    "slot_sharing_group": _PLACES,
    "set_buffer_timeout": "records travel an epoch at a time",
    "set_description": "nothing shows descriptions",
    "set_max_parallelism": "the number of key groups is the job's: env.set_max_parallelism()",
    "set_parallelism": "parallelism is the job's: env.set_parallelism()",
}
"""Methods of streams and sinks that change nothing about results; each is said once per program."""

STREAM = {
    "set_uid_hash": "Give the operator a uid(): its state is found under that.",
    "partition_custom": "Use key_by(): what a record's subtask is, is what its key says.",
    "cache": "Send the stream to a DeltaSink, and read that table in the next job.",
    "get_execution_config": "What can be set is a method of the environment.",
}
DATA_STREAM = STREAM
KEYED_STREAM = STREAM
WINDOWED_STREAM: dict[str, str] = {}
CONNECTED_STREAMS: dict[str, str] = {}
JOB_CLIENT = {
    "get_accumulators": "Count in a state: instances of functions outlive epochs, and accumulators with them."
}
DATA_STREAM_SINK = {"set_uid_hash": STREAM["set_uid_hash"]}
_FILES = "Send files to the workers by Spark: spark.sparkContext.addPyFile(...), addFile(...), or its archives."
_PYTHON = "Workers run Spark's Python: spark.pyspark.python."
_SAVEPOINTS = "Savepoints lie in the job's folder below the state root: set_state_root(path)."
ENVIRONMENT = {
    "enable_changelog_state_backend": "Nothing has to be enabled: every epoch's changes are logged.",
    "is_changelog_state_backend_enabled": "Every epoch's changes are logged.",
    "set_default_savepoint_directory": _SAVEPOINTS,
    "get_default_savepoint_directory": _SAVEPOINTS,
    "get_config": "What can be set is a method of the environment.",
    "get_buffer_timeout": "Records travel an epoch at a time.",
    "get_default_local_parallelism": "Parallelism is 1 unless it is set: get_parallelism().",
    "set_default_local_parallelism": "Say it of each program: set_parallelism(...).",
    "get_execution_plan": "state_engine.spark.explain.explain_job(env.build_job()) has operators, chains and states.",
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
    "set_restart_strategy": "Start the program again: it goes on from its newest sealed epoch.",
}
_NO_RESTART = "Leave it out, and start the program again: it goes on from its newest sealed epoch."
_NO_ASYNC = "Call the service in a map(), a batch of records at a time where it can, or join its data in Spark."
_SOURCE = "Read the source with spark.readStream, and give its DataFrame to from_source()."
_SINK = "Use DeltaSink, or ForeachEpochSink, which gives each epoch's rows to a function."
_FORMATS = "Read and write formats by Spark: spark.readStream in front of from_source(), DeltaSink behind."
_TABLES = "Say it in Spark SQL on the DataFrame, in front of from_source()."
NAMES = {
    "AssignerWithPeriodicWatermarksWrapper": "Give a WatermarkStrategy; watermarks come once an epoch.",
    **dict.fromkeys(("AsyncDataStream", "AsyncFunction", "AsyncFunctionDescriptor"), _NO_ASYNC),
    **dict.fromkeys(("AsyncRetryPredicate", "AsyncRetryStrategy"), _NO_ASYNC),
    "CustomCheckpointStorage": "Use one of ours: DeltaCheckpointStorage, or PyFlink's other two.",
    "CustomStateBackend": "Use HashMapStateBackend or EmbeddedRocksDBStateBackend.",
    "ConfigOption": "Set it by its key: Configuration().set_string(key, value).",
    "ConfigOptions": "Set it by its key: Configuration().set_string(key, value).",
    "ExecutionConfig": "What can be set is a method of the environment.",
    **dict.fromkeys(("RestartStrategies", "RestartStrategyConfiguration"), _NO_RESTART),
    "Instant": "A point in time is an aware datetime: datetime.now(timezone.utc).",
    "RowKind": "Leave it out: every record is an insert.",
    "Partitioner": STREAM["partition_custom"],
    **dict.fromkeys(("SlotSharingGroup", "MemorySize"), "Leave it out: subtasks are Spark's tasks."),
    **dict.fromkeys(("Source", "SourceFunction", "FileSource", "KafkaSource", "NumberSequenceSource"), _SOURCE),
    **dict.fromkeys(("SinkFunction", "FileSink", "KafkaSink", "JdbcSink", "RollingPolicy", "OutputFileConfig"), _SINK),
    **dict.fromkeys(("SerializationSchema", "DeserializationSchema", "SimpleStringSchema", "Encoder"), _FORMATS),
    **dict.fromkeys(("ByteArraySchema", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"), _FORMATS),
    **dict.fromkeys(("TableEnvironment", "StreamTableEnvironment", "DataTypes", "Schema"), _TABLES),
    "TypeSerializer": "Give a class of your own a TypeCodec: register_type_codec(cls, codec).",
    "InputDependencyConstraint": "Leave it out.",
}
"""PyFlink's names that programs import, and that are not here, with what to do instead."""


class Unlike:
    """Base of the classes that PyFlink has too: says of a method that is not there what to do instead."""

    _not_there: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in self._not_there:
            raise UnsupportedMethodError(f"{kind}.{name}() is not there.", action=self._not_there[name])
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


def refuse_name(name: str) -> NoReturn:
    """Says of a name that a module was asked for what to do instead.

    Raises:
        UnsupportedNameError: PyFlink has it.
        AttributeError: It has not either.
    """
    if name in NAMES:
        raise UnsupportedNameError(f"There is no {name} here.", action=NAMES[name])
    raise AttributeError(f"module 'state_engine.flink' has no attribute {name!r}")


def ignore(method: str, seen: set[str]) -> None:
    """Warns, once per program, that a call has no effect.

    Args:
        method: Its name, one of `IGNORED`.
        seen: Those that the program was told of.
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
    "Unlike",
    "ignore",
    "refuse_name",
]
