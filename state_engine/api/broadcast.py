"""Broadcast state and the functions that use it, under PyFlink's names (`pyflink.datastream.functions`).

Every subtask holds the same maps. Only the broadcast side may change them. It must make the same change in every
subtask, so a change may depend only on the broadcast element and on the maps themselves.
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
    """Broadcast state as the data side sees it: a map that every subtask holds, and that this side only reads."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether the key has an entry."""

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
        """Returns whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Broadcast state as the broadcast side sees it: the same map, which this side may change."""

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
    """Base of the two broadcast functions; it defines their contexts."""

    class BaseContext(ABC):
        """Context of an element of either side."""

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
        """Context of a broadcast element."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Returns the map of a descriptor that was passed to `broadcast(…)`."""

    class ReadOnlyContext(BaseContext):
        """Context of an element of the data side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Returns the map of a descriptor that was passed to `broadcast(…)`."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a stream without key together with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of a broadcast element."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of an element of the data side."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "BroadcastProcessFunction.ReadOnlyContext") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: "BroadcastProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one broadcast element, in every subtask; each subtask emits the rows that its call returns."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a keyed stream together with a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """Context of a broadcast element; it has no key."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """Context of a record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key: the value of a single key column, or a tuple of several."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """Context of a timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns the clock by which the timer fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: "KeyedBroadcastProcessFunction.Context"
    ) -> Iterable[Any] | None:
        """Processes one broadcast element, in every subtask; each subtask emits the rows that its call returns."""

    def on_timer(self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, as `KeyedProcessFunction.on_timer`; it may read broadcast state."""


__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "BroadcastState",
    "KeyedBroadcastProcessFunction",
    "ReadOnlyBroadcastState",
]
