"""What PyFlink's classes have and ours do not, with what to do instead; and what is taken without an effect."""

import warnings
from typing import Any, ClassVar

from state_engine.errors import UnsupportedMethodError
from state_engine.spark.uids import authors_level

_PLACES = "an operator's subtasks are Spark's tasks, which take whatever slot is free"
IGNORED = {
    "slot_sharing_group": _PLACES,
    "set_buffer_timeout": "records travel an epoch at a time",
    "set_description": "nothing shows descriptions",
    "set_max_parallelism": "the number of key groups is the job's: env.set_max_parallelism()",
    "set_parallelism": "parallelism is the job's: env.set_parallelism()",
}
"""Methods of streams and sinks that change nothing about results; each is said once per program."""

_CONFIGURED = "What can be set about checkpoints: enable_checkpointing(interval), set_state_root(path)."
STREAM = {
    "set_uid_hash": "Give the operator a uid(): its state is found under that.",
    "partition_custom": "Use key_by(): what a record's subtask is, is what its key says.",
    "cache": "Send the stream to a DeltaSink, and read that table in the next job.",
}
DATA_STREAM = STREAM
KEYED_STREAM = STREAM
WINDOWED_STREAM: dict[str, str] = {}
CONNECTED_STREAMS: dict[str, str] = {}
DATA_STREAM_SINK = {"set_uid_hash": STREAM["set_uid_hash"]}
ENVIRONMENT = {
    "get_checkpoint_config": _CONFIGURED,
    "enable_changelog_state_backend": "Nothing has to be enabled: every epoch's changes are logged.",
    "is_changelog_state_backend_enabled": "Every epoch's changes are logged.",
    "set_default_savepoint_directory": "Savepoints lie in the job's folder below the state root: set_state_root(path).",
    "get_default_savepoint_directory": "Savepoints lie in the job's folder below the state root.",
    "is_unaligned_checkpoints_enabled": _CONFIGURED,
    "is_force_unaligned_checkpoints": _CONFIGURED,
    "add_source": "Read the source with spark.readStream, and give its DataFrame to from_source().",
    "read_text_file": "Read it with spark.readStream.text(folder), and give its DataFrame to from_source().",
    "add_jars": "Give jars to the Spark session.",
    "add_python_file": "Send files by spark.sparkContext.addPyFile(...).",
    "set_restart_strategy": "Start the program again: it goes on from its newest sealed epoch.",
}


class Unlike:
    """Base of the classes that PyFlink has too: says of a method that is not there what to do instead."""

    _not_there: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in self._not_there:
            raise UnsupportedMethodError(f"{kind}.{name}() is not there.", action=self._not_there[name])
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")


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
    "KEYED_STREAM",
    "STREAM",
    "WINDOWED_STREAM",
    "Unlike",
    "ignore",
]
