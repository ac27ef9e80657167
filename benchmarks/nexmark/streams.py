"""The input of the programs of all forms."""

from collections.abc import Callable

from state_engine.spark.graph.stream import DataStream

Read = Callable[[str], DataStream]
"""Returns the stream of a kind of events."""

__all__ = ["Read"]
