"""`ConnectedStreams`, with PyFlink's name and methods."""

from typing import TYPE_CHECKING, Any

from state_engine.api.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from state_engine.errors import JobDefinitionError
from state_engine.flink.data_stream import DataStream
from state_engine.flink.differences import CONNECTED_STREAMS, PyFlinkCounterpart
from state_engine.flink.elements import output_type_of
from state_engine.flink.keyed_stream import KeyedStream
from state_engine.flink.keys import Key, Selector
from state_engine.flink.nodes import TwoInputNode
from state_engine.runtime.adapters import given
from state_engine.runtime.co_adapters import CoFlatMapAdapter, CoMapAdapter

if TYPE_CHECKING:
    from state_engine.flink.environment import StreamExecutionEnvironment


class ConnectedStreams(PyFlinkCounterpart):
    """Two streams, keyed or not; their elements go to the two methods of one function."""

    _unsupported = CONNECTED_STREAMS

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(self, key_selector1: Selector, key_selector2: Selector, key_type: Any = None) -> "ConnectedStreams":
        """Partitions both streams by key; both keys have the same type."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: Any = None) -> DataStream:
        """Makes one element from each element, or none if the function returns None."""
        CoMapAdapter(func)
        return self._then("map", func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: Any = None) -> DataStream:
        """Makes any number of elements from each element."""
        CoFlatMapAdapter(func)
        return self._then("flat_map", func, output_type)

    def process(self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: Any = None) -> DataStream:
        """Applies a `KeyedCoProcessFunction` on keyed streams, otherwise a `CoProcessFunction`.

        Raises:
            JobDefinitionError: The function is not of that kind.
        """
        wanted = KeyedCoProcessFunction if self.is_keyed_stream() else CoProcessFunction
        if not isinstance(func, wanted):
            raise JobDefinitionError(
                f"process() on connected streams got {given(func)}.", action=f"Give a {wanted.__name__}."
            )
        return self._then("process", func, output_type)

    def is_keyed_stream(self) -> bool:
        """Returns whether both streams are keyed.

        Raises:
            JobDefinitionError: Only one of them is.
        """
        keyed = {isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2)}
        if len(keyed) > 1:
            raise JobDefinitionError("Only one of two connected streams is keyed.", action="Key both, or neither.")
        return keyed == {True}

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """Returns the environment in which the streams began."""
        return self.stream1.get_execution_environment()

    def _then(self, verb: str, func: Any, output_type: Any) -> DataStream:
        self.is_keyed_stream()
        env = self.get_execution_environment()
        streams = (self.stream1, self.stream2)
        for stream in streams:
            stream._node.columns("connect()")
        node = TwoInputNode(
            verb,
            (self.stream1._node, self.stream2._node),
            output_type_of(output_type),
            function=func,
            keys=(_key(self.stream1), _key(self.stream2)),
        )
        env.add(node)
        return DataStream(env, node)


def _key(stream: DataStream) -> Key | None:
    return stream.key if isinstance(stream, KeyedStream) else None


__all__ = ["ConnectedStreams"]
