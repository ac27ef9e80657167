"""Ports for time and ids, so that protocol code has neither of its own."""

import time
import uuid
from typing import Protocol

# Continues while the machine sleeps, if the system has such a clock.
_STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Processing time, and a time that only moves forward."""

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch; it jumps when the clock is set."""
        ...

    def steady_ms(self) -> int:
        """Returns milliseconds since some moment, the same for one process: for intervals, pauses and timeouts."""
        ...


class Ids(Protocol):
    """Unique names."""

    def new_id(self) -> str:
        """Returns a name that was never returned before: 32 hexadecimal digits."""
        ...


class SystemClock:
    """The wall clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1_000_000


class RandomIds:
    """Random UUIDs."""

    def new_id(self) -> str:
        return uuid.uuid4().hex


__all__ = ["Clock", "Ids", "RandomIds", "SystemClock"]
