"""Lengths of time, under PyFlink's names (`pyflink.common.time`)."""

import datetime
from typing import Any

from state_engine.errors import JobDefinitionError


class Time:
    """A length of time in whole milliseconds; it may be negative, for use as an offset."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = _whole(milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> "Time":
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> "Time":
        return Time(_whole(seconds) * 1_000)

    @staticmethod
    def minutes(minutes: int) -> "Time":
        return Time(_whole(minutes) * 60_000)

    @staticmethod
    def hours(hours: int) -> "Time":
        return Time(_whole(hours) * 3_600_000)

    @staticmethod
    def days(days: int) -> "Time":
        return Time(_whole(days) * 86_400_000)

    def to_milliseconds(self) -> int:
        """Returns the length in ms."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other._milliseconds == self._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds})"


class Duration:
    """A length of time in whole nanoseconds."""

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int) -> None:
        self._nanos = _whole(nanos)

    @staticmethod
    def of_days(days: int) -> "Duration":
        return Duration(_whole(days) * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> "Duration":
        return Duration(_whole(hours) * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> "Duration":
        return Duration(_whole(minutes) * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> "Duration":
        return Duration(_whole(seconds) * 1_000_000_000)

    @staticmethod
    def of_millis(millis: int) -> "Duration":
        return Duration(_whole(millis) * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> "Duration":
        return Duration(nanos)

    def to_millis(self) -> int:
        """Returns the length in whole ms, rounded down."""
        return self._nanos // 1_000_000

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and other._nanos == self._nanos

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __repr__(self) -> str:
        return f"Duration.of_nanos({self._nanos})"


def as_milliseconds(length: Any, what: str) -> int:
    """Returns a length of time in ms.

    Args:
        length: A `Time`, a `Duration` or a `datetime.timedelta`.
        what: What the length describes, for the error message.

    Raises:
        JobDefinitionError: It is none of these; a plain number is refused, for example, because its unit is unknown.
    """
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, datetime.timedelta):
        return length // datetime.timedelta(milliseconds=1)
    raise JobDefinitionError(
        f"{what} was given as {length!r}.", action="Give a length with a unit, such as Time.seconds(10)."
    )


def _whole(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise JobDefinitionError(
            f"A length of time was given as {number!r}.", action="Give a whole number, of a smaller unit if need be."
        )
    return number


__all__ = ["Duration", "Time", "as_milliseconds"]
