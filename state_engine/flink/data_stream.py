"""`DataStream`, with PyFlink's name and methods; nothing runs before `execute`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.functions import FilterFunction, FlatMapFunction, MapFunction, ProcessFunction
from state_engine.api.output_tag import OutputTag
from state_engine.api.pyflink_types import Types
from state_engine.api.types import Bare, TypeInformation, type_of_columns
from state_engine.api.watermarks import WatermarkStrategy
from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.counting import count_windows
from state_engine.errors import JobDefinitionError
from state_engine.flink.differences import DATA_STREAM, DATA_STREAM_SINK, PyFlinkCounterpart, ignore
from state_engine.flink.elements import output_type_of, project_type
from state_engine.flink.keys import Selector, key_of
from state_engine.flink.nodes import BroadcastNode, Node, SideNode, SinkEntry, StatelessNode, TimedNode, UnionNode
from state_engine.flink.printing import Printing
from state_engine.runtime.adapters import FilterAdapter, FlatMapAdapter, MapAdapter, given
from state_engine.runtime.chain import Projection
from state_engine.runtime.outputs import side_output_columns
from state_engine.runtime.spec import key_columns
from state_engine.spark.graph.sinks import Sink

if TYPE_CHECKING:
    from state_engine.flink.broadcast_streams import BroadcastConnectedStream, BroadcastStream
    from state_engine.flink.connected_streams import ConnectedStreams
    from state_engine.flink.environment import StreamExecutionEnvironment
    from state_engine.flink.keyed_stream import AllWindowedStream, KeyedStream
    from state_engine.flink.results import CloseableIterator


class DataStream(PyFlinkCounterpart):
    """A stream of elements; PyFlink's class of the same name.

    Elements are rows, tuples, or bare values, by their type. Consecutive `map`, `flat_map` and `filter` calls run in
    one operator, as Flink chains them. An unsupported method of PyFlink's class raises `UnsupportedMethodError`.
    """

    _unsupported = DATA_STREAM

    def __init__(self, env: "StreamExecutionEnvironment", node: Node) -> None:
        self._env = env
        self._node = node

    # About the transformation ---------------------------------------------------------------------------------------

    def get_name(self) -> str:
        """Returns the name of the transformation; by default its method's name."""
        return self._node.name or self._node.verb

    def name(self, name: str) -> "DataStream":
        """Names the transformation, for messages."""
        self._node.name = name
        return self

    def uid(self, uid: str) -> "DataStream":
        """Sets the stable name of the operator, under which its state is found."""
        self._node.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> "DataStream":
        """Has no effect: parallelism is set for the whole job."""
        if parallelism != self._env.get_parallelism():
            self._ignore("set_parallelism")
        return self

    def set_max_parallelism(self, max_parallelism: int) -> "DataStream":
        """Has no effect: the number of key groups is set for the whole job."""
        self._ignore("set_max_parallelism")
        return self

    def force_non_parallel(self) -> "DataStream":
        """Requires one subtask: `execute` refuses a job whose parallelism is not 1."""
        self._node.non_parallel = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> "DataStream":
        """Has no effect: records are sent one epoch at a time."""
        self._ignore("set_buffer_timeout")
        return self

    def slot_sharing_group(self, slot_sharing_group: Any) -> "DataStream":
        """Has no effect: subtasks are Spark's tasks."""
        self._ignore("slot_sharing_group")
        return self

    def set_description(self, description: str) -> "DataStream":
        """Has no effect."""
        self._ignore("set_description")
        return self

    def start_new_chain(self) -> "DataStream":
        """Does not chain this transformation to the one before it."""
        if isinstance(self._node, StatelessNode):
            self._node.chains_on = False
        return self

    def disable_chaining(self) -> "DataStream":
        """Runs this transformation in an operator of its own."""
        self._node.chains_off = False
        return self.start_new_chain()

    def get_type(self) -> TypeInformation:
        """Returns the type of the elements."""
        return type_of_columns(self._node.columns("get_type()"))

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """Returns the environment in which the stream began."""
        return self._env

    def _ignore(self, method: str) -> None:
        ignore(method, self._env.ignored)

    # Transformations ------------------------------------------------------------------------------------------------

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: Any = None) -> "DataStream":
        """Makes one element from each element."""
        return self._stateless("map", MapAdapter(func), output_type_of(output_type))

    def flat_map(self, func: FlatMapFunction | Callable[[Any], Any], output_type: Any = None) -> "DataStream":
        """Makes any number of elements from each element."""
        return self._stateless("flat_map", FlatMapAdapter(func), output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> "DataStream":
        """Keeps the elements for which the function returns a true value."""
        return self._stateless("filter", FilterAdapter(func), self._node.type)

    def process(self, func: Any, output_type: Any = None) -> "DataStream":
        """Applies a `ProcessFunction`.

        Raises:
            JobDefinitionError: The function is no `ProcessFunction`.
        """
        if not isinstance(func, ProcessFunction):
            raise JobDefinitionError(
                f"process() on a stream without key got {given(func)}.",
                action="Give a ProcessFunction, or call key_by(...) before process() for a KeyedProcessFunction.",
            )
        return self._stateless("process", func, output_type_of(output_type))

    def project(self, *field_indexes: int) -> "DataStream":
        """Keeps some fields, in this order, as tuples."""
        columns = self._node.columns("project()")
        output = project_type(columns, field_indexes)
        if isinstance(columns.carrier, Bare):
            raise JobDefinitionError("project() on a stream of bare values.", action="Use map().")
        return self._stateless("project", MapAdapter(Projection(field_indexes)), output)

    def _stateless(self, verb: str, function: Any, type_: TypeInformation | None) -> "DataStream":
        return self._then(StatelessNode(verb, (self._node,), type_, function=function))

    def _then(self, node: Node) -> "DataStream":
        self._env.add(node)
        return DataStream(self._env, node)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> "DataStream":
        """Gives the elements event times, and gives watermarks to the downstream operators.

        Raises:
            JobDefinitionError: It is no strategy, or gives no event times.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise JobDefinitionError(
                f"assign_timestamps_and_watermarks() got {watermark_strategy!r}.", action="Give a WatermarkStrategy."
            )
        if watermark_strategy.timestamp is None and watermark_strategy.assigner is None:
            raise JobDefinitionError(
                "assign_timestamps_and_watermarks() got a strategy without timestamps.",
                action="Add .with_timestamp_assigner(...), or .with_timestamp_column('<column>'): Spark's records have "
                "no time by themselves.",
            )
        node = TimedNode("assign_timestamps_and_watermarks", (self._node,), self._typed("event time"))
        node.strategy = watermark_strategy
        return DataStream(self._env, node)

    def _typed(self, wanted_by: str) -> TypeInformation:
        return type_of_columns(self._node.columns(wanted_by))

    def union(self, *streams: "DataStream") -> "DataStream":
        """Returns the elements of this stream and of others."""
        for stream in streams:
            self._check_stream(stream, "union")
        nodes = (self._node, *(stream._node for stream in streams))
        return DataStream(self._env, UnionNode("union", nodes, self._typed("union()")))

    @overload
    def connect(self, ds: "DataStream") -> "ConnectedStreams": ...

    @overload
    def connect(self, ds: "BroadcastStream") -> "BroadcastConnectedStream": ...

    def connect(self, ds: "DataStream | BroadcastStream") -> "ConnectedStreams | BroadcastConnectedStream":
        """Connects this stream with another one, which may have other elements, for one function."""
        from state_engine.flink.broadcast_streams import BroadcastConnectedStream, BroadcastStream
        from state_engine.flink.connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            self._check_stream(ds.input_stream, "connect")
            return BroadcastConnectedStream(self, ds)
        self._check_stream(ds, "connect")
        return ConnectedStreams(self, ds)

    def _check_stream(self, other: object, verb: str) -> None:
        if not isinstance(other, DataStream) or other._env is not self._env:
            raise JobDefinitionError(f"{verb}() got {other!r}.", action="Give a stream of the same environment.")

    def key_by(self, key_selector: Selector, key_type: Any = None) -> "KeyedStream":
        """Partitions the elements by key.

        Args:
            key_selector: Returns the key of an element. A selector that only picks fields, `lambda v: v[0]` or
                `lambda v: (v.a, v.b)`, costs nothing: these fields become the key columns. Any other selector runs
                for each element.
            key_type: Type of the key; required for a selector that computes.

        Raises:
            JobDefinitionError: The selector computes a key, and its type is not declared.
            UnsupportedTypeError: Values of the type cannot be keys.
        """
        from state_engine.flink.keyed_stream import KeyedStream

        columns = self._node.columns("key_by()")
        key = key_of(key_selector, key_type, columns)
        key_columns(key.computed or columns, key.names)
        return KeyedStream(self._env, self._node, key)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> "AllWindowedStream":
        """Puts all elements into windows; one subtask processes all of them."""
        from state_engine.flink.keyed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> "AllWindowedStream":
        """Puts every `size` elements into a window; a new window starts every `slide` elements."""
        return self.window_all(count_windows(size, slide))

    @overload
    def broadcast(self) -> "DataStream": ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> "BroadcastStream": ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> "DataStream | BroadcastStream":
        """Sends each element to all subtasks of the next operator; with descriptors, for its broadcast states."""
        from state_engine.flink.broadcast_streams import BroadcastStream

        if broadcast_state_descriptor is not None:
            return BroadcastStream(self, (broadcast_state_descriptor, *other_broadcast_state_descriptors))
        return DataStream(self._env, BroadcastNode("broadcast", (self._node,), self._typed("broadcast()")))

    def shuffle(self) -> "DataStream":
        """Returns this stream without broadcast: results do not depend on which subtask gets a record."""
        node = self._node
        return DataStream(self._env, node.inputs[0]) if isinstance(node, BroadcastNode) else self

    rescale = rebalance = forward = shuffle

    def get_side_output(self, output_tag: OutputTag) -> "DataStream":
        """Returns a side output of the operator that has this stream as its main output.

        Raises:
            JobDefinitionError: The tag has no type.
        """
        columns = side_output_columns(output_tag)
        node = SideNode("get_side_output", (self._node,), type_of_columns(columns), tag=output_tag)
        return DataStream(self._env, node)

    # Sinks ----------------------------------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> "DataStreamSink":
        """Sends the elements to a sink.

        Raises:
            JobDefinitionError: It is not a sink of this package.
        """
        if not isinstance(sink, Sink):
            raise JobDefinitionError(
                f"sink_to() got {sink!r}.",
                action="Give a DeltaSink, a ForeachEpochSink, or another sink of state_engine.flink.",
            )
        self._node.columns("sink_to()")
        return self._sink(SinkEntry(self._node, sink))

    def add_sink(self, sink_func: Sink) -> "DataStreamSink":
        """Sends the elements to a sink; as `sink_to`."""
        return self.sink_to(sink_func)

    def print(self, sink_identifier: str | None = None) -> "DataStreamSink":
        """Prints the elements in the driver's process, at least once.

        Args:
            sink_identifier: Prefix of each line, followed by `> `.
        """
        if self._node.type is None:
            return self.map(str, Types.STRING()).print(sink_identifier)
        columns = self._node.columns("print()")
        return self._sink(SinkEntry(self._node, Printing(columns, sink_identifier).sink(), quiet=True))

    def _sink(self, entry: SinkEntry) -> "DataStreamSink":
        self._env.add(entry)
        return DataStreamSink(self._env, entry)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> "CloseableIterator | list[Any]":
        """Runs the program and returns the elements of this stream.

        Args:
            job_execution_name: Name of the job.
            limit: Return a list of at most this number of elements, and stop the job.

        Returns:
            Without limit, an iterator that waits for elements while the job runs; close it, or use it in `with`.
        """
        from state_engine.flink.results import collect

        return collect(self._env, self._node, job_execution_name, limit)


class DataStreamSink(PyFlinkCounterpart):
    """A sink on a stream; PyFlink's class of the same name."""

    _unsupported = DATA_STREAM_SINK

    def __init__(self, env: "StreamExecutionEnvironment", entry: SinkEntry) -> None:
        self._env = env
        self._entry = entry

    def name(self, name: str) -> "DataStreamSink":
        """Does nothing: a sink is identified by its uid."""
        return self

    def uid(self, uid: str) -> "DataStreamSink":
        """Sets the stable name of the sink; its commits carry it."""
        self._entry.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> "DataStreamSink":
        """Does nothing: the task that makes an output stages it, and an epoch's output is committed at once."""
        return self

    def disable_chaining(self) -> "DataStreamSink":
        """Does nothing, for the same reason."""
        return self

    def set_description(self, description: str) -> "DataStreamSink":
        """Has no effect."""
        ignore("set_description", self._env.ignored)
        return self

    def slot_sharing_group(self, slot_sharing_group: Any) -> "DataStreamSink":
        """Has no effect: subtasks are Spark's tasks."""
        ignore("slot_sharing_group", self._env.ignored)
        return self


__all__ = ["DataStream", "DataStreamSink"]
