"""Contexts that an operator passes to its function."""

from collections.abc import Callable
from typing import Any

from state_engine.api.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext
from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.api.timers import TimeDomain, TimerService
from state_engine.backends.keys import KeyContext
from state_engine.backends.shapes.timers import OfTimer, TimerTable
from state_engine.backends.time import OperatorTime
from state_engine.errors import JobDefinitionError

_EVENT, _PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class OperatorTimerService(TimerService):
    """The clocks for a function, and the timers of the current key.

    Args:
        time: The operator's clocks.
        keys: The current key.
        tables: Returns the timers of a clock; None for a function without keys.
    """

    __slots__ = (
        "_keys",
        "_tables",
        "_time",
        "delete_event_time_timer",
        "delete_processing_time_timer",
        "register_event_time_timer",
        "register_processing_time_timer",
    )
    # Called per record, so each becomes the table's own function, at the first call of either method of its clock.
    register_processing_time_timer: OfTimer
    register_event_time_timer: OfTimer
    delete_processing_time_timer: OfTimer
    delete_event_time_timer: OfTimer

    def __init__(
        self, time: OperatorTime, keys: KeyContext, tables: Callable[[TimeDomain], TimerTable] | None = None
    ) -> None:
        self._time = time
        self._keys = keys
        self._tables = tables
        self.register_processing_time_timer = lambda timestamp: self._bound(_PROCESSING).register_processing_time_timer(
            timestamp
        )
        self.register_event_time_timer = lambda timestamp: self._bound(_EVENT).register_event_time_timer(timestamp)
        self.delete_processing_time_timer = lambda timestamp: self._bound(_PROCESSING).delete_processing_time_timer(
            timestamp
        )
        self.delete_event_time_timer = lambda timestamp: self._bound(_EVENT).delete_event_time_timer(timestamp)

    def current_processing_time(self) -> int:
        return self._time.processing_time

    def current_watermark(self) -> int:
        return self._time.watermark

    def _bound(self, domain: TimeDomain) -> "OperatorTimerService":
        table = self._table(domain)
        register, delete = table.registering(self._keys), table.deleting(self._keys)
        if domain is _EVENT:
            self.register_event_time_timer, self.delete_event_time_timer = register, delete
        else:
            self.register_processing_time_timer, self.delete_processing_time_timer = register, delete
        return self

    def _table(self, domain: TimeDomain) -> TimerTable:
        if self._tables is None:
            raise JobDefinitionError(
                "A timer was asked for on a stream without key.",
                action="Call key_by(...) first, and use a KeyedProcessFunction.",
            )
        return self._tables(domain)


class OperatorRuntimeContext(RuntimeContext):
    """The runtime context of an instance: where it runs, and its states.

    Args:
        uid: The operator.
        subtask: Its number.
        parallelism: The operator's parallelism.
        max_parallelism: Number of key groups.
        parameters: The job's parameters.
        states: Returns the state of a descriptor; None for a function without keys.
        keys: The current key, for functions of the engine itself.
        time: The operator's clocks, for the same functions.
        timers: Timers of the current key and namespace, for the same functions.
    """

    def __init__(
        self,
        uid: str,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        parameters: dict[str, str],
        states: Callable[[StateDescriptor], Any] | None,
        *,
        keys: KeyContext,
        time: OperatorTime,
        timers: TimerService,
    ) -> None:
        self._uid = uid
        self._subtask = subtask
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._parameters = parameters
        self._states = states
        self.attempt = 0
        self.keys = keys
        self.time = time
        self.timers = timers

    def get_task_name(self) -> str:
        return self._uid

    def get_number_of_parallel_subtasks(self) -> int:
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._subtask

    def get_attempt_number(self) -> int:
        return self.attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._uid} ({self._subtask + 1}/{self._parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._parameters.get(key, default_value)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._state(state_descriptor, ValueStateDescriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._state(state_descriptor, ListStateDescriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._state(state_descriptor, MapStateDescriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._state(state_descriptor, ReducingStateDescriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._state(state_descriptor, AggregatingStateDescriptor)  # type: ignore[no-any-return]

    def _state(self, descriptor: StateDescriptor, wanted: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, wanted):
            raise JobDefinitionError(
                f"Operator {self._uid!r} asked for a state with {descriptor!r}.", action=f"Give a {wanted.__name__}."
            )
        if self._states is None:
            raise JobDefinitionError(
                f"Operator {self._uid!r} asked for the keyed state {descriptor.name!r}, but its stream has no key.",
                action="Call key_by(...) first, and use a KeyedProcessFunction.",
            )
        return self._states(descriptor)


class RecordContext(KeyedProcessFunction.Context, ProcessFunction.Context):
    """The context of a record; one object for all records of an instance."""

    __slots__ = ("_keys", "_time", "_timers")

    def __init__(self, keys: KeyContext, time: OperatorTime, timers: TimerService) -> None:
        self._keys = keys
        self._time = time
        self._timers = timers

    def get_current_key(self) -> Any:
        return self._keys.current_key()

    def timer_service(self) -> TimerService:
        return self._timers

    def timestamp(self) -> int | None:
        return self._time.timestamp


class TimerContext(RecordContext, KeyedProcessFunction.OnTimerContext):
    """The context of a timer; one object for all timers of an instance. `timestamp()` is the timer's time."""

    __slots__ = ("domain",)

    def __init__(self, keys: KeyContext, time: OperatorTime, timers: TimerService) -> None:
        super().__init__(keys, time, timers)
        self.domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        return self.domain


__all__ = ["OperatorRuntimeContext", "OperatorTimerService", "RecordContext", "TimerContext"]
