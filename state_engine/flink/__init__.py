"""All names for a PyFlink DataStream program: `from state_engine.flink import StreamExecutionEnvironment, …`."""

from typing import TYPE_CHECKING, Any

from state_engine.api import *  # noqa: F403
from state_engine.api import __all__ as _api
from state_engine.api.sinks import Sink, TransactionalSink
from state_engine.api.windows import *  # noqa: F403
from state_engine.api.windows import __all__ as _windows
from state_engine.connectors.postgresql.sink import PostgresSink
from state_engine.flink.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from state_engine.flink.configuration import Configuration, RuntimeExecutionMode
from state_engine.flink.connected_streams import ConnectedStreams
from state_engine.flink.data_stream import DataStream, DataStreamSink
from state_engine.flink.differences import refuse_name as _refuse_name
from state_engine.flink.environment import StreamExecutionEnvironment
from state_engine.flink.job_client import CompletableFuture, JobClient, JobStatus
from state_engine.flink.keyed_stream import AllWindowedStream, KeyedStream, WindowedStream
from state_engine.flink.results import CloseableIterator, JobExecutionResult
from state_engine.runtime.keyed_elements import KeySelector
from state_engine.spark.graph.sinks import DeltaSink, DiscardingSink, EpochId, ForeachEpochSink, MemorySink

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CompletableFuture",
    "Configuration",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "DeltaSink",
    "DiscardingSink",
    "EpochId",
    "ForeachEpochSink",
    "JobClient",
    "JobExecutionResult",
    "JobStatus",
    "KeySelector",
    "KeyedStream",
    "MemorySink",
    "PostgresSink",
    "RuntimeExecutionMode",
    "Sink",
    "StreamExecutionEnvironment",
    "TransactionalSink",
    "WindowedStream",
]
__all__ += [*_api, *(name for name in _windows if name not in _api)]

if not TYPE_CHECKING:  # a type checker reports missing names anyway

    def __getattr__(name: str) -> Any:
        _refuse_name(name)
