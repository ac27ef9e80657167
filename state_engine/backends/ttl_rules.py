"""When values with a time to live have expired, in both times. The clock is injected."""

import math
from abc import ABC, abstractmethod
from typing import Any

from state_engine.api.timers import TimeDomain
from state_engine.backends.time import MAX_WATERMARK, NO_WATERMARK, OperatorTime
from state_engine.log.records import StateTtl


class TtlRules(ABC):
    """When a value has expired, and what a touch makes its last access.

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
    """Whether no touch is ever stamped earlier than one before it."""

    def __init__(self, ttl: StateTtl, time: OperatorTime) -> None:
        self.time = time
        self.milliseconds = ttl.milliseconds
        self.renewed_by_reads = ttl.update == "read"
        self.returns_expired = ttl.returns_expired

    @abstractmethod
    def now(self) -> int | None:
        """The time by which values expire; None where there is none."""

    @abstractmethod
    def stamp(self) -> int | None:
        """What a write makes the last access; None (unknown) where there is no time."""

    def expiry(self) -> float:
        """The latest last access of a value that has expired by now; minus infinity where there is no time."""
        now = self.now()
        return -math.inf if now is None else now - self.milliseconds

    def expired(self, at: int | None) -> bool:
        """Says whether a value that was touched then has expired. What nobody knows has not."""
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
        """What the last access of a value of unknown time becomes: a whole TTL has to pass from now on."""
        known = [time for time in (self.stamp(), self.now()) if time is not None]
        return max(known, default=None)


class ProcessingTimeRules(TtlRules):
    """Values expire by the epoch's processing time. Asked for every record: as short as can be."""

    __slots__ = ()

    stamps_grow = True

    def now(self) -> int:
        return self.time.processing_time

    def stamp(self) -> int:
        return self.time.processing_time

    def expired(self, at: int | None) -> bool:
        return at is not None and at + self.milliseconds <= self.time.processing_time


class EventTimeRules(TtlRules):
    """Values expire by the watermark, and are touched at the time of the record at hand."""

    __slots__ = ()

    def now(self) -> int | None:
        """The watermark. The end of the input is no time.

        In an event-time timer it is the timer's own: how far the watermark has jumped over it depends on how the input
        is cut.
        """
        time = self.time
        if time.firing is TimeDomain.EVENT_TIME:
            return time.timestamp
        return None if time.watermark in (NO_WATERMARK, MAX_WATERMARK) else time.watermark

    def stamp(self) -> int | None:
        """The time of the record or event-time timer at hand, else the watermark."""
        time = self.time
        beside = time.timestamp is None or time.firing is TimeDomain.PROCESSING_TIME
        return self.now() if beside else time.timestamp


_SHARE = 4
"""A list is written anew when at least one in so many of its elements has expired."""


def is_worth_it(expired: Any, elements: Any) -> Any:
    """Returns whether a list is to be written anew without what has expired; of one list, or of many as arrays.

    An element can be taken out of a list only so. Lists to which elements are always added have always some that have
    expired: with this the log gets at most three rows for each of these.

    Args:
        expired: How many elements have expired.
        elements: How many there are.
    """
    return (expired > 0) & (_SHARE * expired >= elements)


def ttl_rules(ttl: StateTtl, time: OperatorTime) -> TtlRules:
    """Returns the rules of some settings."""
    return EventTimeRules(ttl, time) if ttl.time == "event" else ProcessingTimeRules(ttl, time)


__all__ = ["ProcessingTimeRules", "TtlRules", "is_worth_it", "ttl_rules"]
