"""`BroadcastStream` and `BroadcastConnectedStream`, with PyFlink's names and methods."""

from typing import TYPE_CHECKING, Any

from state_engine.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from state_engine.api.descriptors import MapStateDescriptor
from state_engine.errors import JobDefinitionError
from state_engine.flink.elements import output_type_of
from state_engine.flink.keyed_stream import KeyedStream
from state_engine.flink.nodes import BroadcastProcessNode
from state_engine.runtime.broadcast_operator import check_broadcast_function

if TYPE_CHECKING:
    from state_engine.flink.data_stream import DataStream


class BroadcastStream:
    """A stream of elements that every subtask keeps in broadcast states; pass it to `connect`."""

    def __init__(self, input_stream: "DataStream", broadcast_state_descriptors: tuple[MapStateDescriptor, ...]) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise JobDefinitionError(f"broadcast() got {descriptor!r}.", action="Give MapStateDescriptors.")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, and a broadcast stream; their elements go to the two methods of one function."""

    def __init__(self, non_broadcast_stream: "DataStream", broadcast_stream: BroadcastStream) -> None:
        self._data = non_broadcast_stream
        self._broadcast = broadcast_stream

    def process(
        self, func: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output_type: Any = None
    ) -> "DataStream":
        """Applies a `KeyedBroadcastProcessFunction` on a keyed stream, otherwise a `BroadcastProcessFunction`.

        Raises:
            JobDefinitionError: The function is not of that kind.
        """
        data, broadcast = self._data, self._broadcast
        key = data.key if isinstance(data, KeyedStream) else None
        check_broadcast_function(func, keyed=key is not None)
        for stream in (data, broadcast.input_stream):
            stream._node.columns("connect()")
        node = BroadcastProcessNode(
            "process",
            (data._node, broadcast.input_stream._node),
            output_type_of(output_type),
            chains_off=False,
            function=func,
            key=key,
            descriptors=broadcast.broadcast_state_descriptors,
        )
        return data._then(node)


__all__ = ["BroadcastConnectedStream", "BroadcastStream"]
