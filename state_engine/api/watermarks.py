"""Event times and watermarks of a stream, under PyFlink's names (`pyflink.common.watermark_strategy`)."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any

from state_engine.api.durations import Duration, as_milliseconds
from state_engine.errors import JobDefinitionError


class TimestampAssigner(ABC):
    """Returns the event time of a record, by a Python function."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Returns the event time of a record, in ms since the Unix epoch.

        Args:
            value: The record.
            record_timestamp: The event time that it already has; -2^63 without one.
        """


class WatermarkStrategy:
    """Defines where a stream's event times come from, and how far its records may be out of order.

    It is PyFlink's class with two additions. `with_timestamp_column` needs no Python per record.
    `with_partition_column` exists because Spark does not report from which partition of a source a record came. A
    strategy is immutable: each method returns a new one.

    Attributes:
        out_of_orderness: In ms; None for a stream without watermarks.
        timestamp: Spark SQL that returns a timestamp, or a number of ms.
        assigner: Returns the timestamp in Python instead.
        partition: Spark SQL that returns a record's partition.
        idle_after: Idle timeout in ms of processing time; None without one.
    """

    def __init__(self, out_of_orderness: int | None) -> None:
        self.out_of_orderness = out_of_orderness
        self.timestamp: str | None = None
        self.assigner: TimestampAssigner | None = None
        self.partition: str | None = None
        self.idle_after: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> "WatermarkStrategy":
        """Returns a strategy for partitions with records in order of event time."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> "WatermarkStrategy":
        """Returns a strategy for records that lag the largest earlier event time by at most this long; others are late.

        The watermark lags that time by this duration plus two milliseconds; Flink's plus one (docs/event-time.md).

        Raises:
            JobDefinitionError: The duration is negative, or not a length of time.
        """
        return WatermarkStrategy(_milliseconds(max_out_of_orderness, "for_bounded_out_of_orderness"))

    @staticmethod
    def no_watermarks() -> "WatermarkStrategy":
        """Returns a strategy with event times but no watermarks: event-time timers fire only when the input ends."""
        return WatermarkStrategy(None)

    def with_timestamp_column(self, expression: str) -> "WatermarkStrategy":
        """Takes event times from a column.

        Args:
            expression: A column, or any Spark SQL, of type timestamp, date, or a whole number of ms.
        """
        return self._with(timestamp=expression, assigner=None)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> "WatermarkStrategy":
        """Takes event times from a Python function, called per record; prefer `with_timestamp_column`.

        Raises:
            JobDefinitionError: It is not a `TimestampAssigner`.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise JobDefinitionError(
                f"with_timestamp_assigner() got {timestamp_assigner!r}.", action="Give a TimestampAssigner."
            )
        return self._with(timestamp=None, assigner=timestamp_assigner)

    def with_partition_column(self, expression: str) -> "WatermarkStrategy":
        """Keeps a watermark per partition; the stream's watermark is the least of them.

        Args:
            expression: A column, or any Spark SQL: Kafka's `partition`, a region, a device group. Each value is a
                partition for as long as the job lives, so use an expression with few values. A later release may use
                another expression: its values are new partitions.
        """
        return self._with(partition=expression)

    def with_idleness(self, idle_timeout: Duration) -> "WatermarkStrategy":
        """Sets the time after which a partition (without partitions, the stream) without records is idle.

        An idle partition does not hold back the watermark. Nor does a stream that never had a record. The time counts
        from the start of the job's driver at the earliest: records that waited while a job was down do not become
        late because of it.

        Raises:
            JobDefinitionError: The duration is not above zero.
        """
        idle_after = _milliseconds(idle_timeout, "with_idleness")
        if not idle_after:
            raise JobDefinitionError("with_idleness() got 0 ms.", action="Give a duration above zero.")
        return self._with(idle_after=idle_after)

    def _with(self, **changes: Any) -> "WatermarkStrategy":
        changed = copy(self)
        vars(changed).update(changes)
        return changed


def _milliseconds(length: Any, called: str) -> int:
    milliseconds = as_milliseconds(length, f"The length of {called}()")
    if milliseconds < 0:
        raise JobDefinitionError(f"{called}() got {milliseconds} ms.", action="Give a length that is not negative.")
    return milliseconds


__all__ = ["TimestampAssigner", "WatermarkStrategy"]
