"""A stream that goes to every subtask, with the broadcast states that its records change."""

from typing import Any, Generic

from state_engine.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.output_tag import columns_type
from state_engine.errors import DuplicateStateError, JobDefinitionError
from state_engine.runtime.broadcast_operator import check_broadcast_function
from state_engine.runtime.spec import OperatorKind
from state_engine.runtime.two_inputs import with_broadcast
from state_engine.spark.graph.feeding import Input, StreamT
from state_engine.spark.graph.nodes import OperatorNode


class BroadcastStream(Generic[StreamT]):
    """A stream to be connected with another one; the function of both keeps it as broadcast state.

    Args:
        stream: The stream, broadcast.
        descriptors: Descriptors of the states.

    Raises:
        JobDefinitionError: A descriptor is no `MapStateDescriptor`.
        DuplicateStateError: Two descriptors have one name.
    """

    def __init__(self, stream: StreamT, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise JobDefinitionError(f"broadcast() got {descriptor!r}.", action="Give MapStateDescriptors.")
        names = [descriptor.name for descriptor in descriptors]
        if len(set(names)) < len(names):
            raise DuplicateStateError(
                f"broadcast() got a state twice: {', '.join(names)}.", action="Give each descriptor a name of its own."
            )
        self.stream = stream
        self.descriptors = descriptors


class BroadcastConnectedStream(Generic[StreamT]):
    """A stream, keyed or not, and a broadcast one; their records go to the two methods of one function."""

    def __init__(self, data: Input[StreamT], broadcast: BroadcastStream[StreamT]) -> None:
        self._data, self._keyed = data
        self._broadcast = broadcast
        self._data.check_meets(broadcast.stream)

    def process(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_type: Any,
        *,
        uid: str | None = None,
    ) -> StreamT:
        """Applies a function to both streams.

        In an epoch the broadcast elements come first, in every subtask in the same order: that of their event times,
        if they have any, and then of their columns from left to right.

        Args:
            function: A `KeyedBroadcastProcessFunction` on a keyed stream, otherwise a `BroadcastProcessFunction`.
            output_type: Columns of the rows that it returns.
            uid: Stable name of the operator; its state is found under it.

        Raises:
            JobDefinitionError: The function is of the wrong kind.
            UnsupportedTopologyError: Another operator reads a source that is one of the streams.
        """
        data, first, broadcast = self._data, self._keyed, self._broadcast.stream
        check_broadcast_function(function, keyed=bool(first.key))
        two = with_broadcast(first, broadcast.columns)
        kind: OperatorKind = "keyed_broadcast_process" if first.key else "broadcast_process"
        return data.append_operator(
            OperatorNode(
                uid=data.claim_uid(uid, kind),
                kind=kind,
                function=function,
                edges=(*data.feeding(1), *broadcast.feeding(2)),
                input=two.columns,
                key=first.key,
                order_by=first.order_by,
                output=columns_type(output_type, f"operator {uid or kind!r}"),
                generated_uid=uid is None,
                two_inputs=two,
                broadcast_states=self._broadcast.descriptors,
            )
        )


__all__ = ["BroadcastConnectedStream", "BroadcastStream"]
