"""The clocks of an operator: the runtime sets them; timers, states with a time to live, and functions read them."""

from state_engine.api.timers import TimeDomain

NO_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1
MARGIN = 2
"""How far, in ms, a watermark stays below the earliest time that may still come.

Flink stays 1 below, and its watermark follows the record. Here it is unknown which record of a millisecond is the last:
others may come in another subtask, or in the next epoch. With 2, a timer right before that millisecond waits for all
records of the millisecond, wherever they are (docs/adr/0028).
"""


def watermark_after(latest: int, out_of_orderness: int) -> int:
    """Returns the watermark of an ordered stream, in ms.

    Args:
        latest: The largest event time of its records so far, or that of the current record, which may still change
            timers.
        out_of_orderness: By how much the time of a record may lag that of an earlier record.
    """
    return latest - out_of_orderness - MARGIN


class OperatorTime:
    """The operator's clocks, in ms since the Unix epoch.

    Attributes:
        processing_time: The epoch's one processing time; the same for all records and attempts.
        watermark: No record with a time at or below it is expected any more; `NO_WATERMARK` before the first one. It
            may move on within an epoch.
        late_below: The watermark with which the epoch began. A record with a time at or below it is late.
        timestamp: Event time of the current record or timer, None without one.
        firing: The clock of the current timer, None without one.
    """

    __slots__ = ("firing", "late_below", "processing_time", "timestamp", "watermark")

    def __init__(self, processing_time: int = 0, watermark: int = NO_WATERMARK) -> None:
        self.processing_time = processing_time
        self.watermark = watermark
        self.late_below = watermark
        self.timestamp: int | None = None
        self.firing: TimeDomain | None = None

    def begin(self, processing_time: int, watermark: int) -> None:
        """Starts an epoch."""
        self.processing_time = processing_time
        self.watermark = self.late_below = watermark
        self.timestamp = None
        self.firing = None


__all__ = ["MARGIN", "MAX_WATERMARK", "NO_WATERMARK", "OperatorTime", "watermark_after"]
