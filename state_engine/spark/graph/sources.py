"""The sources of a job as the one streaming DataFrame that Spark's query reads.

A job with one source reads its DataFrame as it is. Several sources are united: their records share columns by type, and
one more column has the number of a record's source.
"""

from collections.abc import Sequence
from functools import cached_property, reduce

from pyspark.sql import DataFrame

from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.log.source_records import SourceFingerprint
from state_engine.runtime.shared_columns import OWN, SharedColumns
from state_engine.spark.graph.nodes import SourceNode
from state_engine.spark.graph.upstream import fingerprints
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.schemas import struct_of

SOURCE = f"{OWN}source"


class Sources:
    """All sources of a job, in the order in which the author named them.

    Args:
        nodes: The sources, each with the DataFrame that an operator reads.

    Raises:
        JobDefinitionError: Only some of them can read again what they have read.
    """

    def __init__(self, nodes: Sequence[SourceNode]) -> None:
        self.nodes = tuple(nodes)
        forgetful = [node.name for node in self.nodes if not node.replays]
        if 0 < len(forgetful) < len(self.nodes):
            raise JobDefinitionError(
                f"Of the job's sources only {', '.join(map(repr, forgetful))} cannot replay: a start that goes on in "
                "the others would have no position for these.",
                action="Declare replays=False for all of them, or let another job write these records into a table.",
            )
        self.replays = not forgetful
        self.bounded = all(node.bounded for node in self.nodes)
        structs = {node.number: _struct(node) for node in self.nodes}
        first, *others = self.nodes
        shared = SharedColumns(structs[first.number])
        self._places = {first.number: tuple(range(len(structs[first.number].names)))}
        self._places |= {node.number: shared.take(structs[node.number]) for node in others}
        self._structs = structs
        self._columns = shared.columns

    @cached_property
    def df(self) -> DataFrame:
        """The stream that the query reads."""
        if len(self.nodes) == 1:
            return self.nodes[0].df
        return reduce(DataFrame.union, (node.df.selectExpr(*self._united(node)) for node in self.nodes))

    @cached_property
    def fingerprints(self) -> tuple[SourceFingerprint, ...]:
        """What identifies the sources, in Spark's order."""
        return fingerprints(self.df)

    def column(self, number: int, index: int) -> str:
        """Returns the column of a batch that holds a field of one source's records, as Spark SQL."""
        return quote_always(self._columns.names[self._places[number][index]])

    def own_column(self, number: int, name: str) -> str | None:
        """Returns a column of ours that one source's records have, as Spark SQL; None if they do not have it."""
        names = self._structs[number].names
        return self.column(number, names.index(name)) if name in names else None

    def are_all(self, numbers: Sequence[int]) -> bool:
        """Returns whether these sources are all that the job has."""
        return len(numbers) == len(self.nodes)

    def _united(self, node: SourceNode) -> list[str]:
        """Returns the shared columns, computed from those of one source."""
        fields = dict(zip(self._places[node.number], self._structs[node.number].names, strict=True))
        return [
            f"{quote_always(fields[n]) if n in fields else f'cast(null as {type_.ddl()})'} as {quote_always(name)}"
            for n, (name, type_) in enumerate(zip(self._columns.names, self._columns.types, strict=True))
        ] + [f"{node.number} as {SOURCE}"]


def _struct(node: SourceNode) -> StructType:
    return struct_of(node.df.schema, f"stream {node.name!r}")


__all__ = ["SOURCE", "Sources"]
