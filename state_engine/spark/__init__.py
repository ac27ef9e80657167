"""The only room that knows Spark: session, jars, routing, task runner, epoch driver, sources, sinks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_engine.spark.client import EpochSummary, JobClient
    from state_engine.spark.job import StreamJob
    from state_engine.spark.savepoint_writer import SparkWriter
    from state_engine.spark.session import local_session
    from state_engine.spark.sinks import DeltaSink, DiscardingSink, EpochId, ForeachEpochSink, MemorySink, Sink

_HOMES = {
    "EpochSummary": "client",
    "JobClient": "client",
    "StreamJob": "job",
    "local_session": "session",
    "DeltaSink": "sinks",
    "DiscardingSink": "sinks",
    "EpochId": "sinks",
    "ForeachEpochSink": "sinks",
    "MemorySink": "sinks",
    "Sink": "sinks",
    "SparkWriter": "savepoint_writer",
}


def __getattr__(name: str) -> Any:
    """Loads on first use: a worker needs the task runner alone, and pays for nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "DeltaSink",
    "DiscardingSink",
    "EpochId",
    "EpochSummary",
    "ForeachEpochSink",
    "JobClient",
    "MemorySink",
    "Sink",
    "SparkWriter",
    "StreamJob",
    "local_session",
]
