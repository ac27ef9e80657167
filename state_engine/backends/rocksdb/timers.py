"""Timers over a database: the table stays in memory, and the database has a copy to begin from."""

from collections.abc import Callable
from itertools import compress, repeat
from typing import Any, NamedTuple

from state_engine.api.types import Types
from state_engine.backends.rocksdb.bases import Opened
from state_engine.backends.rocksdb.cells import Cells
from state_engine.backends.rocksdb.ordered import ordered_codec
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.timer_entries import pairs
from state_engine.backends.timers import TimerTable

_TIME = ordered_codec(Types.LONG())


class _Run(NamedTuple):
    """Timers that all came, or all went."""

    there: bool
    entries: list[Any]
    times: list[int]


class TimerCopy:
    """The timers in the database: a cell of kind 01 each, without headers.

    Attributes:
        form: As of a `Base`.
        live: Of no use here: the table counts.
    """

    form = ""

    def __init__(self, opened: Opened, cells: Cells) -> None:
        self._opened = opened
        self.cells = cells
        self.live = 0
        self._staged: list[_Run] = []
        self._reset: set[int] = set()

    def read(self) -> "list[tuple[Any, int]]":
        """Returns all timers that the database has."""
        found = []
        begin, end = self.cells.groups(0, 0xFFFF)
        for key, _ in self._opened.store.scan(begin, end):
            entry, at = self.cells.entry(key)
            found.append((entry, _TIME.decode(key, at)[0]))
        return found

    def prefetch(self, entries: list[Any]) -> None:
        """Does nothing: all timers are in memory."""

    def write(self, changes: Changes) -> None:
        """Moves what is staged into a write."""
        changes.ranges.extend(self.cells.groups(group, group) for group in sorted(self._reset))
        for there, entries, times in self._staged:
            changes.cells.update(zip(self.cells.timer_keys(entries, times), repeat(b"" if there else None)))
        self.abandon()

    def stage(self, entries: list[Any], times: list[int], there: bool) -> None:
        """Has timers that came, or went, written with the next write."""
        if not entries:
            return
        if not self._staged or self._staged[-1].there is not there:
            self._staged.append(_Run(there, [], []))
        self._staged[-1].entries.extend(entries)
        self._staged[-1].times.extend(times)

    def abandon(self) -> None:
        """Drops what is staged."""
        self._staged = []
        self._reset = set()

    def drop_group(self, group: int) -> None:
        """Removes all timers of a key group."""
        for run in self._staged:
            stay = [self.cells.group(entry) != group for entry in run.entries]
            run.entries[:], run.times[:] = compress(run.entries, stay), compress(run.times, stay)
        self._reset.add(group)


class RocksTimerTable(TimerTable):
    """The timers of one clock, with a copy in the database."""

    def __init__(self, copy: TimerCopy) -> None:
        super().__init__()
        self.timer_copy = copy

    def read_copy(self) -> None:
        """Begins anew with what the database has. What is frozen stays so.

        Another worker may have had the database since, and have written what this one froze, or not.
        """
        pending = self._pending
        self.clear()
        for entry, time in self.timer_copy.read():
            super()._load([entry], time)
        pending.reread = True
        self._pending = pending

    def clear(self) -> None:
        """Empties the table, and what is staged for the database."""
        self.timer_copy.abandon()
        self.empty()

    def drop_group(self, group: int, belongs: Callable[[Any], bool]) -> None:
        """Removes all timers of a key group."""
        self.drop_entries(belongs)
        self.timer_copy.drop_group(group)

    def settle(self) -> None:
        for changed, there in ((self._pending.came, True), (self._pending.went, False)):
            self.timer_copy.stage(*pairs(changed), there)
        super().settle()

    def _load(self, entries: list[Any], time: int) -> None:
        self.timer_copy.stage(entries, [time] * len(entries), True)
        super()._load(entries, time)

    def _unload(self, entries: list[Any], time: int) -> None:
        self.timer_copy.stage(entries, [time] * len(entries), False)
        super()._unload(entries, time)


__all__ = ["RocksTimerTable", "TimerCopy"]
