"""States, timers and contexts for the fraud function in plain Python: bare dicts and a heap.

Nothing is copied, converted or logged. They do what this one function needs, and nothing else.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from state_engine.api import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from state_engine.backends.time import NO_WATERMARK

HOUR_MS = 3_600_000
Kind = TypeVar("Kind", bound="BareState")


class BareContext:
    """The current key, the clock and the timers; also the function's context and timer service."""

    def __init__(self) -> None:
        self.key: Any = None
        self.time: int | None = None
        self.watermark = NO_WATERMARK
        self.heap: list[tuple[int, Any]] = []
        self.timers: set[tuple[int, Any]] = set()

    def get_current_key(self) -> Any:
        return self.key

    def timestamp(self) -> int | None:
        return self.time

    def timer_service(self) -> "BareContext":
        return self

    def current_watermark(self) -> int:
        return self.watermark

    def register_event_time_timer(self, at: int) -> None:
        timer = (at, self.key)
        if timer not in self.timers:
            self.timers.add(timer)
            heapq.heappush(self.heap, timer)

    def delete_event_time_timer(self, at: int) -> None:
        self.timers.discard((at, self.key))

    def due(self) -> Iterator[tuple[int, Any]]:
        """Removes and yields the timers up to the watermark."""
        heap, timers = self.heap, self.timers
        while heap and heap[0][0] <= self.watermark:
            timer = heapq.heappop(heap)
            if timer in timers:
                timers.remove(timer)
                yield timer


class BareState:
    """The contents of one state by key.

    Attributes:
        by_key: The contents.
        changed: The keys that were written, if they are noted.
    """

    def __init__(self, context: BareContext, changed: set[Any] | None) -> None:
        self.by_key: dict[Any, Any] = {}
        self.changed = changed
        self.context = context

    def update(self, value: Any) -> None:
        self.by_key[self.context.key] = value
        if self.changed is not None:
            self.changed.add(self.context.key)


class BareValue(BareState):
    """One value per key."""

    def value(self) -> Any:
        return self.by_key.get(self.context.key)

    def clear(self) -> None:
        self.update(None)


class BareList(BareState):
    """A list per key."""

    def get(self) -> Iterable[Any]:
        elements: Iterable[Any] = self.by_key.get(self.context.key, ())
        return elements

    def add(self, value: Any) -> None:
        self.update([*self.get(), value])


class BareMap(BareState):
    """A map per key whose entries expire an hour of event time after they were written."""

    def get(self, key: Any) -> Any:
        entries = self.by_key.get(self.context.key)
        found = None if entries is None else entries.get(key)
        return None if found is None or found[1] + HOUR_MS <= self.context.watermark else found[0]

    def put(self, key: Any, value: Any) -> None:
        entries = self.by_key.get(self.context.key, {})
        entries[key] = value, self.context.time
        self.update(entries)

    def items(self) -> list[tuple[Any, Any]]:
        entries = self.by_key.get(self.context.key, ())
        return [(key, value) for key in entries if (value := self.get(key)) is not None]


class BareRuntime:
    """The function's runtime context: gives it its states.

    Attributes:
        states: Each with its descriptor.
    """

    def __init__(self, context: BareContext, *, notes_changes: bool) -> None:
        self.states: list[tuple[StateDescriptor, BareState]] = []
        self._context = context
        self._notes_changes = notes_changes

    def get_state(self, descriptor: ValueStateDescriptor) -> BareValue:
        return self._kept(descriptor, BareValue)

    def get_list_state(self, descriptor: ListStateDescriptor) -> BareList:
        return self._kept(descriptor, BareList)

    def get_map_state(self, descriptor: MapStateDescriptor) -> BareMap:
        return self._kept(descriptor, BareMap)

    def _kept(self, descriptor: StateDescriptor, kind: type[Kind]) -> Kind:
        state = kind(self._context, set() if self._notes_changes else None)
        self.states.append((descriptor, state))
        return state
