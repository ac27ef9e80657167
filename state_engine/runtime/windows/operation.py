"""What to do with the windows of a stream, as data."""

from dataclasses import dataclass
from typing import Any

from state_engine.api.functions import Function
from state_engine.api.output_tag import OutputTag
from state_engine.api.windows import ProcessWindowFunction, Trigger, WindowAssigner, WindowFunction
from state_engine.api.windows.windows import MAX_TIMESTAMP
from state_engine.runtime.windows.contents import WindowContents


@dataclass(frozen=True)
class WindowOperation:
    """What to do with the windows of a stream.

    Attributes:
        verb: What the author called, for messages.
        assigner: Which windows a record is in.
        trigger: When a window fires.
        contents: How its elements are kept.
        function: What makes rows of them; None if they are the rows.
        folding: The author's reduce or aggregate function, if it is one that is opened.
        allowed_lateness: How long a window is kept behind its end, in ms.
        late_data: Where records go that are too late for all their windows; None if they are dropped.
        ends_when_purged: Whether a window is over when it is purged: it will not get another record.
    """

    verb: str
    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: WindowContents
    function: WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any] | None
    folding: Function | None = None
    allowed_lateness: int = 0
    late_data: OutputTag | None = None
    ends_when_purged: bool = False

    def end_of(self, window: Any) -> int:
        """Returns when a window is over, in ms of the clock that the assigner goes by; 2^63 - 1 if it never is."""
        end: int = window.max_timestamp()
        return min(end + self.allowed_lateness, MAX_TIMESTAMP) if self.assigner.is_event_time() else end


__all__ = ["WindowOperation"]
