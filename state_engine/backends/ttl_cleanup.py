"""Incremental clean-up of states with a time to live: some keys per access or record, logged as deletes."""

import math

from state_engine.backends.shapes.table import StampedTable
from state_engine.backends.ttl_rules import TtlRules

_TOGETHER = 1_000
"""Keys that are checked together, if no one can notice when: a call for each access costs more than the check."""


class IncrementalCleanup:
    """Checks the keys of a state in turn: removes expired values, and sets the last access of values that have none.

    What it does is in the log. Which keys it has checked is not: another worker begins again. At most one round begins
    per time, and the processing time does not change within an epoch. No round begins while nothing can have expired of
    what the last round left or what was loaded since.

    Args:
        table: Of stamped values.
        rules: When they expire. Where expired values may be read, each access checks its keys at once, as in Flink.
        size: How many keys to check per access.
    """

    def __init__(self, table: StampedTable, rules: TtlRules, size: int) -> None:
        self._table = table
        self._rules = rules
        self._size = size
        self._began: int | None = None
        self._oldest = math.inf
        self._together = 1 if rules.returns_expired else _TOGETHER
        self._owed = 0

    def accessed(self, keys: int = 1) -> None:
        """Makes `size` more keys due for a check, for each key that was accessed."""
        self._owed += self._size * keys
        if self._owed >= self._together:
            self.run()

    def run(self) -> None:
        """Checks the keys that are due; called at the end of every epoch, too."""
        if self._oldest == math.inf:  # the state's first epoch: what was not loaded is written from now on
            self._oldest = self._from_now_on()
        owed, self._owed = self._owed, 0
        while owed > 0:
            looked = self._look(owed)
            if not looked:
                return
            owed -= looked

    def expect_old(self) -> None:
        """Expects values older than those that the last round left: its removals were lost."""
        self._oldest = -math.inf

    def _look(self, most: int) -> int:
        """Checks the next keys of this round, or the first keys of another round; returns how many it checked."""
        expiry, seen = self._rules.expiry(), self._rules.first_seen()
        looked, oldest = self._table.clean_next(most, expiry, seen)
        if not looked and self._begins():
            self._table.begin_round()
            looked, oldest = self._table.clean_next(most, expiry, seen)
        self._oldest = min(self._oldest, oldest)
        return looked

    def _begins(self) -> bool:
        """Returns whether a round may begin; if so, it has begun."""
        now = self._rules.now()
        if now is None or now == self._began or min(self._oldest, self._table.oldest) > self._rules.expiry():
            return False
        self._began = now
        self._oldest = self._from_now_on()
        self._table.oldest = math.inf  # the round sees what was loaded
        return True

    def _from_now_on(self) -> float:
        """Returns the earliest last access of what will be written."""
        now = self._rules.now()
        return -math.inf if now is None or not self._rules.stamps_grow else now


__all__ = ["IncrementalCleanup"]
