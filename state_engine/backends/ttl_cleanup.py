"""Incremental clean-up of states with a time to live: some keys per access or record, logged as deletes."""

from collections.abc import Callable, Iterator
from typing import Any

from state_engine.backends.tables import DELETED, MISSING, HeapTable, ListDelta, ListTable, MapDelta, MapTable
from state_engine.backends.ttl import TtlRules


class IncrementalCleanup:
    """Looks at the keys of a state in turn: removes what expired, and writes the time of what has none.

    What it does is in the log. Which keys it has seen is not: another worker begins again. Within an epoch time stands
    still, so at most one round begins at a time.

    Args:
        table: Of stamped values.
        rules: When they expire.
        size: How many keys to look at per run.
    """

    def __init__(self, table: HeapTable, rules: TtlRules, size: int) -> None:
        self._table = table
        self._rules = rules
        self._size = size
        self._clean: Callable[[Any], None] = self._clean_value
        if isinstance(table, ListTable):
            self._clean = self._clean_list
        elif isinstance(table, MapTable):
            self._clean = self._clean_map
        self._keys: Iterator[Any] = iter(())
        self._began: int | None = None

    def run(self) -> None:
        """Looks at the next keys."""
        for _ in range(self._size):
            key = next(self._keys, MISSING)
            if key is MISSING:
                now = self._rules.now()
                if now is None or now == self._began:
                    return
                self._began = now
                self._keys = iter(list(self._table.base))
                key = next(self._keys, MISSING)
                if key is MISSING:
                    return
            if key not in self._table.overlay or isinstance(self._table, MapTable):
                self._clean(key)

    def _clean_value(self, key: Any) -> None:
        stamped = self._table.base.get(key)
        if stamped is None:
            return
        value, at = stamped
        if self._rules.expired(at):
            self._table.overlay[key] = None
        elif at is None and (seen := self._rules.first_seen()) is not None:
            self._table.overlay[key] = (value, seen)

    def _clean_list(self, key: Any) -> None:
        elements = self._table.base.get(key)
        if elements is None:
            return
        rules = self._rules
        kept = [(v, rules.first_seen() if at is None else at) for v, at in elements if not rules.expired(at)]
        if [at for _, at in kept] != [at for _, at in elements]:
            delta = self._table.overlay[key] = ListDelta()
            delta.cleared = True
            delta.appended = kept

    def _clean_map(self, key: Any) -> None:
        inner = self._table.base.get(key)
        delta = self._table.overlay.get(key)
        if inner is None or (delta is not None and delta.cleared):
            return
        written = {} if delta is None else delta.entries
        changes: dict[Any, Any] = {}
        for user_key, (value, at) in inner.items():
            if user_key in written:
                continue
            if self._rules.expired(at):
                changes[user_key] = DELETED
            elif at is None and (seen := self._rules.first_seen()) is not None:
                changes[user_key] = (value, seen)
        if changes:
            if delta is None:
                delta = self._table.overlay[key] = MapDelta()
            delta.entries.update(changes)


__all__ = ["IncrementalCleanup"]
