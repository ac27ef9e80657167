"""The only room that uses Spark. `README.md` lists what its folders own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_engine.api.sinks import SinkConnection, SinkMarker, SinkName, TransactionalSink, Upsert
    from state_engine.connectors.kafka.sink import KafkaSink
    from state_engine.connectors.postgresql.sink import PostgresSink
    from state_engine.spark.driver.client import EpochSummary, JobClient
    from state_engine.spark.driver.savepoint_writer import SparkWriter
    from state_engine.spark.graph.sinks import (
        DeltaSink,
        DiscardingSink,
        EpochId,
        ForeachEpochSink,
        MemorySink,
        Sink,
    )
    from state_engine.spark.graph.stream import DataStream
    from state_engine.spark.job import StreamJob
    from state_engine.spark.session.cluster import cluster_session
    from state_engine.spark.session.connectors import needs_connectors
    from state_engine.spark.session.local import CLUSTER_DEFAULTS, local_session

_HOMES = {
    "CLUSTER_DEFAULTS": "session.local",
    "DataStream": "graph.stream",
    "DeltaSink": "graph.sinks",
    "DiscardingSink": "graph.sinks",
    "EpochId": "graph.sinks",
    "EpochSummary": "driver.client",
    "ForeachEpochSink": "graph.sinks",
    "JobClient": "driver.client",
    "KafkaSink": "state_engine.connectors.kafka.sink",
    "MemorySink": "graph.sinks",
    "PostgresSink": "state_engine.connectors.postgresql.sink",
    "Sink": "graph.sinks",
    "SinkConnection": "state_engine.api.sinks",
    "SinkMarker": "state_engine.api.sinks",
    "SinkName": "state_engine.api.sinks",
    "SparkWriter": "driver.savepoint_writer",
    "StreamJob": "job",
    "TransactionalSink": "state_engine.api.sinks",
    "Upsert": "state_engine.api.sinks",
    "cluster_session": "session.cluster",
    "local_session": "session.local",
    "needs_connectors": "session.connectors",
}


def __getattr__(name: str) -> Any:
    """Loads a name on first use: a worker needs only the task runner, and should not load anything else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES[name]
    return getattr(import_module(home if home.startswith("state_engine.") else f"{__name__}.{home}"), name)


__all__ = [
    "CLUSTER_DEFAULTS",
    "DataStream",
    "DeltaSink",
    "DiscardingSink",
    "EpochId",
    "EpochSummary",
    "ForeachEpochSink",
    "JobClient",
    "KafkaSink",
    "MemorySink",
    "PostgresSink",
    "Sink",
    "SinkConnection",
    "SinkMarker",
    "SinkName",
    "SparkWriter",
    "StreamJob",
    "TransactionalSink",
    "Upsert",
    "cluster_session",
    "local_session",
    "needs_connectors",
]
