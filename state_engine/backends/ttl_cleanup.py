"""Incremental clean-up of states with a time to live: some keys per access or record, logged as deletes."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from state_engine.backends.stamped_tables import StampedTable
from state_engine.backends.tables import DELETED, HeapTable, ListDelta, ListTable, MapDelta, MapTable
from state_engine.backends.ttl_rules import TtlRules, is_worth_it

_TOGETHER = 1_000
"""Keys that are looked at in one go, where nobody can see when: coming back for each access costs more than looking."""


_AT_ONCE = 100_000
"""Keys that are looked at in one go as columns; more when so many were written: each look is laid over all of that."""


class IncrementalCleanup:
    """Looks at the keys of a state in turn: removes what expired, and writes the time of what has none.

    What it does is in the log. Which keys it has seen is not: another worker begins again. Within an epoch time stands
    still, so at most one round begins at a time; and none as long as nothing can have expired that the last one left or
    that was loaded since.

    Args:
        table: Of stamped values.
        rules: When they expire. Where expired values may be read, each access looks at its keys at once, as in Flink.
        size: How many keys to look at per access.
    """

    def __init__(self, table: HeapTable, rules: TtlRules, size: int) -> None:
        self._table = table
        self._rules = rules
        self._size = size
        self._clean: Callable[[list[Any]], None] = self._clean_values
        if isinstance(table, ListTable):
            self._clean = self._clean_lists
        elif isinstance(table, MapTable):
            self._clean = self._clean_maps
        self._keys: Iterator[Any] = iter(())
        self._began: int | None = None
        self._oldest = math.inf
        self._together = 1 if rules.returns_expired else _TOGETHER
        self._owed = 0

    def accessed(self, keys: int = 1) -> None:
        """Owes a look at the next keys, so many for each that was accessed."""
        self._owed += self._size * keys
        if self._owed >= self._together:
            self.run()

    def run(self) -> None:
        """Looks at as many keys as are owed; called at the end of every epoch, too."""
        if self._oldest == math.inf:  # the state's first epoch: what was not loaded is written from now on
            self._oldest = self._from_now_on()
        owed, self._owed = self._owed, 0
        while owed > 0:
            looked = self._look(owed)
            if not looked:
                return
            owed -= looked

    def expect_old(self) -> None:
        """Says that there may be older values than the last round left: what it removed was lost."""
        self._oldest = -math.inf

    def _look(self, most: int) -> int:
        """Looks at the next keys of this round, or the first ones of another; returns at how many."""
        keys = list(islice(self._keys, most))
        if not keys and self._begins():
            self._keys = iter(list(self._table.base))
            keys = list(islice(self._keys, most))
        if keys:
            self._clean(keys)
        return len(keys)

    def _begins(self) -> bool:
        """Says whether a round may begin, which then has begun."""
        now = self._rules.now()
        if now is None or now == self._began or min(self._oldest, self._table.oldest) > self._rules.expiry():
            return False
        self._began = now
        self._oldest = self._from_now_on()
        self._table.oldest = math.inf  # the round sees what was loaded
        return True

    def _from_now_on(self) -> float:
        """The earliest last access of what will be written."""
        now = self._rules.now()
        return -math.inf if now is None or not self._rules.stamps_grow else now

    def _clean_values(self, keys: list[Any]) -> None:
        overlay, expiry, seen = self._table.overlay, self._rules.expiry(), self._rules.first_seen()
        oldest = self._oldest
        for key, stamped in zip(keys, map(self._table.base.get, keys), strict=True):
            if stamped is None:
                continue
            at = stamped[1]
            if at is None:
                if seen is not None and key not in overlay:
                    overlay[key] = (stamped[0], seen)
            elif at <= expiry:
                if key not in overlay:
                    overlay[key] = None
            elif at < oldest:
                oldest = at
        self._oldest = oldest

    def _clean_lists(self, keys: list[Any]) -> None:
        base, overlay = self._table.base, self._table.overlay
        expiry, seen = self._rules.expiry(), self._rules.first_seen()
        for key in keys:
            elements, unknown, expired = base.get(key, ()), False, []
            for _, at in elements:
                if at is None:
                    unknown = seen is not None
                elif at <= expiry:
                    expired.append(at)
                elif at < self._oldest:
                    self._oldest = at
            delta = overlay.get(key)
            if delta is not None and delta.cleared:
                continue
            if not unknown and not is_worth_it(len(expired), len(elements)):
                self._oldest = min([self._oldest, *expired])  # a later round looks again
                continue
            if delta is None:
                delta = overlay[key] = ListDelta()
            kept = [(v, seen if at is None else at) for v, at in elements if at is None or at > expiry]
            delta.cleared, delta.appended = True, kept + delta.appended

    def _clean_maps(self, keys: list[Any]) -> None:
        base, overlay = self._table.base, self._table.overlay
        expiry, seen = self._rules.expiry(), self._rules.first_seen()
        for key in keys:
            delta = overlay.get(key)
            if delta is not None and delta.cleared:
                continue
            written = {} if delta is None else delta.entries
            changes: dict[Any, Any] = {}
            for user_key, (value, at) in base.get(key, {}).items():
                if at is None:
                    if seen is not None and user_key not in written:
                        changes[user_key] = (value, seen)
                elif at <= expiry:
                    if user_key not in written:
                        changes[user_key] = DELETED
                elif at < self._oldest:
                    self._oldest = at
            if changes:
                if delta is None:
                    delta = overlay[key] = MapDelta()
                delta.entries.update(changes)


class ColumnCleanup(IncrementalCleanup):
    """Of values as columns.

    Args:
        table: As of `IncrementalCleanup`.
        rules: As of `IncrementalCleanup`.
        size: As of `IncrementalCleanup`.
    """

    _table: StampedTable

    def _look(self, most: int) -> int:
        table, rules = self._table, self._rules
        if not table.unseen and self._begins():
            table.begin_round()
        if not table.unseen:
            return 0
        namespace, numbers = table.unseen.pop()
        most = min(most, max(_AT_ONCE, table.written(namespace)))
        if len(numbers) > most:
            table.unseen.append((namespace, numbers[most:]))
        kept = table.clean(namespace, numbers[:most], rules.expiry(), rules.first_seen())
        self._oldest = min(self._oldest, kept)
        return max(1, min(most, len(numbers)))


__all__ = ["ColumnCleanup", "IncrementalCleanup"]
