"""Event time of a stream, by PyFlink's names (`pyflink.common.watermark_strategy`)."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any

from state_engine.api.durations import Duration, as_milliseconds
from state_engine.errors import JobDefinitionError


class TimestampAssigner(ABC):
    """Says by a Python function at which time a record happened."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Returns the event time of a record, in ms since the Unix epoch.

        Args:
            value: The record.
            record_timestamp: The event time that it has already, -2^63 without one.
        """


class WatermarkStrategy:
    """Where a stream's event times come from, and how far its records may be out of order.

    PyFlink's, with two additions: `with_timestamp_column`, which costs no Python per record, and
    `with_partition_column`, since Spark does not tell from which partition of a source a record came. A strategy does
    not change: each method returns another one.

    Attributes:
        out_of_orderness: In ms; None for a stream without watermarks.
        timestamp: Spark SQL that gives a timestamp, or a number of ms.
        assigner: What gives it in Python instead.
        partition: Spark SQL that names a record's partition.
        idle_after: In ms of processing time.
    """

    def __init__(self, out_of_orderness: int | None) -> None:
        self.out_of_orderness = out_of_orderness
        self.timestamp: str | None = None
        self.assigner: TimestampAssigner | None = None
        self.partition: str | None = None
        self.idle_after: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> "WatermarkStrategy":
        """Records of a partition come in order of event time."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> "WatermarkStrategy":
        """A record may lie at most this far behind the largest event time before it; others are late.

        The watermark stays this far, and two milliseconds, behind that time: Flink's stays one (docs/event-time.md).

        Raises:
            JobDefinitionError: The duration is negative, or none.
        """
        return WatermarkStrategy(_milliseconds(max_out_of_orderness, "for_bounded_out_of_orderness"))

    @staticmethod
    def no_watermarks() -> "WatermarkStrategy":
        """Event times without watermarks: event-time timers fire only when the input ends."""
        return WatermarkStrategy(None)

    def with_timestamp_column(self, expression: str) -> "WatermarkStrategy":
        """Takes event times from a column.

        Args:
            expression: A column, or any Spark SQL, of type timestamp, date, or a whole number of ms.
        """
        return self._with(timestamp=expression, assigner=None)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> "WatermarkStrategy":
        """Takes event times from a Python function; prefer `with_timestamp_column`, which calls none per record.

        Raises:
            JobDefinitionError: It is no `TimestampAssigner`.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise JobDefinitionError(
                f"with_timestamp_assigner() got {timestamp_assigner!r}.", action="Give a TimestampAssigner."
            )
        return self._with(timestamp=None, assigner=timestamp_assigner)

    def with_partition_column(self, expression: str) -> "WatermarkStrategy":
        """Keeps a watermark per partition, and stands at the least.

        Args:
            expression: A column, or any Spark SQL: Kafka's `partition`, a region, a device group. Each value counts,
                for as long as the job lives, as a partition; let it have few. A later release may give another one:
                its values are new partitions.
        """
        return self._with(partition=expression)

    def with_idleness(self, idle_timeout: Duration) -> "WatermarkStrategy":
        """A partition (without partitions, the stream) that brings nothing for so long holds nobody back.

        So does a stream that never brought anything. The time counts from the start of the job's driver at the
        earliest: what waited while a job was down is not late for that.

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
    found = as_milliseconds(length, f"The length of {called}()")
    if found < 0:
        raise JobDefinitionError(f"{called}() got {found} ms.", action="Give a length that is not negative.")
    return found


__all__ = ["TimestampAssigner", "WatermarkStrategy"]
