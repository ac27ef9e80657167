"""How far the sources of a running job are behind, in records and in seconds, as Spark's progress tells it."""

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import dropwhile
from typing import Any, NamedTuple

from state_engine.clock import Clock

_EVERY_MS = 5_000
_MOST_NOTES = 512
_MILLISECOND = timedelta(milliseconds=1)

Offsets = Mapping[tuple[str, str], int]
"""Offsets by topic and partition."""


class SourceLag(NamedTuple):
    """A source.

    Attributes:
        name: Its name.
        records: How many records the source had beyond the job's position when the last batch was planned; None where
            Spark does not tell.
        seconds: How long before that moment this process first saw a record that the job still has not read; 0 if
            there is none. It looks once in a batch, and at most every five seconds. So the oldest such record may be
            older by that, and after a start by all the time that no process ran the job. None where Spark does not
            tell.
    """

    name: str
    records: int | None
    seconds: float | None


class SourceLags:
    """Follows the sources of a running job; for any number of threads.

    Args:
        names: Of the sources, in Spark's order.
        limited: Which of them have a limit for a batch (`maxOffsetsPerTrigger`). Without one a batch takes all that
            there is, so that nothing is ever left behind it, however long the batch takes.
        clock: The clock.
    """

    def __init__(self, names: Sequence[str], limited: Sequence[bool], clock: Clock) -> None:
        self._lock = threading.Lock()
        self._names = tuple(names)
        self._ends = {number: EndOffsets() for number, has_limit in enumerate(limited) if has_limit}
        self._clock = clock
        self._due_ms: int | None = None

    def is_due(self) -> bool:
        """Returns whether to look again, for `seconds` to be right within five seconds."""
        now = self._clock.steady_ms()
        with self._lock:
            if not self._ends or (self._due_ms is not None and now < self._due_ms):
                return False
            self._due_ms = now + _EVERY_MS
            return True

    def look(self, progress: Mapping[str, Any] | None) -> tuple[SourceLag, ...]:
        """Returns the lag of each source.

        Args:
            progress: Spark's last progress of the query; None before the first one.
        """
        told = progress["sources"] if progress is not None else []
        at_ms = _ms_of(progress["timestamp"]) if progress is not None else 0
        with self._lock:
            return tuple(
                self._lag(name, at_ms, told[number] if number in self._ends and number < len(told) else {}, number)
                for number, name in enumerate(self._names)
            )

    def _lag(self, name: str, at_ms: int, source: Mapping[str, Any], number: int) -> SourceLag:
        position, end = _offsets(source.get("endOffset")) or {}, _offsets(source.get("latestOffset"))
        if end is None:
            return SourceLag(name, None, None)
        records = sum(max(0, offset - position.get(partition, 0)) for partition, offset in end.items())
        return SourceLag(name, records, self._ends[number].seconds_behind(at_ms, position, end))


class EndOffsets:
    """Where a source's partitions ended, as long as the records before that are not all read.

    There are at most 512 notes. They are five seconds apart, or farther where a lag is longer than forty minutes.
    """

    def __init__(self) -> None:
        self._notes: list[tuple[int, Offsets]] = []
        self._every_ms = _EVERY_MS

    def seconds_behind(self, at_ms: int, position: Offsets, end: Offsets) -> float:
        """Notes where the partitions end, and returns since when there has been a record beyond a position.

        Args:
            at_ms: Now, in ms since the Unix epoch.
            position: The next offset to read of each partition; a partition that is not in it is read from 0.
            end: The offset after the last record of each partition.
        """
        # Ends grow, so that all notes after the first unread one are unread, too.
        unread = list(dropwhile(lambda note: not _is_beyond(note[1], position), self._notes))
        if not _is_beyond(end, position):
            self._notes, self._every_ms = [], _EVERY_MS
            return 0.0
        if not unread or at_ms - unread[-1][0] >= self._every_ms:
            unread.append((at_ms, end))
        if len(unread) > _MOST_NOTES:
            unread, self._every_ms = unread[::2], 2 * self._every_ms
        elif len(unread) < _MOST_NOTES // 4:
            self._every_ms = max(_EVERY_MS, self._every_ms // 2)
        self._notes = unread
        return max(0, at_ms - unread[0][0]) / 1000


def _is_beyond(end: Offsets, position: Offsets) -> bool:
    return any(offset > position.get(partition, 0) for partition, offset in end.items())


def _offsets(told: Any) -> Offsets | None:
    """Returns the offsets of a source with partitions, such as Kafka's; None if it is another kind of offset."""
    try:
        topics = json.loads(told) if isinstance(told, str) else told
        found = {(topic, number): at for topic, partitions in topics.items() for number, at in partitions.items()}
    except (AttributeError, TypeError, ValueError):
        return None
    return found if all(isinstance(at, int) for at in found.values()) else None


def _ms_of(timestamp: str) -> int:
    return (datetime.fromisoformat(timestamp) - datetime.fromisoformat("1970-01-01T00:00:00Z")) // _MILLISECOND


__all__ = ["EndOffsets", "SourceLag", "SourceLags"]
