"""Clean-up of states with a time to live in a database: a cursor that checks some rows with each epoch.

It replaces Flink's compaction filter, for which rocksdict has no hook. Expired values are removed like any other change
of an epoch: the removal is in the log, so other workers, checkpoints and restores do not have them any more either.
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
    """Checks the rows of one state in turn: removes expired values, and sets the last access of values that have none.

    Args:
        table: Of stamped values, over a database.
        rules: When they expire.
        size: How many rows to check per epoch: values, entries of maps, elements of lists.
        key_groups: Those of the state in this database.

    Attributes:
        cursor: The key of the cell to continue from; empty for the first one. It is stored with the state, so that a
            worker that takes the database over continues where the last one stopped.
    """

    def __init__(self, table: Table, rules: TtlRules, size: int, key_groups: KeyGroupRange) -> None:
        self._table: Any = table
        self._rules = rules
        self._size = size
        self._key_groups = key_groups
        self.cursor = b""

    def run(self) -> None:
        """Checks the next rows, as the database has them; rows that the epoch itself changed stay as they are."""
        base: EntriesInDatabase = self._table.base
        if self._rules.now() is None or base.staged:
            return
        begin, end = base.cells.groups(*self._key_groups)
        remaining = self._size
        for key, value in base.raw(max(begin, self.cursor), end):
            if remaining <= 0:
                self.cursor = key
                return
            if group_of(key) not in base.resets:
                remaining -= self._look(base, key, value)
        self.cursor = b""

    def _look(self, base: EntriesInDatabase, key: bytes, value: bytes) -> int:
        """Checks one cell; returns how many rows it has."""
        entry, rest = base.cells.entry(key)
        if isinstance(base, ListsInDatabase):
            elements = base.small(value) if is_head(key) else base.piece(value)
            if self._changes(last_access for _, last_access in elements):
                self._table.clean_entry(entry, self._rules.expiry(), self._rules.first_seen())
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
        return any(
            self._rules.expired(last_access) or (last_access is None and seen is not None) for last_access in times
        )

    def _renewed(self, stamped: tuple[Any, int | None]) -> tuple[Any, int | None] | None:
        held, last_access = stamped
        if self._rules.expired(last_access):
            return None
        return (held, self._rules.first_seen()) if last_access is None else stamped

    def _look_at_entry(self, entry: Any, user_key: Any, stamped: tuple[Any, int | None]) -> None:
        delta = self._table.overlay.get(entry)
        if (delta is not None and (delta.cleared or user_key in delta.entries)) or not self._changes([stamped[1]]):
            return
        if delta is None:
            delta = self._table.overlay[entry] = MapDelta()
        renewed = self._renewed(stamped)
        delta.entries[user_key] = DELETED if renewed is None else renewed


class ColumnSweep(TtlSweep):
    """The sweep of lists by columns: all cells that a run checks are read as one column."""

    def run(self) -> None:
        lists: ColumnLists = self._table.store
        if self._rules.now() is None or lists.staged:
            return
        cells, self.cursor = lists.cells_from(self._key_groups, self.cursor, self._size)
        expiry, seen = self._rules.expiry(), self._rules.first_seen()

        def has_changes(stamped: Any) -> Flags:
            times = split_stamps(stamped)[1]
            return at_most(times, expiry) | (np.asarray(times.is_null()) & (seen is not None))

        changed = lists.entries_with(cells, has_changes)
        for namespace, _, numbers in lists.parts_with(changed):
            self._table.clean(namespace, numbers, expiry, seen)


def sweep_of(table: Table, rules: TtlRules, size: int, key_groups: KeyGroupRange) -> TtlSweep:
    """Returns the sweep of a table."""
    kind = ColumnSweep if isinstance(table, ColumnTable) else TtlSweep
    return kind(table, rules, size, key_groups)


__all__ = ["TtlSweep", "sweep_of"]
