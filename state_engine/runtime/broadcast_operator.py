"""An operator instance with a broadcast stream as input 2: its elements come first, then the records."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.broadcast import (
    BroadcastProcessFunction,
    BroadcastState,
    KeyedBroadcastProcessFunction,
    ReadOnlyBroadcastState,
)
from state_engine.api.descriptors import MapStateDescriptor
from state_engine.backends.broadcast import BroadcastMap
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import MakeBackend
from state_engine.backends.keys import NO_KEY
from state_engine.errors import JobDefinitionError
from state_engine.iterating import whole
from state_engine.runtime.adapters import given
from state_engine.runtime.contexts import RecordContext, TimerContext
from state_engine.runtime.row_operator import RowOperator
from state_engine.runtime.rows_of_input import RowsOfInput
from state_engine.runtime.spec import OperatorSpec
from state_engine.runtime.two_inputs import INPUT, TwoInputs

Ask = Callable[[MapStateDescriptor], BroadcastMap]


class _Reads(RecordContext, KeyedBroadcastProcessFunction.ReadOnlyContext, BroadcastProcessFunction.ReadOnlyContext):
    """The context of a record."""

    def __init__(self, operator: "BroadcastOperator", timers: Any) -> None:
        super().__init__(operator.context, operator.time, timers)
        self._ask = operator.broadcast_state

    def current_processing_time(self) -> int:
        return self._time.processing_time

    def current_watermark(self) -> int:
        return self._time.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._ask(state_descriptor).read_only


class _ReadsAtTimer(_Reads, TimerContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of a timer."""

    def __init__(self, operator: "BroadcastOperator", timers: Any) -> None:
        TimerContext.__init__(self, operator.context, operator.time, timers)
        self._ask = operator.broadcast_state


class _Writes(KeyedBroadcastProcessFunction.Context, BroadcastProcessFunction.Context):
    """The context of a broadcast element."""

    def __init__(self, operator: "BroadcastOperator") -> None:
        self._time = operator.time
        self._ask = operator.broadcast_state

    def timestamp(self) -> int | None:
        return self._time.timestamp

    def current_processing_time(self) -> int:
        return self._time.processing_time

    def current_watermark(self) -> int:
        return self._time.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._ask(state_descriptor)


class BroadcastOperator(RowOperator):
    """As `RowOperator`, for a function with `process_element` and `process_broadcast_element`.

    In a batch, broadcast elements are processed before the records. An epoch must give them in that order too.

    Args:
        spec: The operator; input 2 is the broadcast stream.
        two: Its inputs.
        subtask: Its number.
        parallelism: The operator's parallelism.
        make_backend: Makes its keyed state backend.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        two: TwoInputs,
        subtask: int,
        parallelism: int,
        make_backend: MakeBackend = HeapKeyedStateBackend,
    ) -> None:
        super().__init__(spec, subtask, parallelism, make_backend)
        self._tag = spec.input.names.index(INPUT)
        self._records_of = RowsOfInput(two.first, range(len(two.first.names)))
        self._elements_of = RowsOfInput(two.second, two.places)
        self._record = _Reads(self, self.runtime.timers)
        self._timer = _ReadsAtTimer(self, self.runtime.timers)
        self._element = _Writes(self)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastMap:
        """Returns the broadcast state of a descriptor.

        Raises:
            JobDefinitionError: The stream was broadcast without this descriptor.
        """
        name = getattr(descriptor, "name", descriptor)
        if name not in {declared.name for declared in self.spec.broadcast}:
            declared = ", ".join(repr(one.name) for one in self.spec.broadcast)
            raise JobDefinitionError(
                f"Operator {self.spec.uid!r} asked for the broadcast state {name!r}; declared are {declared}.",
                action="Pass its descriptor to broadcast(...).",
            )
        return self.operator_state.get_broadcast_state(descriptor)

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        arrays = batch.columns
        tags: Any = arrays[self._tag]
        timed = len(arrays) > len(self._read_columns)
        emitted = self._emitted()
        for tag, run in ((2, self._broadcast), (1, self._data)):
            part = batch.filter(pc.equal(tags, pa.scalar(tag, tags.type)))
            if part.num_rows:
                times: list[int | None] = part.columns[-1].to_pylist() if timed else [None] * part.num_rows
                run(part, times, emitted)
        return self._outputs(emitted)

    def _broadcast(self, part: pa.RecordBatch, times: list[int | None], emitted: Any) -> None:
        process, context, time, row = self.function.process_broadcast_element, self._element, self.time, None
        self.context.entry = NO_KEY
        try:
            for timestamp, row in zip(times, self._elements_of.of(part), strict=True):
                time.timestamp = timestamp
                result = process(row, context)
                if result is not None:
                    emitted.add(whole(result), timestamp)
        except BaseException as error:
            raise self._failed(error, "process_broadcast_element() raised", None, row) from error

    def _data(self, part: pa.RecordBatch, times: list[int | None], emitted: Any) -> None:
        keys: list[Any] = [None] * part.num_rows
        if self.backend is not None:
            keys = self._keys({n: self._read_columns[n](part.columns[n]) for n in self._key_positions})
            self.backend.prefetch(keys)
        process, record, context, time = self.function.process_element, self._record, self.context, self.time
        key: Any = None
        row: Any = None
        try:
            for key, timestamp, row in zip(keys, times, self._records_of.of(part), strict=True):
                time.timestamp = timestamp
                context.entry = key
                result = process(row, record)
                if result is not None:
                    emitted.add(whole(result), timestamp)
        except BaseException as error:
            raise self._failed(error, "process_element() raised", key, row) from error


def check_broadcast_function(function: Any, *, keyed: bool) -> None:
    """Raises JobDefinitionError unless a function fits a stream, with or without key, connected to a broadcast one."""
    wanted = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
    if not isinstance(function, wanted):
        raise JobDefinitionError(
            f"A stream {'with' if keyed else 'without'} key, connected to a broadcast one, got {given(function)}.",
            action=f"Give a {wanted.__name__}, or {'remove' if keyed else 'put'} key_by(...) before connect().",
        )


__all__ = ["BroadcastOperator", "check_broadcast_function"]
