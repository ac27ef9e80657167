"""Time and timers, under PyFlink's names (`pyflink.datastream.timerservice`, `pyflink.datastream.time_domain`)."""

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_engine.api.keys import Keys


class TimeDomain(Enum):
    """The clock by which a timer fired."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1

    __hash__ = object.__hash__  # a key of tables of timers, hashed per record: Enum's own is in Python, and slow


class TimerService(ABC):
    """Gives the operator's time, and registers timers for the current key.

    Timers need a keyed stream. One timer is kept per clock, key, window (if any) and time in ms. Registering it again
    changes nothing, in the same epoch or a later one. Timers are state: a registered timer fires once, also after a
    crash, a restore or at another parallelism.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the epoch's one processing time, in ms since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark, in ms since the Unix epoch; -2^63 before the first.

        No more records with a time at or below it are expected. It is constant during an epoch, except for an operator
        with one ordered input, where it follows the records.
        """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires in the first epoch with a processing time at or after `timestamp` (ms)."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires when the watermark passes `timestamp` (ms)."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes the current key's timer at `timestamp`; an absent one is no error."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes the current key's timer at `timestamp`; an absent one is no error."""


class BatchTimerService(ABC):
    """Gives the operator's time, and registers timers for many keys; otherwise as `TimerService`."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the epoch's one processing time, in ms since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark, in ms since the Unix epoch; -2^63 before the first. It is constant."""

    @abstractmethod
    def register_processing_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Registers one timer per record, for its key at its timestamp (integers, ms); none if that is null."""

    @abstractmethod
    def register_event_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Registers one timer per record, for its key at its timestamp (integers, ms); none if that is null."""

    @abstractmethod
    def delete_processing_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Deletes one timer per record; an absent one is no error."""

    @abstractmethod
    def delete_event_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Deletes one timer per record; an absent one is no error."""


__all__ = ["BatchTimerService", "TimeDomain", "TimerService"]
