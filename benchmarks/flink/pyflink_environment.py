"""Settings, source and sink of the PyFlink jobs. Only the client imports it, so it need not be sent to workers."""

import os
import sys
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import Schema, StreamTableEnvironment
from pyflink.table.expressions import col


def settings_of(mode: str, parallelism: str, backend: str, interval: str, checkpoints: str) -> Configuration:
    """Returns Flink's settings, the same as those of `Jobs.java`, and the mode of Python functions."""
    if mode == "process":
        # Otherwise a local job runs its workers as threads of this process, which a cluster never does.
        os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112 - PyFlink's name
    settings = Configuration()
    settings.set_string("state.backend.type", backend)
    settings.set_string("execution.checkpointing.interval", f"{interval} ms")
    settings.set_string("execution.checkpointing.storage", "filesystem")
    settings.set_string("execution.checkpointing.dir", Path(checkpoints).as_uri())
    settings.set_string("execution.checkpointing.incremental", "true")
    settings.set_string("taskmanager.memory.managed.size", "512m")
    settings.set_string("taskmanager.numberOfTaskSlots", parallelism)
    settings.set_string("pipeline.object-reuse", "true")
    settings.set_string("python.execution-mode", mode)
    settings.set_string("python.executable", sys.executable)
    return settings


def stream_of(tables: StreamTableEnvironment, timed: tuple[str, ...]) -> Any:
    """Returns the records. Each carries its event time, not as a column, which would be made a Python object."""
    table = tables.from_path("records")
    if not timed:
        return tables.to_data_stream(table)
    schema = Schema.new_builder()
    for name in timed:
        schema = schema.column(name, "BIGINT")
    schema = schema.column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
    return tables.to_changelog_stream(table.select(*map(col, (*timed, "rowtime"))), schema.build())


def discard(stream: Any) -> None:
    """Discards the rows in the JVM: PyFlink has no such sink."""
    from pyflink.java_gateway import get_gateway

    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream._j_data_stream.sinkTo(sink)
