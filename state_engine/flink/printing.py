"""`print()`: elements as Flink shows them, in the driver's process."""

import sys

import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.flink.elements import lines_of
from state_engine.spark.graph.sinks import EpochId, ForeachEpochSink


class Printing:
    """Prints the elements of an epoch when it is sealed.

    It is one sink for all subtasks of the upstream operator, so lines do not start with a subtask number.

    Args:
        columns: Columns of the elements.
        identifier: Prefix of each line, followed by `> `.
    """

    def __init__(self, columns: StructType, identifier: str | None) -> None:
        self._columns = columns
        self._prefix = f"{identifier}> " if identifier else ""

    def __call__(self, epoch: EpochId, table: pa.Table) -> None:
        lines = lines_of(table, self._columns)
        sys.stdout.write("".join(f"{self._prefix}{line}\n" for line in lines))
        sys.stdout.flush()

    def sink(self) -> ForeachEpochSink:
        """Returns the sink that prints."""
        return ForeachEpochSink(self)


__all__ = ["Printing"]
