"""Incremental clean-up of states with a time to live: some keys per access or record, logged as deletes."""

import math

from state_engine.backends.shapes.table import StampedTable
from state_engine.backends.ttl_rules import TtlRules

_TOGETHER = 1_000
"""Keys that are checked together, if no one can notice when: a call for each access costs more than the check."""
_ROUNDS = 8
"""Rounds begin at most this often in the time that a value lives, if no one can notice when."""


class IncrementalCleanup:
    """Checks the keys of a state in turn: removes expired values, and sets the last access of values that have none.

    What it does is in the log. Which keys it has checked is not: another worker begins again. At most one round begins
    per time, and the processing time does not change within an epoch. A watermark moves with nearly each record; so a
    round waits for a part of the time to live after the one before. No round begins while nothing can have expired of
    what the last round left, or of what was loaded or written since.

    Args:
        table: Of stamped values.
        rules: When they expire. Where expired values may be read, each access checks its keys at once, as in Flink.
        size: How many keys to check per access.
    """

    def __init__(self, table: StampedTable, rules: TtlRules, size: int) -> None:
        self._table = table
        self._rules = rules
        self._size = size
        self._next = -math.inf  # no round begins before
        self._oldest = math.inf
        self._together = 1 if rules.returns_expired else _TOGETHER
        self._pause = 1 if rules.returns_expired else max(1, rules.milliseconds // _ROUNDS)
        self._owed = 0

    def accessed(self, keys: int = 1) -> None:
        """Makes `size` more keys due for a check, for each key that was accessed."""
        self._owed += self._size * keys
        if self._owed >= self._together:
            self.run()

    def run(self) -> None:
        """Checks the keys that are due; called at the end of every epoch, too."""
        owed, self._owed = self._owed, 0
        while owed > 0:
            looked = self._look(owed)
            if not looked:
                return
            owed -= looked

    def expect_old(self) -> None:
        """Expects values older than those that the last round left: its removals were lost."""
        self._oldest = -math.inf
        self._next = -math.inf

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
        if now is None or now < self._next or min(self._oldest, self._table.oldest) > self._rules.expiry():
            return False
        self._next = now + self._pause
        self._oldest = self._table.oldest = math.inf  # the round sees all that the table has
        return True


__all__ = ["IncrementalCleanup"]
