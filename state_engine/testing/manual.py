"""A clock, ids and checkpoints that a test controls."""

from collections.abc import Sequence
from dataclasses import dataclass

from state_engine.epoch.ports import Mark


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = self._steady_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def steady_ms(self) -> int:
        return self._steady_ms

    def advance(self, by_ms: int) -> None:
        """Moves time forward."""
        self._now_ms += by_ms
        self._steady_ms += by_ms

    def set_to(self, now_ms: int) -> None:
        """Sets the wall clock, as a user or a time server does; the steady clock does not change."""
        self._now_ms = now_ms


class CountingIds:
    """Returns ids that count up: 32 hexadecimal digits, the same in every run."""

    def __init__(self) -> None:
        self._last = 0

    def new_id(self) -> str:
        self._last += 1
        return f"{self._last:08x}" * 4


@dataclass
class ManualBarriers:
    """The `Barriers` port of an `EpochDriver`: the next epoch carries a checkpoint if `wanted` is set.

    Attributes:
        next_number: The id of the next checkpoint.
        wanted: Whether the next epoch carries a checkpoint.
        full: Whether that checkpoint is full.
    """

    next_number: int
    wanted: bool = False
    full: bool = False

    error = None

    def checkpoint_at(self, epoch: int, now_ms: int) -> Mark | None:
        if not self.wanted:
            return None
        self.wanted, self.next_number = False, self.next_number + 1
        return Mark(checkpoint_id=self.next_number - 1, full=self.full, trigger="interval")

    def next_id(self) -> int:
        return self.next_number

    def acknowledged(self, checkpoint_id: int, now_ms: int) -> None: ...

    def declined(self, checkpoint_id: int, now_ms: int, message: str) -> None: ...

    def sealed(self, epoch: int, log_bytes: int, inlined_bytes: int) -> None: ...

    def overdue(self, now_ms: int) -> Sequence[int]:
        return ()


__all__ = ["CountingIds", "ManualBarriers", "ManualClock"]
