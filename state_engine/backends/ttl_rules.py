"""Decides when values with a time to live have expired, by processing time or event time. The clock is injected."""

import math
from abc import ABC, abstractmethod
from typing import Any

from state_engine.api.timers import TimeDomain
from state_engine.backends.time import MAX_WATERMARK, NO_WATERMARK, OperatorTime
from state_engine.log.records import StateTtl


class TtlRules(ABC):
    """Decides when a value has expired, and which last access a touch sets.

    Args:
        ttl: The settings.
        time: The operator's clocks.

    Attributes:
        time: The operator's clocks.
        milliseconds: How long a value lives.
        returns_expired: Whether what has expired may be read until it is removed.
        renewed_by_reads: Whether a read is a touch.
    """

    __slots__ = ("milliseconds", "renewed_by_reads", "returns_expired", "time")

    stamps_grow = False
    """Whether no touch ever gets an earlier stamp than a touch before it."""

    def __init__(self, ttl: StateTtl, time: OperatorTime) -> None:
        self.time = time
        self.milliseconds = ttl.milliseconds
        self.renewed_by_reads = ttl.update == "read"
        self.returns_expired = ttl.returns_expired

    @abstractmethod
    def now(self) -> int | None:
        """The time by which values expire; None if there is none."""

    @abstractmethod
    def stamp(self) -> int | None:
        """The last access that a write sets; None (unknown) if there is no time."""

    def expiry(self) -> float:
        """The latest last access of a value that has expired by now; minus infinity if there is no time."""
        now = self.now()
        return -math.inf if now is None else now - self.milliseconds

    def expired(self, at: int | None) -> bool:
        """Returns whether a value that was last touched at a time has expired. One of unknown time has not."""
        return at is not None and at <= self.expiry()

    def after_read(self, at: int | None) -> int | None:
        """Returns the last access of a value that is read: later than `at`, or `at` itself.

        A value without a known time begins its life with the first read.
        """
        if at is None:
            return self.first_seen()
        stamp = self.stamp() if self.renewed_by_reads else None
        return at if stamp is None or stamp <= at else stamp

    def first_seen(self) -> int | None:
        """The last access that a value of unknown time gets: a whole TTL has to pass from now on."""
        times = [time for time in (self.stamp(), self.now()) if time is not None]
        return max(times, default=None)


class ProcessingTimeRules(TtlRules):
    """Values expire by the epoch's processing time. Called for every record, so as short as possible."""

    __slots__ = ()

    stamps_grow = True

    def now(self) -> int:
        return self.time.processing_time

    def stamp(self) -> int:
        return self.time.processing_time

    def expired(self, at: int | None) -> bool:
        return at is not None and at + self.milliseconds <= self.time.processing_time


class EventTimeRules(TtlRules):
    """Values expire by the watermark, and are touched at the time of the current record."""

    __slots__ = ()

    def expired(self, at: int | None) -> bool:
        time = self.time
        if at is None or time.firing is TimeDomain.EVENT_TIME:
            return super().expired(at)
        return at + self.milliseconds <= time.watermark < MAX_WATERMARK

    def now(self) -> int | None:
        """The watermark. The end of the input does not count as a time.

        In an event-time timer it is the time of the timer. How far the watermark has jumped past the timer depends on
        how the input is cut.
        """
        time = self.time
        if time.firing is TimeDomain.EVENT_TIME:
            return time.timestamp
        return None if time.watermark in (NO_WATERMARK, MAX_WATERMARK) else time.watermark

    def stamp(self) -> int | None:
        """The time of the current record or event-time timer, else the watermark."""
        time = self.time
        is_timeless = time.timestamp is None or time.firing is TimeDomain.PROCESSING_TIME
        return self.now() if is_timeless else time.timestamp


_SHARE = 4
"""A list is written anew when at least one in this many of its elements has expired."""


def is_worth_it(expired: Any, elements: Any) -> Any:
    """Returns whether a list is to be written anew without what has expired; of one list, or of many as arrays.

    This is the only way to remove an element from a list. A list to which elements are always added always has some
    that have expired: with this rule the log gets at most three rows for each expired element.

    Args:
        expired: How many elements have expired.
        elements: How many there are.
    """
    return (expired > 0) & (_SHARE * expired >= elements)


def ttl_rules(ttl: StateTtl, time: OperatorTime) -> TtlRules:
    """Returns the rules of some settings."""
    return EventTimeRules(ttl, time) if ttl.time == "event" else ProcessingTimeRules(ttl, time)


__all__ = ["ProcessingTimeRules", "TtlRules", "is_worth_it", "ttl_rules"]
