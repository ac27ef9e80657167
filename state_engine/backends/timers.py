"""Timers of one clock: a map state of times per key and namespace, and a queue over it in order of time.

The map is what the log holds, so that timers are published, restored and rescaled as any other state. The queue is made
from it and never stored. Timers of one time fire in the order of their keys' spelling: an order that does not tell
whether a cache was warm, how the job was cut into epochs, or which subtask holds the key.
"""

import math
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np

from state_engine.api.types import Types
from state_engine.backends.tables import DELETED, MISSING, LogRows, MapDelta, MapTable


class _Tie(set[Any]):
    """Several entries with a timer at one time; nearly all times have one, which then stands there itself."""

    __slots__ = ()


class TimerQueue:
    """Entries by the time of their timers, with the earliest one at hand.

    Attributes:
        first: No timer is earlier; asked for every record of an ordered input.
    """

    __slots__ = ("_at", "_times", "first")

    def __init__(self) -> None:
        self._at: dict[int, Any] = {}
        self._times: list[int] = []  # a heap; a time may stand there without entries, or twice
        self.first: float = math.inf

    def add(self, entry: Any, time: int) -> bool:
        """Adds a timer; False if it is there."""
        there = self._at.get(time, MISSING)
        if there is MISSING:
            self._at[time] = entry
            heappush(self._times, time)
            if time < self.first:
                self.first = time
            return True
        if type(there) is _Tie:
            if entry in there:
                return False
            there.add(entry)
            return True
        if there == entry:
            return False
        self._at[time] = _Tie((there, entry))
        return True

    def remove(self, entry: Any, time: int) -> bool:
        """Removes a timer; False if it is not there."""
        there = self._at.get(time, MISSING)
        if type(there) is _Tie:
            if entry not in there:
                return False
            if len(there) > 1:
                there.remove(entry)
                return True
        elif there is MISSING or there != entry:
            return False
        del self._at[time]
        return True

    def earliest(self) -> int | None:
        """Returns the earliest time that has a timer."""
        times = self._times
        while times and times[0] not in self._at:
            heappop(times)
        if not times:
            self.first = math.inf
            return None
        self.first = first = times[0]
        return first

    def entries(self, time: int) -> list[Any]:
        """Returns the entries with a timer at a time, in the order in which they fire."""
        there = self._at[time]
        return sorted(there, key=repr) if type(there) is _Tie else [there]


class TimerTable(MapTable):
    """The timers of one clock as a table of the backend: entry to its times."""

    def __init__(self) -> None:
        super().__init__(Types.LONG(), Types.BOOLEAN())
        self._queue = TimerQueue()
        self._applying = False

    def register(self, entry: Any, time: int) -> None:
        """Adds a timer, unless it is there."""
        if self._queue.add(entry, time):
            self._note(entry, time, True)

    def delete(self, entry: Any, time: int) -> None:
        """Removes a timer, if it is there."""
        if self._queue.remove(entry, time):
            self._note(entry, time, DELETED)

    def earliest(self) -> int | None:
        """Returns the time of the earliest timer."""
        return self._queue.earliest()

    def may_be_due(self, limit: int) -> bool:
        """Says whether there may be a timer up to a time inclusive; False is certain."""
        return self._queue.first <= limit

    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        """Takes timer after timer, up to a time inclusive, in order of time.

        Each is gone before it is given out. What is done with it may register and delete others: those count, if their
        turn has not passed.
        """
        queue = self._queue
        while (time := queue.earliest()) is not None and time <= limit:
            for entry in queue.entries(time):
                if queue.remove(entry, time):
                    self._note(entry, time, DELETED)
                    yield time, entry

    def _note(self, entry: Any, time: int, what: Any) -> None:
        """Notes a change in the overlay, where a timer that comes and goes, or goes and comes, leaves nothing.

        What is noted of a time is always the other way round than what comes: the queue has been asked.
        """
        delta = self.overlay.get(entry)
        if delta is None:
            delta = self.overlay[entry] = MapDelta()
        if delta.entries.pop(time, None) is None:
            delta.entries[time] = what

    def freeze(self) -> LogRows | None:
        self.overlay = {entry: delta for entry, delta in self.overlay.items() if delta.entries}
        return super().freeze()

    def forget(self) -> None:
        touched = bool(self.overlay) or self._pending is not None
        super().forget()
        if touched:
            self._queue = TimerQueue()
            for entry, times in self.base.items():
                for time in times:
                    self._queue.add(entry, time)

    def apply(self, entries: list[Any], ops: "np.ndarray[Any, Any]", values: Any, user_keys: Any) -> None:
        self._applying = True
        super().apply(entries, ops, values, user_keys)
        self._applying = False

    def drop_entries(self, belongs: Callable[[Any], bool]) -> None:
        self._applying = True
        super().drop_entries(belongs)
        self._applying = False

    def _put(self, entry: Any, user_key: Any, value: Any) -> None:
        if self._applying:
            (self._queue.remove if value is DELETED else self._queue.add)(entry, user_key)
        super()._put(entry, user_key, value)

    def _remove(self, entry: Any) -> None:
        if self._applying:
            for time in self.base.get(entry, ()):
                self._queue.remove(entry, time)
        super()._remove(entry)


__all__ = ["TimerQueue", "TimerTable"]
