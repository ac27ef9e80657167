"""The logical graph of a job: a tree of operators over its sources, with sinks on their outputs.

Spark would run twice what two operators read, so every source and every operator feeds at most one operator; an
operator may be fed by several.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from state_engine.api.functions import Function
from state_engine.api.types import StructType
from state_engine.log.records import StateSchema
from state_engine.runtime.spec import OperatorKind
from state_engine.runtime.two_inputs import TwoInputs
from state_engine.spark.sinks import Sink


@dataclass(frozen=True)
class SelectStep:
    """`select(*expressions)` between operators, in Spark SQL."""

    expressions: tuple[str, ...]


@dataclass(frozen=True)
class WhereStep:
    """`where(condition)` between operators."""

    condition: str


@dataclass(frozen=True)
class MapStep:
    """`map(function, output_type)` between operators: record to record, without state."""

    function: Callable[[Any], Any]
    input: StructType
    output: StructType


Step = SelectStep | WhereStep | MapStep


@dataclass
class SinkNode:
    """A sink on one output of an operator."""

    uid: str
    output: str
    sink: Sink


@dataclass(frozen=True)
class SourceNode:
    """A stream that feeds the job, with what its author has made of it so far.

    `number` counts the streams of a job: whatever is made of one keeps its number.
    """

    df: DataFrame
    name: str
    number: int = 0
    replays: bool = True
    bounded: bool = False


@dataclass
class OperatorNode:
    """One operator.

    `input`, `key` and `order_by` are those of its first input; with two inputs, `input` holds the columns that both
    share. `states` are those that the function's `open()` asks for.
    """

    uid: str
    kind: OperatorKind
    function: Function
    edges: "tuple[Edge, ...]"
    input: StructType
    key: tuple[str, ...]
    order_by: tuple[str, ...]
    output: StructType
    generated_uid: bool
    two_inputs: TwoInputs | None = None
    sinks: list[SinkNode] = field(default_factory=list)
    side_outputs: dict[str, StructType] = field(default_factory=dict)
    states: tuple[StateSchema, ...] = ()
    downstream: "OperatorNode | None" = None

    @property
    def sources(self) -> "list[tuple[SourceNode, int]]":
        """The sources that feed it, each with the number of the input."""
        return [(edge.origin, edge.input) for edge in self.edges if isinstance(edge.origin, SourceNode)]

    @property
    def upstream(self) -> "list[tuple[OperatorNode, Edge]]":
        """The operators that feed it, each with the way from there."""
        return [(edge.origin, edge) for edge in self.edges if isinstance(edge.origin, OperatorNode)]


@dataclass(frozen=True)
class Edge:
    """The way from a source or an operator's main output into an input of an operator.

    `steps` are applied to an operator's output on the way; what is done to a source is part of its DataFrame.
    """

    origin: SourceNode | OperatorNode
    steps: tuple[Step, ...] = ()
    input: int = 1


__all__ = ["Edge", "MapStep", "OperatorNode", "SelectStep", "SinkNode", "SourceNode", "Step", "WhereStep"]
