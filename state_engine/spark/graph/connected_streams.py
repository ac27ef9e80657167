"""Two streams that meet in one operator, each with its own columns."""

from typing import Any, Generic

from state_engine.api.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from state_engine.api.functions import Function
from state_engine.api.output_tag import columns_type
from state_engine.errors import JobDefinitionError
from state_engine.runtime.adapters import Adapter, given
from state_engine.runtime.co_adapters import CoAdapter, CoFlatMapAdapter, CoMapAdapter
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.declared.joins import Join
from state_engine.runtime.spec import OperatorKind
from state_engine.runtime.two_inputs import KeyedInput, two_inputs
from state_engine.spark.graph.feeding import Input, Names, StreamT
from state_engine.spark.graph.nodes import OperatorNode


class ConnectedStreams(Generic[StreamT]):
    """Two streams, keyed or not; their records go to the two methods of one function.

    Keyed streams share the state of their key. Without an order the records of an epoch come in any order, and those of
    both inputs are mixed. With an order on both inputs they come in one order, and among equals input 1 comes first.
    With an order on one of them, only its own records are in order.
    """

    def __init__(self, input1: Input[StreamT], input2: Input[StreamT]) -> None:
        self._streams = (input1.stream, input2.stream)
        self._inputs = (input1.keyed, input2.keyed)
        input1.stream.check_meets(input2.stream)

    def key_by(
        self, columns1: Names, columns2: Names, *, order_by1: Names = (), order_by2: Names = ()
    ) -> "ConnectedStreams[StreamT]":
        """Partitions both streams by key.

        Args:
            columns1: Key columns of the first stream. State tables have their names.
            columns2: Key columns of the second stream: the same number, of the same types.
            order_by1: Columns by which the first one's records of an epoch come in order; as in `DataStream.key_by`.
            order_by2: The same for the second stream; if both are given, of the same types.

        Raises:
            UnsupportedTypeError: A column cannot be a key.
            JobDefinitionError: A column is missing or has a reserved name.
        """
        first, second = self._streams
        return ConnectedStreams(first.keyed_input([columns1], order_by1), second.keyed_input([columns2], order_by2))

    def map(self, function: CoMapFunction, output_type: Any, *, uid: str | None = None) -> StreamT:
        """Makes one row of each record, or none if the function returns None."""
        return self.add_operator(CoMapAdapter(function), output_type, uid)

    def flat_map(self, function: CoFlatMapFunction, output_type: Any, *, uid: str | None = None) -> StreamT:
        """Makes any number of rows of each record: what the function yields or returns."""
        return self.add_operator(CoFlatMapAdapter(function), output_type, uid)

    def process(
        self, function: KeyedCoProcessFunction | CoProcessFunction, output_type: Any, *, uid: str | None = None
    ) -> StreamT:
        """Applies a function to both streams.

        Args:
            function: A `KeyedCoProcessFunction` on keyed streams, otherwise a `CoProcessFunction`.
            output_type: Columns of the rows that it returns.
            uid: Stable name of the operator; its state is found under it.

        Raises:
            JobDefinitionError: The function is of the wrong kind; the keys or the orders differ in their types.
            UnsupportedTopologyError: Another operator reads a source that is one of the streams.
        """
        keyed = self.is_keyed_stream()
        wanted = KeyedCoProcessFunction if keyed else CoProcessFunction
        if not isinstance(function, wanted):
            raise JobDefinitionError(
                f"process() on connected streams {'with' if keyed else 'without'} key got {given(function)}.",
                action=f"Give a {wanted.__name__}"
                + (", or put key_by(...) before a KeyedCoProcessFunction." if not keyed else "."),
            )
        return self.add_operator(function, output_type, uid)

    def is_keyed_stream(self) -> bool:
        """Returns whether a stream is keyed; the other one must then be keyed too."""
        return any(one.key for one in self._inputs)

    def check_event_times(self, verb: str) -> None:
        """Raises JobDefinitionError unless the records of both streams have event times."""
        for stream in self._streams:
            if not stream.has_event_time:
                raise JobDefinitionError(
                    f"{verb}() of a stream without event time.",
                    action="Put assign_timestamps_and_watermarks(...) before key_by(), on both streams.",
                )

    @property
    def inputs(self) -> tuple[KeyedInput, KeyedInput]:
        """Columns, key and order of both streams."""
        return self._inputs

    def add_join(self, join: Join, uid: str | None) -> StreamT:
        """Adds a join, which defines the columns of its rows itself."""
        return self.add_operator(join, join.output, uid)

    def add_operator(self, function: Function, output_type: Any, uid: str | None) -> StreamT:
        """Adds an operator after both streams; the methods above call this."""
        first, second = self.inputs
        two = two_inputs(first, second)
        kind: OperatorKind = "keyed_co_process" if first.key else "co_process"
        verb = function.verb if isinstance(function, Declared) else kind
        if isinstance(function, (CoAdapter, Adapter)):
            verb = f"co_{function.verb}"
        one, other = self._streams
        edges = (*one.feeding(1), *other.feeding(2))
        return one.append_operator(
            OperatorNode(
                uid=one.claim_uid(uid, verb),
                kind=kind,
                function=function,
                edges=edges,
                input=two.columns,
                key=first.key,
                order_by=first.order_by,
                output=columns_type(output_type, f"operator {uid or verb!r}"),
                generated_uid=uid is None,
                two_inputs=two,
            )
        )


__all__ = ["ConnectedStreams"]
