"""What to do with the windows of a stream, and where one of them stands, as data."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from state_engine.api.functions import Function
from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType
from state_engine.api.windows import ProcessWindowFunction, Trigger, WindowAssigner, WindowFunction
from state_engine.backends.keys import Namespaced
from state_engine.runtime.windows.contents import WindowContents
from state_engine.runtime.windows.merging import MergingWindowSet


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
        records: Columns of the records, if a column that is not the author's stands behind them.
        given: Names of the functions that the author gave, for explanations.
        ends_when_purged: Whether a window is over when it is purged: it will not get another record.
        evicting: Whether an evictor wants to see each element.
    """

    verb: str
    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: WindowContents
    function: WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any] | None
    folding: Function | None = None
    allowed_lateness: int = 0
    late_data: OutputTag | None = None
    records: StructType | None = None
    given: tuple[str, ...] = ()
    ends_when_purged: bool = False
    evicting: bool = False


class Pane(NamedTuple):
    """A key's part of a window.

    Attributes:
        key: The key.
        window: The window.
        entry: Under which its timers and the states of trigger and function stand.
        holder: Under which its elements stand.
        sets: The key's windows, if they may be merged.
    """

    key: Any
    window: Any
    entry: Namespaced
    holder: Namespaced
    sets: MergingWindowSet | None


__all__ = ["Pane", "WindowOperation"]
