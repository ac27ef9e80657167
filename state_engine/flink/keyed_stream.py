"""`KeyedStream` and `WindowedStream`, with PyFlink's names and methods."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from state_engine.api.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from state_engine.api.types import StructType, TypeInformation, type_of_columns
from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.counting import count_windows
from state_engine.errors import JobDefinitionError
from state_engine.flink.data_stream import DataStream
from state_engine.flink.differences import KEYED_STREAM, WINDOWED_STREAM, PyFlinkCounterpart
from state_engine.flink.elements import output_type_of
from state_engine.flink.keys import Key, Selector
from state_engine.flink.nodes import KeyedNode, Node
from state_engine.runtime.adapters import FilterAdapter, FlatMapAdapter, MapAdapter, ReduceAdapter, given
from state_engine.runtime.running import RunningAdapter, RunningVerb
from state_engine.runtime.windows import all as windows_of_all
from state_engine.runtime.windows import stream as windows
from state_engine.runtime.windows.all import ALL

if TYPE_CHECKING:
    from state_engine.flink.environment import StreamExecutionEnvironment


class KeyedStream(DataStream):
    """Elements partitioned by key; PyFlink's class of the same name.

    Methods that concern elements and not keys (`union`, `project`, `print`, sinks) work on the stream before `key_by`.
    """

    _unsupported = KEYED_STREAM

    def __init__(self, env: "StreamExecutionEnvironment", node: Node, key: Key) -> None:
        super().__init__(env, node)
        self.key = key

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Makes one element from each element, with the state of its key."""
        return self._keyed("map", MapAdapter(func), output_type_of(output_type))

    def flat_map(self, func: FlatMapFunction | Callable[[Any], Any], output_type: Any = None) -> DataStream:
        """Makes any number of elements from each element, with the state of its key."""
        return self._keyed("flat_map", FlatMapAdapter(func), output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """Keeps the elements for which the function returns a true value."""
        return self._keyed("filter", FilterAdapter(func), self._node.type)

    def reduce(self, func: ReduceFunction | Callable[[Any, Any], Any]) -> DataStream:
        """Reduces the elements of each key, and gives for each element the result so far."""
        columns = self._node.columns("reduce()")
        return self._keyed("reduce", ReduceAdapter(func, columns), self._node.type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Gives for each element its key's first element, with the sum of a field so far."""
        return self._running("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Gives for each element its key's first element, with the smallest value of a field so far."""
        return self._running("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Gives for each element its key's first element, with the largest value of a field so far."""
        return self._running("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Gives for each element the element of its key with the smallest value of a field so far."""
        return self._running("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Gives for each element the element of its key with the largest value of a field so far."""
        return self._running("max_by", position_to_max_by)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """Applies a `KeyedProcessFunction`.

        Raises:
            JobDefinitionError: The function is no `KeyedProcessFunction`.
        """
        if not isinstance(func, KeyedProcessFunction):
            raise JobDefinitionError(
                f"process() on a keyed stream got {given(func)}.", action="Give a KeyedProcessFunction."
            )
        return self._keyed("process", func, output_type_of(output_type))

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> "WindowedStream":
        """Puts the elements of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> "WindowedStream":
        """Puts every `size` elements of a key into a window; a new window starts every `slide` elements."""
        return self.window(count_windows(size, slide))

    def key_by(self, key_selector: Selector, key_type: Any = None) -> "KeyedStream":
        """Partitions the elements by another key."""
        return super().key_by(key_selector, key_type)

    def _running(self, verb: RunningVerb, field: int | str) -> DataStream:
        columns = self._node.columns(f"{verb}()")
        return self._keyed(verb, RunningAdapter(verb, field, columns), self._node.type)

    def _keyed(self, verb: str, function: Any, type_: TypeInformation | None) -> DataStream:
        return self._then(KeyedNode(verb, (self._node,), type_, function=function, key=self.key))

    def add_operator(self, adapter: Any, output_type: Any, uid: str | None) -> DataStream:
        """Adds the operator of a window function."""
        stream = self._keyed(adapter.verb, adapter, output_type_of(output_type))
        return stream if uid is None else stream.uid(uid)

    # PyFlink refuses these on a keyed stream too.

    def _no_operator(self, *_: Any, **__: Any) -> NoReturn:
        raise JobDefinitionError(
            "key_by() is no operator: it has no uid, name or parallelism.",
            action="Call it on what the next method returns.",
        )

    name = uid = set_parallelism = set_max_parallelism = force_non_parallel = _no_operator
    set_buffer_timeout = start_new_chain = disable_chaining = slot_sharing_group = set_description = _no_operator
    get_side_output = _no_operator

    def _keeps_partitioning(self) -> NoReturn:
        raise JobDefinitionError(
            "A keyed stream is partitioned by its key.", action="Call shuffle(), rebalance() … before key_by()."
        )

    shuffle = rescale = rebalance = forward = _keeps_partitioning


class AllWindowedStream(windows_of_all.AllWindowedStream[DataStream], PyFlinkCounterpart):
    """Elements partitioned only by window; PyFlink's class of the same name."""

    _unsupported = WINDOWED_STREAM

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        node = data_stream._node
        columns = node.columns("window_all()")
        if ALL in map(str.lower, columns.names):
            raise JobDefinitionError(
                f"window_all() of a stream with a field {ALL!r}.", action="Rename the field before window_all()."
            )
        everything = KeyedStream(data_stream.get_execution_environment(), node, Key((ALL,), is_all=True))
        super().__init__(
            type_of_columns(columns), window_assigner, everything.add_operator, has_event_time=node.has_event_time
        )
        self._stream = data_stream

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """Returns the environment in which the stream began."""
        return self._stream.get_execution_environment()

    def _records(self) -> StructType | None:
        return None  # elements come without the key's column


class WindowedStream(windows.WindowedStream[DataStream], PyFlinkCounterpart):
    """Elements partitioned by key and window; PyFlink's class of the same name."""

    _unsupported = WINDOWED_STREAM

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        node = keyed_stream._node
        super().__init__(
            type_of_columns(node.columns("window()")),
            window_assigner,
            keyed_stream.add_operator,
            has_event_time=node.has_event_time,
        )
        self._keyed_stream = keyed_stream

    def get_execution_environment(self) -> "StreamExecutionEnvironment":
        """Returns the environment in which the stream began."""
        return self._keyed_stream.get_execution_environment()


__all__ = ["AllWindowedStream", "KeyedStream", "WindowedStream"]
