"""The windows of an operator in manifests."""

from state_engine.serialization.column import Record


class WindowsShape(Record, frozen=True, kw_only=True):
    """The part of an operator's declared windows that the state of the windows depends on.

    `kind` is the kind of windows, so far as it decides where their contents are found. They end by event time or by
    processing time. `trigger` is the class that makes them fire, without a `PurgingTrigger` around it. `evicting`: an
    evictor keeps each element; `declared`: they are aggregated by columns.
    """

    kind: str
    event_time: bool
    trigger: str
    evicting: bool = False
    declared: bool = False


__all__ = ["WindowsShape"]
