"""Time and ids that tests decide."""


class ManualClock:
    """Stands still until it is moved."""

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
        """Sets the clock, as a person or a time server does: no time passes."""
        self._now_ms = now_ms


class CountingIds:
    """Ids that count up: 32 hexadecimal digits, the same in every run."""

    def __init__(self) -> None:
        self._last = 0

    def new_id(self) -> str:
        self._last += 1
        return f"{self._last:08x}" * 4


__all__ = ["CountingIds", "ManualClock"]
