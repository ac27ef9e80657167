"""What the programs of all forms read."""

from typing import Protocol

from state_engine.spark.stream import DataStream


class Read(Protocol):
    """Returns the stream of a kind of events, each time from a source of its own."""

    def __call__(self, kind: str, *, name: str | None = None) -> DataStream:
        """Begins a stream.

        Args:
            kind: Of events.
            name: Of the source, where one is read a second time.
        """


__all__ = ["Read"]
