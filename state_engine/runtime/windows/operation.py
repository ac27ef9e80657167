"""A window operation as data: what to do with a stream's windows, and where the state of one window is stored."""

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
        verb: The method that the author called, for messages.
        assigner: Decides which windows a record is in.
        trigger: Decides when a window fires.
        contents: Keeps the elements of a window.
        function: Makes rows from the elements; None if the elements are the rows.
        folding: The author's reduce or aggregate function, if it has a life cycle and must be opened.
        allowed_lateness: How long a window is kept after its end, in ms.
        late_data: Side output for records that are too late for all their windows; None if they are dropped.
        records: Columns of the records, if a column that is not the author's follows them.
        given: Names of the functions that the author gave, for explanations.
        ends_when_purged: Whether a window is over when it is purged, because it gets no more records.
        evicting: Whether there is an evictor, which sees each element.
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
    """One window of one key.

    Attributes:
        key: The key.
        window: The window.
        entry: The entry of its timers, and of the states of trigger and function.
        holder: The entry of its elements.
        sets: All windows of the key, if they may be merged; else None.
    """

    key: Any
    window: Any
    entry: Namespaced
    holder: Namespaced
    sets: MergingWindowSet | None


__all__ = ["Pane", "WindowOperation"]
