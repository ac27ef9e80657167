"""Timers over a database: the table stays in memory, and the database has a copy to begin from."""

from collections.abc import Callable
from itertools import repeat
from typing import Any

from state_engine.api.types import Types
from state_engine.backends.rocksdb.bases import Opened
from state_engine.backends.rocksdb.cells import Cells, group_of, inner_prefix
from state_engine.backends.rocksdb.ordered import ordered_codec
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.timer_entries import pairs
from state_engine.backends.timers import TimerTable

_TIME = ordered_codec(Types.LONG())


class TimerCopy:
    """The timers in the database: a cell of kind 01 each, without headers.

    Attributes:
        form: As of a `Base`.
        live: Of no use here: the table counts.
        staged: Timers that came (True) or went since the last write, by entry and time.
    """

    form = ""

    def __init__(self, opened: Opened, cells: Cells) -> None:
        self._opened = opened
        self.cells = cells
        self.live = 0
        self.staged: dict[tuple[Any, int], bool] = {}
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
        heads = self.cells.keys([entry for entry, _ in self.staged])
        for head, ((_, time), there) in zip(heads, self.staged.items(), strict=True):
            changes.cells[inner_prefix(head) + _TIME.encode(time)] = b"" if there else None
        self.abandon()

    def abandon(self) -> None:
        """Drops what is staged."""
        self.staged = {}
        self._reset = set()

    def drop_group(self, group: int) -> None:
        """Removes all timers of a key group."""
        self.staged = {k: v for k, v in self.staged.items() if group_of(self.cells.key(k[0])) != group}
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
        staged = self.timer_copy.staged
        for changed, there in ((self._pending.came, True), (self._pending.went, False)):
            staged.update(dict.fromkeys(zip(*pairs(changed), strict=True), there))
        super().settle()

    def _load(self, entries: list[Any], time: int) -> None:
        self._stage(entries, time, True)
        super()._load(entries, time)

    def _unload(self, entries: list[Any], time: int) -> None:
        self._stage(entries, time, False)
        super()._unload(entries, time)

    def _stage(self, entries: list[Any], time: int, there: bool) -> None:
        self.timer_copy.staged.update(dict.fromkeys(zip(entries, repeat(time)), there))


__all__ = ["RocksTimerTable", "TimerCopy"]
