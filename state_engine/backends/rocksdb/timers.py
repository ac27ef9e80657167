"""Timers over a database: the table and its queue stay in memory, and the database has a copy to begin from."""

from collections.abc import Callable
from typing import Any

from state_engine.api.types import Types
from state_engine.backends.rocksdb.bases import Opened
from state_engine.backends.rocksdb.cells import Cells, group_of, inner_prefix
from state_engine.backends.rocksdb.ordered import ordered_codec
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.tables import DELETED
from state_engine.backends.timers import TimerQueue, TimerTable

_TIME = ordered_codec(Types.LONG())


class TimerCopy:
    """The timers in the database: a cell of kind 01 each, without headers.

    Attributes:
        live: Of no use here: the table counts.
        staged: Timers that came (True) or went since the last write, by entry and time.
    """

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
        """Begins anew with what the database has."""
        self.clear()
        for entry, time in self.timer_copy.read():
            self.base.setdefault(entry, {})[time] = True
            self.rows += 1
            self._queue.add(entry, time)

    def clear(self) -> None:
        """Empties the table, and what is staged for the database."""
        self.timer_copy.abandon()
        self.base, self.overlay, self._queue, self.rows = {}, {}, TimerQueue(), 0
        self._drop_pending()

    def drop_group(self, group: int, belongs: Callable[[Any], bool]) -> None:
        """Removes all timers of a key group."""
        self.drop_entries(belongs)
        self.timer_copy.drop_group(group)

    def _merge(self, entry: Any, entries: dict[Any, Any]) -> None:
        staged = self.timer_copy.staged
        for time, what in entries.items():
            staged[entry, time] = what is not DELETED
        super()._merge(entry, entries)

    def _put(self, entry: Any, user_key: Any, value: Any) -> None:
        self.timer_copy.staged[entry, user_key] = value is not DELETED
        super()._put(entry, user_key, value)

    def _remove(self, entry: Any) -> None:
        for time in self.base.get(entry, ()):
            self.timer_copy.staged[entry, time] = False
        super()._remove(entry)


__all__ = ["RocksTimerTable", "TimerCopy"]
