"""Time as an operator sees it: set by the runtime, read by timers, states with a time to live, and functions."""

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
    """

    __slots__ = ("late_below", "processing_time", "timestamp", "watermark")

    def __init__(self) -> None:
        self.processing_time = 0
        self.watermark = NO_WATERMARK
        self.late_below = NO_WATERMARK
        self.timestamp: int | None = None

    def begin(self, processing_time: int, watermark: int) -> None:
        """Starts an epoch."""
        self.processing_time = processing_time
        self.watermark = self.late_below = watermark
        self.timestamp = None


__all__ = ["MAX_WATERMARK", "NO_WATERMARK", "OperatorTime"]
