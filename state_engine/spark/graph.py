"""The logical graph of a job: a chain of operators behind one stream, with sinks on their outputs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from state_engine.api.functions import Function
from state_engine.api.types import StructType
from state_engine.log.records import StateSchema
from state_engine.runtime.spec import OperatorKind
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


@dataclass
class OperatorNode:
    """One operator.

    `steps` are applied to the output of the one before. `states` are those that the function's `open()` asks for.
    """

    uid: str
    kind: OperatorKind
    function: Function
    input: StructType
    key: tuple[str, ...]
    order_by: tuple[str, ...]
    output: StructType
    generated_uid: bool
    steps: tuple[Step, ...] = ()
    sinks: list[SinkNode] = field(default_factory=list)
    side_outputs: dict[str, StructType] = field(default_factory=dict)
    states: tuple[StateSchema, ...] = ()
    downstream: "OperatorNode | None" = None


@dataclass
class SourceNode:
    """The stream that feeds the job."""

    df: DataFrame
    name: str
    replays: bool = True
    bounded: bool = False


__all__ = ["MapStep", "OperatorNode", "SelectStep", "SinkNode", "SourceNode", "Step", "WhereStep"]
