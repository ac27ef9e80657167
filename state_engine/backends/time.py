"""Time as an operator sees it: set by the runtime, read by timers, states with a time to live, and functions."""

from state_engine.api.timers import TimeDomain

NO_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1


class OperatorTime:
    """The operator's clocks, in ms since the Unix epoch.

    Attributes:
        processing_time: The epoch's one processing time; the same for all records and attempts.
        watermark: No record with a time at or below it is to be expected; `NO_WATERMARK` before the first. It may move
            on within an epoch.
        late_below: The watermark with which the epoch began. A record with a time at or below it is late.
        timestamp: Event time of the record or timer at hand, None without one.
        firing: The clock of the timer at hand, None without one.
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


__all__ = ["MAX_WATERMARK", "NO_WATERMARK", "OperatorTime"]
