"""Timers of one clock: entries (key and namespace) by the time at which they fire. The earliest time is known.

The log gets what an epoch registers and deletes, as changes of a map per entry, from the time to `true`. So timers are
published, restored and rescaled like any other state. Timers of one time fire in the order of their keys' spelling.
This order does not depend on whether a cache was warm, how the job was cut into epochs, or which subtask holds the key.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from operator import index
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices
from state_engine.api.pyflink_types import Types
from state_engine.backends.batch_keys import EntryKeys
from state_engine.backends.delta import Delta
from state_engine.backends.keys import NO_KEY, KeyCodec, KeyContext
from state_engine.backends.shapes.table import Table
from state_engine.backends.stored_type import written
from state_engine.backends.stores.dicts import MISSING
from state_engine.backends.stores.timer_times import Tie, Times, listed, pairs, put, put_all, take, take_all, without
from state_engine.log.ops import Op
from state_engine.serialization.convert import reader, writer

_TIME = Types.LONG()
NEVER = 1 << 63
"""Later than any timestamp."""
_STALE = 1000
"""The index of times is rebuilt when it has more times than twice those with timers, plus this number."""
_SHARED = 8
"""Rows of one time are applied together if on average at least this many share it; fewer are faster one by one."""


class OfTimer(Protocol):
    """Adds, or removes, a timer of the current key."""

    def __call__(self, timestamp: int) -> None: ...


class _Changes:
    """The timers that came and went in an epoch. A timer that came and went, or went and came, is in neither."""

    __slots__ = ("came", "rows", "went")

    def __init__(self) -> None:
        self.came: Times = {}
        self.went: Times = {}
        self.rows = 0  # by how many timers the table grows; set once the changes are frozen


class TimerTable(Table):
    """The timers of one clock, accessed by time. All of them are in memory, with any backend.

    Attributes:
        first: No timer is earlier than this time, and there may be none at it. Read for every record of an ordered
            input.
    """

    first: int

    @abstractmethod
    def empty(self) -> None:
        """Starts anew, without any timer."""

    @abstractmethod
    def registering(self, keys: KeyContext) -> OfTimer:
        """Returns a function that adds a timer of the current key: `register` as it is called for each record."""

    @abstractmethod
    def deleting(self, keys: KeyContext) -> OfTimer:
        """Returns a function that removes a timer of the current key: `delete` as it is called for each record."""

    @abstractmethod
    def register_all(self, entries: list[Any], time: int) -> None:
        """Adds timers of one time, each given once, unless they exist."""

    @abstractmethod
    def register(self, entry: Any, time: int) -> None:
        """Adds a timer, unless it exists."""

    @abstractmethod
    def delete(self, entry: Any, time: int) -> None:
        """Removes a timer, if it exists."""

    @abstractmethod
    def earliest(self) -> int | None:
        """Returns the time of the earliest timer."""

    @abstractmethod
    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        """Removes and yields timer after timer, up to a time (inclusive), in order of time.

        A timer is removed before it is yielded. Meanwhile the caller may register and delete others: those count, if
        their turn has not passed.
        """

    @abstractmethod
    def all_due(self, limit: int, *, in_turn: bool = True) -> Iterator[tuple[int, list[Any]]]:
        """Does the same as `due` for all timers of a time together; without `in_turn`, entries come in any order."""

    @abstractmethod
    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        """Does the same as `all_due`, and returns keys with the times of the timers; None if no timer is due."""

    @abstractmethod
    def register_keys(self, keys: Keys, times: Numbers) -> None:
        """Adds timers, unless they exist.

        Args:
            keys: Their keys; a key may be given several times.
            times: One for each.
        """

    @abstractmethod
    def delete_keys(self, keys: Keys, times: Numbers) -> None:
        """Removes timers, if they exist; for the arguments see `register_keys`."""


class EntryTimers(TimerTable):
    """Timers that are registered one by one: a dict from times to the entries that have a timer then.

    One timer is kept per entry and time. It is either in `_old`, from before the epoch, or in what came since. All that
    registers timers must agree on that: `registering`, `register`, `register_all`, and `put_all` of `timer_times.py`.

    Args:
        codec: Of the keys.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec
        self._read_time = reader(_TIME)
        self._write_time = writer(_TIME)
        self.empty()

    def empty(self) -> None:
        self._rows = 0
        self.first = NEVER
        self._old: Times = {}  # timers that existed when the epoch began, without those removed since
        self._changes, self._pending = _Changes(), _Changes()
        self._run: deque[int] = deque()  # times that came in ascending order: nearly all, after an ordered input
        self._heap: list[int] = []  # the other times; both may have times without timers, or a time twice
        self._new: list[int] = []  # times that are in neither yet: few of them still matter in `earliest`

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def keys(self) -> int:
        return self._rows

    def registering(self, keys: KeyContext) -> OfTimer:
        def register(timestamp: int) -> None:
            time = timestamp if type(timestamp) is int else int(index(timestamp))
            entry, changes = keys.entry, self._changes
            came = changes.came
            if time in came or time in self._old or time in changes.went or entry is NO_KEY:
                existing = came.get(time)
                if type(existing) is not Tie or entry not in existing:
                    self.register(entry, time)
                return
            came[time] = entry
            self._new.append(time)
            if time < self.first:
                self.first = time

        return register

    def deleting(self, keys: KeyContext) -> OfTimer:
        def delete(timestamp: int) -> None:
            time = timestamp if type(timestamp) is int else int(index(timestamp))
            entry, came = keys.entry, self._changes.came
            if came.get(time, MISSING) == entry:
                del came[time]
            else:
                self.delete(entry, time)

        return delete

    def register(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        came, went, existing = self._changes.came, self._changes.went, self._old.get(time, MISSING)
        if time in went:
            self.register_all([entry], time)
            return
        if existing is MISSING:
            if time not in came:
                self._expect(time)
        elif existing == entry or (type(existing) is Tie and entry in existing):
            return
        put(came, time, entry)

    def register_all(self, entries: list[Any], time: int) -> None:
        came, went = self._changes.came, self._changes.went
        if time not in self._old and time not in came:
            self._expect(time)
        new = without(entries, self._old.get(time, MISSING))
        if time in went:
            wanted, new = new, take_all(went, time, new)
            put_all(self._old, time, without(wanted, Tie.fromkeys(new)))
        put_all(came, time, new)

    def delete(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        self._took(entry, time)

    def _took(self, entry: Any, time: int) -> bool:
        if take(self._changes.came, time, entry):
            return True
        return take(self._old, time, entry) and put(self._changes.went, time, entry)

    def earliest(self) -> int | None:
        if self._pending.came:  # they are in neither of the dicts below, and nothing comes or goes until they are
            return self.first
        run, heap, old, came = self._run, self._heap, self._old, self._changes.came
        if self._new:
            last = run[-1] if run else -NEVER
            for time in self._new:
                if time in came or time in old:
                    if time > last:
                        run.append(time)
                        last = time
                    else:
                        heappush(heap, time)
            self._new = []
            if len(run) + len(heap) > 2 * (len(old) + len(came)) + _STALE:
                run = self._run = deque(sorted(old.keys() | came.keys()))
                heap = self._heap = []
        while run and (time := run[0]) not in came and time not in old:
            run.popleft()
        while heap and (time := heap[0]) not in came and time not in old:
            heappop(heap)
        first = run[0] if run else None
        if heap and (first is None or heap[0] < first):
            first = heap[0]
        self.first = NEVER if first is None else first
        return first

    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        assert not self._pending.came, "it was frozen, and not settled"
        while (time := self.first) <= limit:
            came = self._changes.came
            existing = came.get(time, MISSING)
            if type(existing) is Tie or time in self._old:
                for entry in self._at(time):
                    if self._took(entry, time):
                        yield time, entry
            elif existing is not MISSING:
                del came[time]
                yield time, existing
            self.earliest()

    def all_due(self, limit: int, *, in_turn: bool = True) -> Iterator[tuple[int, list[Any]]]:
        assert not self._pending.came, "it was frozen, and not settled"
        while (time := self.earliest()) is not None and time <= limit:
            entries = self._at(time, in_turn=in_turn)
            self._changes.came.pop(time, None)
            put_all(self._changes.went, time, listed(self._old.pop(time, MISSING)))
            yield time, entries

    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        entries: list[Any] = []
        times: list[int] = []
        for time, of_time in self.all_due(limit, in_turn=in_turn):
            times += [time] * len(of_time)
            entries += of_time
        if not entries:
            return None
        return EntryKeys(entries, pa.array(times))

    def register_keys(self, keys: Keys, times: Numbers) -> None:
        for entries, time in _together(keys, times):
            self.register_all(entries, time)

    def delete_keys(self, keys: Keys, times: Numbers) -> None:
        for entries, time in _together(keys, times):
            for entry in entries:
                self.delete(entry, time)

    def _at(self, time: int, *, in_turn: bool = True) -> list[Any]:
        """Returns the entries with a timer at a time, in the order in which they fire or in any order."""
        entries = listed(self._old.get(time, MISSING)) + listed(self._changes.came.get(time, MISSING))
        return sorted(entries, key=repr) if in_turn and len(entries) > 1 else entries

    def _add(self, entries: list[Any], time: int) -> list[Any]:
        if time not in self._old and time not in self._changes.came:
            self._expect(time)
        return put_all(self._old, time, entries)

    def _expect(self, time: int) -> None:
        self._new.append(time)
        if time < self.first:
            self.first = time

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> Delta | None:
        self.earliest()  # `first` stays as it is now until `settle`
        changes = self._changes
        came, came_times = pairs(changes.came)
        went, went_times = pairs(changes.went)
        if not came and not went:
            return None
        entries = came + went
        times = written(self._write_time, came_times + went_times, entries.__getitem__)
        self._changes, self._pending = _Changes(), changes
        changes.rows = len(came) - len(went)
        ops, values = rows_that(len(came), len(went))
        return Delta(ops, values, times, entries=entries)

    def settle(self) -> None:
        changes, old = self._pending, self._old
        self._pending = _Changes()
        self._rows += changes.rows
        for time, entries in changes.came.items():
            if type(entries) is Tie or time in old:
                put_all(old, time, listed(entries))
            else:
                old[time] = entries

    def forget(self) -> None:
        undone = (self._changes, self._pending)
        self._changes, self._pending = _Changes(), _Changes()
        for changes in undone:
            for time, entries in changes.went.items():
                self._add(listed(entries), time)

    def merge(self, delta: Delta) -> None:
        for op, time, entries in _runs(delta.entries, delta.ops, self._read_time(delta.user_keys)):
            if op == Op.PUT:
                self._rows += len(self._add(entries, time))
            elif op == Op.DELETE:
                self._remove(entries, time)
            else:
                self._remove_if(lambda entry, gone=entries[0]: entry == gone)  # type: ignore[misc]

    def drop_group(self, group: int) -> None:
        self._remove_if(lambda entry: self._codec.group_of(entry) == group)

    def _remove(self, entries: list[Any], time: int) -> None:
        self._rows -= len(entries) - len(take_all(self._old, time, entries))

    def _remove_if(self, belongs: Callable[[Any], bool]) -> None:
        for entry, time in zip(*pairs(self._old), strict=True):
            if belongs(entry):
                self._remove([entry], time)


def rows_that(come: int, go: int) -> "tuple[np.ndarray[Any, Any], Any]":
    """Returns the ops and the values of rows of timers: first the rows that add timers, then those that remove some."""
    ops = np.repeat(np.array([Op.PUT, Op.DELETE], np.int8), [come, go])
    values: Any = pa.array(ops == Op.PUT, mask=ops == Op.DELETE)
    return ops, values


def _together(keys: Keys, times: Numbers) -> Iterator[tuple[list[Any], int]]:
    """Yields each time with its keys, each once."""
    pairs = Keys([indices(keys.codes), indices(times)], lambda _: []).distinct
    codes, at_times = (np.asarray(column) for column in pairs.columns)
    entries = keys.entries
    for time, positions in by_number(at_times):
        yield [entries[code] for code in codes[positions].tolist()], time


def _runs(entries: list[Any], ops: "np.ndarray[Any, Any]", times: list[int]) -> Iterator[tuple[int, int, list[Any]]]:
    """Yields rows of one op and one time together, if many share a time; the rows of a time stay in their order."""
    if len(set(times)) * _SHARED > len(times) or Op.CLEAR in ops:
        yield from zip(ops.tolist(), times, ([entry] for entry in entries), strict=True)
        return
    every = np.fromiter(entries, object, len(entries))
    for time, of_time in by_number(np.array(times)):
        for run in np.split(of_time, np.flatnonzero(np.diff(ops[of_time])) + 1):
            yield int(ops[run[0]]), time, list(dict.fromkeys(every[run].tolist()))


__all__ = ["NEVER", "EntryTimers", "OfTimer", "TimerTable", "rows_that"]
