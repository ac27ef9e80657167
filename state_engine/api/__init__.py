"""What an author builds a job from: functions, states, descriptors, types, rows and output tags.

Windows, their assigners, triggers and evictors are in `state_engine.api.windows`.
"""

from state_engine.api.aggregates import Aggregate
from state_engine.api.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    BroadcastState,
    KeyedBroadcastProcessFunction,
    ReadOnlyBroadcastState,
)
from state_engine.api.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from state_engine.api.checkpoint_storage import (
    CheckpointStorage,
    DeltaCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from state_engine.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    StateInitializationContext,
    StateSnapshotContext,
)
from state_engine.api.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from state_engine.api.codecs import TypeCodec, register_type_codec
from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.durations import Duration, Time
from state_engine.api.evolution import alias
from state_engine.api.functions import (
    AggregateFunction,
    ColumnAggregateFunction,
    ColumnReduceFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    KeyedStateStore,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from state_engine.api.output_tag import OutputTag
from state_engine.api.pyflink_types import Types
from state_engine.api.raw_state import (
    KeyedStateCheckpointOutputStream,
    KeyGroupStatePartitionStreamProvider,
    OperatorStateCheckpointOutputStream,
    StatePartitionStreamProvider,
)
from state_engine.api.row import Row
from state_engine.api.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from state_engine.api.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from state_engine.api.timers import TimeDomain, TimerService
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import TypeInformation
from state_engine.api.watermarks import TimestampAssigner, WatermarkStrategy
from state_engine.api.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "Aggregate",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AppendingState",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "BroadcastState",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ColumnAggregateFunction",
    "ColumnReduceFunction",
    "DeltaCheckpointStorage",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeyGroupStatePartitionStreamProvider",
    "KeyedBatchProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateCheckpointOutputStream",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateCheckpointOutputStream",
    "OperatorStateStore",
    "OutputTag",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RuntimeContext",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StateInitializationContext",
    "StatePartitionStreamProvider",
    "StateSnapshotContext",
    "StateTtlConfig",
    "Time",
    "TimeDomain",
    "TimerService",
    "TimestampAssigner",
    "TypeCodec",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
    "WindowFunction",
    "alias",
    "register_type_codec",
]
