"""Broadcast state and the functions that use it, by PyFlink's names (`pyflink.datastream.functions`).

Every subtask holds the same maps. Only the broadcast side may change them, and has to do so in the same way in every
subtask: by nothing but the element and the maps themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.functions import Function
from state_engine.api.state import State
from state_engine.api.timers import TimeDomain, TimerService

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """A map that every subtask holds, as the side with the data sees it."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Says whether the key has an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Iterates over the entries, as of the call."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Iterates over the keys, as of the call."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Iterates over the values, as of the call."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Says whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """The same map, as the broadcast side sees it."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets one entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Sets several entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes one entry; an absent one is no error."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class BaseBroadcastProcessFunction(Function):
    """Base of both; it holds the contexts."""

    class BaseContext(ABC):
        """What an element of either side comes with."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the element's event time in ms, or None without one."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the epoch's one processing time, in ms since the Unix epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the operator's watermark, in ms since the Unix epoch; -2^63 before the first."""

    class Context(BaseContext):
        """What a broadcast element comes with."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Returns the map of a descriptor that `broadcast(…)` was given."""

    class ReadOnlyContext(BaseContext):
        """What an element of the data comes with."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Returns the map of a descriptor that `broadcast(…)` was given."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a stream without key beside a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What a broadcast element comes with."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What an element of the data comes with."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "BroadcastProcessFunction.ReadOnlyContext") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "BroadcastProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one broadcast element, in every subtask; what it returns comes once from each of them."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a keyed stream beside a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What a broadcast element comes with; there is no key."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What a record comes with."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key: the value of a single key column, or a tuple of several."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """What a timer comes with."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns by which clock the timer fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: "KeyedBroadcastProcessFunction.Context"
    ) -> Iterable[Any] | None:
        """Processes one broadcast element, in every subtask; what it returns comes once from each of them."""

    def on_timer(self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, as `KeyedProcessFunction.on_timer`; it may read broadcast state."""


__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "BroadcastState",
    "KeyedBroadcastProcessFunction",
    "ReadOnlyBroadcastState",
]
