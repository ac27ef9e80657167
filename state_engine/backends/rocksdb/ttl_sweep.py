"""Clean-up of states with a time to live in a database: a cursor that looks at some rows with each epoch.

It stands in for Flink's compaction filter, which rocksdict has no hook for. What has expired is removed like anything
else that an epoch changes: it is in the log, and other workers, checkpoints and restores have it no more either.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from state_engine.backends.ascending import Flags
from state_engine.backends.rocksdb.bases import EntriesInDatabase, ValuesInDatabase
from state_engine.backends.rocksdb.cells import group_of, is_head
from state_engine.backends.rocksdb.column_lists import ColumnLists
from state_engine.backends.rocksdb.lists import ListsInDatabase
from state_engine.backends.rocksdb.maps import MapsInDatabase
from state_engine.backends.shapes.table import ColumnTable, Table
from state_engine.backends.stamps import at_most, split_stamps
from state_engine.backends.stores.dicts import DELETED, MapDelta
from state_engine.backends.ttl_rules import TtlRules
from state_engine.key_groups import KeyGroupRange


class TtlSweep:
    """Looks at the rows of one state in turn: removes what expired, and writes the time of what has none.

    Args:
        table: Of stamped values, over a database.
        rules: When they expire.
        size: How many rows to look at per epoch: values, entries of maps, elements of lists.
        key_groups: Those of the state in this database.

    Attributes:
        cursor: The key of the cell to go on from; empty: the first one. It is kept with the state, so that a worker
            that takes the database over goes on where the last one stood.
    """

    def __init__(self, table: Table, rules: TtlRules, size: int, key_groups: KeyGroupRange) -> None:
        self._table: Any = table
        self._rules = rules
        self._size = size
        self._key_groups = key_groups
        self.cursor = b""

    def run(self) -> None:
        """Looks at the next rows, as the database has them; what the epoch changed itself is left as it is."""
        base: EntriesInDatabase = self._table.base
        if self._rules.now() is None or base.staged:
            return
        begin, end = base.cells.groups(*self._key_groups)
        left = self._size
        for key, value in base.raw(max(begin, self.cursor), end):
            if left <= 0:
                self.cursor = key
                return
            if group_of(key) not in base.resets:
                left -= self._look(base, key, value)
        self.cursor = b""

    def _look(self, base: EntriesInDatabase, key: bytes, value: bytes) -> int:
        """Looks at one cell; returns how many rows it has."""
        entry, rest = base.cells.entry(key)
        if isinstance(base, ListsInDatabase):
            elements = base.small(value) if is_head(key) else base.piece(value)
            if self._changes(at for _, at in elements):
                self._table.clean([entry], self._rules.expiry(), self._rules.first_seen())
            return len(elements)
        if isinstance(base, MapsInDatabase):
            rows = list(base.small(value).items()) if is_head(key) else [base.row(key, rest, value)]
            for user_key, stamped in rows:
                self._look_at_entry(entry, user_key, stamped)
            return len(rows)
        assert isinstance(base, ValuesInDatabase), "the tables of timers have no time to live"
        held = base.value(value)
        if entry not in self._table.overlay and self._changes([held[1]]):
            self._table.overlay[entry] = self._renewed(held)
        return 1

    def _changes(self, times: Iterable[int | None]) -> bool:
        seen = self._rules.first_seen()
        return any(self._rules.expired(at) or (at is None and seen is not None) for at in times)

    def _renewed(self, stamped: tuple[Any, int | None]) -> tuple[Any, int | None] | None:
        held, at = stamped
        if self._rules.expired(at):
            return None
        return (held, self._rules.first_seen()) if at is None else stamped

    def _look_at_entry(self, entry: Any, user_key: Any, stamped: tuple[Any, int | None]) -> None:
        delta = self._table.overlay.get(entry)
        if (delta is not None and (delta.cleared or user_key in delta.entries)) or not self._changes([stamped[1]]):
            return
        if delta is None:
            delta = self._table.overlay[entry] = MapDelta()
        renewed = self._renewed(stamped)
        delta.entries[user_key] = DELETED if renewed is None else renewed


class ColumnSweep(TtlSweep):
    """Of lists that are asked for by columns: as many cells as are looked at are read as one column."""

    def run(self) -> None:
        lists: ColumnLists = self._table.store
        if self._rules.now() is None or lists.staged:
            return
        found, self.cursor = lists.cells_from(self._key_groups, self.cursor, self._size)
        expiry, seen = self._rules.expiry(), self._rules.first_seen()

        def has_changes(stamped: Any) -> Flags:
            times = split_stamps(stamped)[1]
            return at_most(times, expiry) | (np.asarray(times.is_null()) & (seen is not None))

        changed = lists.entries_with(found, has_changes)
        for namespace, _, numbers in lists.parts_with(changed):
            self._table.clean(namespace, numbers, expiry, seen)


def sweep_of(table: Table, rules: TtlRules, size: int, key_groups: KeyGroupRange) -> TtlSweep:
    """Returns the sweep of a table."""
    kind = ColumnSweep if isinstance(table, ColumnTable) else TtlSweep
    return kind(table, rules, size, key_groups)


__all__ = ["TtlSweep", "sweep_of"]
