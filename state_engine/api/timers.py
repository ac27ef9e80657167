"""Time and timers, by PyFlink's names (`pyflink.datastream.timerservice`, `pyflink.datastream.time_domain`)."""

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_engine.api.keys import Keys


class TimeDomain(Enum):
    """By which clock a timer fired."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1

    __hash__ = object.__hash__  # tables of timers are looked up by it for each record: Enum's own is written in Python


class TimerService(ABC):
    """Time, as the operator sees it, and timers of the current key.

    Timers need a keyed stream. One timer is kept per clock, key, window (if any) and time in ms: registering it again
    changes nothing, in the same epoch or a later one. They are state: a timer that was registered fires once, also
    after a crash, a restore or at another parallelism.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the epoch's one processing time, in ms since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark, in ms since the Unix epoch; -2^63 before the first.

        No record with a time at or below it is to be expected. It stands still during an epoch, but for an operator
        with one ordered input, where it follows the records.
        """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires in the first epoch whose processing time is at or behind `timestamp` (ms)."""

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
    """Time, as the operator sees it, and timers of many keys; otherwise as `TimerService`."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the epoch's one processing time, in ms since the Unix epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the operator's watermark, in ms since the Unix epoch; -2^63 before the first. It stands still."""

    @abstractmethod
    def register_processing_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Registers a timer per record: of its key, at its timestamp (integers, ms); none where that is null."""

    @abstractmethod
    def register_event_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Registers a timer per record: of its key, at its timestamp (integers, ms); none where that is null."""

    @abstractmethod
    def delete_processing_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Deletes a timer per record, where it is there."""

    @abstractmethod
    def delete_event_time_timers(self, keys: "Keys", timestamps: Any) -> None:
        """Deletes a timer per record, where it is there."""


__all__ = ["BatchTimerService", "TimeDomain", "TimerService"]
