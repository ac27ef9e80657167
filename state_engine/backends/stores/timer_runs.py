"""Timers as columns: runs in the order of their times. An epoch may add timers to them and remove some.

A timer is in at most one run. What an epoch registers is a run of its own. It is merged with an older run only if that
is not much larger. So the cost of an epoch depends on what it registers and deletes, not on how many timers wait.
"""

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from state_engine.api.keys import Numbers, order_of
from state_engine.backends.ascending import Flags, distinct, positions_of
from state_engine.backends.entry_index import keys_of, namespaces_of
from state_engine.backends.stores.list_runs import LARGER

_FEW_TIMES = 64
"""Up to this many times are looked up one by one, the timers of each together."""
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class Timers(NamedTuple):
    """Timers, one per position in each column.

    Attributes:
        times: In ms.
        places: The place of the key and namespace of each (`entry_index.py`).
    """

    times: Numbers
    places: Numbers

    def take(self, positions: Numbers) -> "Timers":
        """Returns those at these positions."""
        return Timers(self.times[positions], self.places[positions])

    def ordered(self) -> tuple[Numbers, Flags]:
        """Returns their order by time and then place, and which of them, in that order, differ from the one before."""
        order = np.arange(len(self.times))
        after, further = np.diff(self.times), np.diff(self.places)
        if not ((after > 0) | ((after == 0) & (further >= 0))).all():
            order = order_of(namespaces_of(self.places), keys_of(self.places), self.times)
        times, places = self.take(order)
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(times) != 0) | (np.diff(places) != 0)
        return order, new

    def distinct(self) -> "Timers":
        """Returns each of them once, by time and then place: two of one place and time are one timer."""
        order, new = self.ordered()
        return self.take(order[new])


NO_TIMERS = Timers(np.empty(0, np.int64), np.empty(0, np.int64))


def joined(parts: "list[Timers]") -> Timers:
    """Returns timers of several parts."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*[NO_TIMERS, *parts], strict=True)
    return Timers(*(np.concatenate(column) for column in columns))


class _Run:
    """Timers in order.

    Attributes:
        timers: The timers of the run, live or not.
        there: Which of them are live.
        before: Which of them were live when the epoch began.
        young: Whether the epoch made the run.
        first: No timer before this position is live.
        size: How many are live.
    """

    __slots__ = ("_touched", "before", "first", "size", "there", "timers", "young")

    def __init__(self, timers: Timers, there: Flags, before: Flags, *, young: bool) -> None:
        self.timers, self.there, self.before, self.young = timers, there, before, young
        self.first, self.size = 0, int(np.count_nonzero(there))
        self._touched: list[Numbers] = []

    def __len__(self) -> int:
        return len(self.there)

    def positions_of(self, timers: Timers) -> Numbers:
        """Returns the positions of timers, which are given in order; -1 for a timer that is not in the run."""
        times, places = self.timers
        if not (len(times) and len(timers.times)) or timers.times[-1] < times[0] or timers.times[0] > times[-1]:
            return np.full(len(timers.times), -1)
        starts = np.flatnonzero(np.diff(timers.times, prepend=timers.times[0] - 1))
        if len(starts) <= _FEW_TIMES:
            return self._positions_by_time(timers, starts)
        low = np.searchsorted(times, timers.times, "left")
        end = high = np.searchsorted(times, timers.times, "right")
        high = high.copy()
        while len(searched := np.flatnonzero(low < high)):  # a search by place among those of one time
            middle = (low[searched] + high[searched]) >> 1
            less = places[middle] < timers.places[searched]
            low[searched[less]] = middle[less] + 1
            high[searched[~less]] = middle[~less]
        hits = np.flatnonzero(low < end)
        hits = hits[places[low[hits]] == timers.places[hits]]
        positions = np.full(len(low), -1)
        positions[hits] = low[hits]
        return positions

    def _positions_by_time(self, timers: Timers, starts: Numbers) -> Numbers:
        """Does the same as `positions_of`, for few times; `starts` has the position of the first timer of each."""
        parts = []
        for start, end in pairwise([*starts.tolist(), len(timers.times)]):
            first, last = (int(np.searchsorted(self.timers.times, timers.times[start], side)) for side in SIDES)
            positions = positions_of(timers.places[start:end], self.timers.places[first:last])
            parts.append(np.where(positions >= 0, positions + first, -1))
        return np.concatenate(parts)

    def set(self, positions: Numbers, *, there: bool) -> None:
        """Marks timers, each given once, as live or not."""
        positions = positions[self.there[positions] != there]
        if not len(positions):
            return
        self.there[positions] = there
        self.size += len(positions) if there else -len(positions)
        if not self.young:
            self._touched.append(positions)
        if there:
            self.first = min(self.first, int(positions.min()))

    def earliest(self) -> int | None:
        """Returns the time of the first live timer."""
        ahead = self.there[self.first :]
        offset = int(ahead.argmax()) if len(ahead) else 0
        self.first += offset if len(ahead) and ahead[offset] else len(ahead)
        return int(self.timers.times[self.first]) if self.first < len(self) else None

    def due(self, limit: int) -> Numbers:
        """Returns the positions of the live timers, up to a time (inclusive)."""
        end = int(np.searchsorted(self.timers.times, limit, "right"))
        return self.first + np.flatnonzero(self.there[self.first : end])

    @property
    def touched(self) -> Numbers:
        """The positions of the timers that the epoch changed."""
        if self.young:
            return np.arange(len(self))
        if len(self._touched) == 1:
            return self._touched[0]
        return distinct(np.sort(np.concatenate([np.empty(0, np.int64), *self._touched])))

    def end(self, *, sealed: bool) -> None:
        """Ends an epoch; its changes count only if it was sealed."""
        touched = self.touched
        if sealed:
            self.before[touched] = self.there[touched]
        else:
            self.there[touched] = self.before[touched]
            self.first, self.size = 0, int(np.count_nonzero(self.there))
        self.young, self._touched = False, []


class TimerRuns:
    """All timers of a table.

    Attributes:
        rows: How many timers there were when the epoch began.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._runs: list[_Run] = []  # from the oldest to the newest

    def add(self, timers: Timers) -> None:
        """Adds timers, unless they exist."""
        new = self._set(timers.distinct(), there=True)
        if len(new.times):
            count = len(new.times)
            self._append(_Run(new, np.ones(count, bool), np.zeros(count, bool), young=True))

    def remove(self, timers: Timers) -> None:
        """Removes timers, if they exist."""
        self._set(timers.distinct(), there=False)

    def has(self, timers: Timers) -> Flags:
        """Returns which timers exist."""
        flags = np.zeros(len(timers.times), bool)
        order, _ = timers.ordered()
        for run in self._runs:
            positions = run.positions_of(timers.take(order))
            hits = np.flatnonzero(positions >= 0)
            flags[order[hits]] = run.there[positions[hits]]
        return flags

    def earliest(self) -> int | None:
        """Returns the time of the earliest timer."""
        return min((time for run in self._runs if (time := run.earliest()) is not None), default=None)

    def due(self, limit: int) -> Timers:
        """Removes and returns all timers up to a time (inclusive), in no order."""
        taken = []
        for run in self._runs:
            positions = run.due(limit)
            taken.append(run.timers.take(positions))
            run.set(positions, there=False)
        return joined([NO_TIMERS, *taken])

    def at(self, time: int) -> Timers:
        """Returns the timers of one time."""
        parts = [NO_TIMERS]
        for run in self._runs:
            first, end = (int(np.searchsorted(run.timers.times, time, side)) for side in SIDES)
            parts.append(run.timers.take(first + np.flatnonzero(run.there[first:end])))
        return joined(parts)

    def changes(self) -> tuple[Timers, Timers]:
        """Returns the timers that came since the epoch began, and those that went: none is in both."""
        came, went = [NO_TIMERS], [NO_TIMERS]
        for run in self._runs:
            touched = run.touched
            live, before = run.there[touched], run.before[touched]
            came.append(run.timers.take(touched[live & ~before]))
            went.append(run.timers.take(touched[before & ~live]))
        return joined(came), joined(went)

    def end(self, *, sealed: bool) -> None:
        """Ends an epoch: if it was sealed, its changes count from now on; otherwise they are undone."""
        for run in self._runs:
            run.end(sealed=sealed)
        self.rows = sum(run.size for run in self._runs)
        runs, self._runs = self._runs, []
        for run in runs:
            if run.size:
                self._append(run if 2 * run.size >= len(run) else _only(run, run.there))

    def keep(self, kept: Flags) -> None:
        """Keeps the timers that `kept` flags, in the order of `places`; called between epochs."""
        start = 0
        for run in self._runs:
            run.set(np.flatnonzero(~kept[start : start + len(run)]), there=False)
            start += len(run)
        self.end(sealed=True)

    @property
    def places(self) -> Numbers:
        """The places of all timers that exist, and of some that existed before."""
        return np.concatenate([np.empty(0, np.int64), *(run.timers.places for run in self._runs)])

    def renumber(self, places: Numbers) -> None:
        """Replaces the places by others, given in the same order."""
        start = 0
        for run in self._runs:
            run.timers = Timers(run.timers.times, places[start : start + len(run)])
            start += len(run)

    def _set(self, timers: Timers, *, there: bool) -> Timers:
        """Marks timers as live or not; returns those that are in no run."""
        for run in self._runs:
            if not len(timers.times):
                break
            positions = run.positions_of(timers)
            run.set(positions[positions >= 0], there=there)
            timers = timers.take(np.flatnonzero(positions < 0))
        return timers

    def _append(self, run: _Run) -> None:
        """Adds a run after those that are much larger; joins it with the others. Only runs of one age are joined."""
        while self._runs and self._runs[-1].young == run.young and len(self._runs[-1]) < LARGER * len(run):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _only(run: _Run, kept: Flags) -> _Run:
    positions = np.flatnonzero(kept)
    return _Run(run.timers.take(positions), run.there[positions], run.before[positions], young=run.young)


def _merged(one: _Run, other: _Run) -> _Run:
    """Returns two runs as one, without dead timers. Both runs are of ended epochs, or both of one epoch."""
    one, other = _only(one, one.there), _only(other, other.there)
    timers = joined([one.timers, other.timers])
    order, _ = timers.ordered()
    live, before = (np.concatenate(pair)[order] for pair in ((one.there, other.there), (one.before, other.before)))
    return _Run(timers.take(order), live, before, young=one.young)


__all__ = ["NO_TIMERS", "TimerRuns", "Timers", "joined"]
