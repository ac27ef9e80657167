"""The logical graph of a job: operators over its sources, with sinks on their outputs.

Several operators may feed an operator, and its outputs may feed several. A source feeds only one operator: Spark would
read it once for each.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.functions import Function, KeyedBatchProcessFunction
from state_engine.api.sinks import Sink, TransactionalSink
from state_engine.api.types import StructType
from state_engine.api.watermarks import WatermarkStrategy
from state_engine.connectors.known import recorded_as
from state_engine.log.records import SinkTable, StateSchema
from state_engine.runtime.batch_function import takes_timers_together
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.spec import OperatorKind
from state_engine.runtime.two_inputs import TwoInputs
from state_engine.spark.graph.sinks import DeltaSink, ForeachEpochSink, MemorySink
from state_engine.spark.wire.handover import Handover, Reader

PARTITION_BY = "partition_by"


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


@dataclass(frozen=True)
class ComputeStep:
    """Columns that a Python function computes from each record; they come after those of the records."""

    compute: Callable[[Any], tuple[Any, ...]]
    records: StructType
    computed: StructType


@dataclass(frozen=True)
class TimeStep:
    """`assign_timestamps_and_watermarks` between operators: columns of ours, after those of the records."""

    records: StructType
    strategy: WatermarkStrategy
    columns: tuple[str, ...]


Step = SelectStep | WhereStep | MapStep | ComputeStep | TimeStep

ChainingStrategy = Literal["always", "head", "never"]
"""With which operators an operator may share a task, as in Flink: both neighbours, only the downstream one, or none."""


@dataclass
class SinkNode:
    """A sink on one output of an operator."""

    uid: str
    output: str
    sink: Sink


@dataclass(frozen=True)
class SourceNode:
    """A stream that feeds the job, with its author's transformations so far.

    `number` counts the streams of a job; a stream keeps its number when it is transformed.
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
    share. `broadcast_states` are the states that input 2 changes. `states` are all states that are known in advance;
    with `all_states_known` there are no others. `downstream` are the operators that read one of its outputs, each with
    the number of the edge. With `object_reuse` an operator that is chained after this one gets the rows that the
    function gave, and no copies of them.
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
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    sinks: list[SinkNode] = field(default_factory=list)
    side_outputs: dict[str, StructType] = field(default_factory=dict)
    states: tuple[StateSchema, ...] = ()
    all_states_known: bool = False
    downstream: "list[tuple[OperatorNode, int]]" = field(default_factory=list)
    chaining: ChainingStrategy = "always"
    object_reuse: bool = False

    @property
    def chained(self) -> bool:
        """Whether it runs in the task of the upstream operator.

        It does if nothing between them needs an exchange, and no other operator reads the upstream operator.
        """
        [edge, *others] = self.edges
        upstream = edge.origin
        return (
            not others
            and isinstance(upstream, OperatorNode)
            and edge.output == MAIN
            and len(upstream.downstream) == 1
            and not (edge.steps or edge.strategy or edge.broadcast)
            and not (self.key or self.order_by or self.two_inputs)
            and self.chaining == "always"
            and upstream.chaining != "never"
        )

    @property
    def chained_after(self) -> "OperatorNode | None":
        """The operator that runs in its task, after it."""
        return next((node for node, _ in self.downstream if node.chained), None)

    @property
    def leaving(self) -> "list[Edge]":
        """The edges from its outputs to other operators."""
        return [node.edges[n] for node, n in self.downstream]

    @property
    def handover(self) -> Handover:
        """How its outputs travel to the operators that read them."""
        readers = [Reader(node.uid, node.edges[n].output) for node, n in self.downstream]
        return Handover(readers, self.output, self.side_outputs, timed=self.emits_event_time)

    @property
    def keeps_rows(self) -> bool:
        """Whether the operator that is chained after it takes its rows as objects."""
        return self.object_reuse and self.chained_after is not None and not self.in_batches

    @property
    def in_batches(self) -> bool:
        """Whether its function takes whole batches."""
        return isinstance(self.function, KeyedBatchProcessFunction)

    @property
    def writes_main(self) -> bool:
        """Whether its main output is needed as columns."""
        return not self.keeps_rows or any(sink.output == MAIN for sink in self.sinks)

    @property
    def sources(self) -> "list[tuple[SourceNode, int]]":
        """The sources that feed it, each with the number of the edge."""
        return [(edge.origin, n) for n, edge in enumerate(self.edges) if isinstance(edge.origin, SourceNode)]

    @property
    def upstream(self) -> "list[tuple[OperatorNode, int]]":
        """The operators that feed it, each with the number of the edge."""
        return [(edge.origin, n) for n, edge in enumerate(self.edges) if isinstance(edge.origin, OperatorNode)]

    @property
    def broadcast_inputs(self) -> list[int]:
        """The inputs with records that go to every subtask."""
        return sorted({edge.input for edge in self.edges if edge.broadcast})

    @property
    def carries_group(self) -> bool:
        """Whether records carry the key group by which they are routed, because it does not follow from their key."""
        return not self.key or bool(self.broadcast_inputs)

    @property
    def timed(self) -> bool:
        """Whether its records have event times."""
        return any(edge.timed for edge in self.edges)

    @property
    def emits_event_time(self) -> bool:
        """Whether a downstream operator needs the event times of its output."""
        return self.timed and any(edge.strategy is None for edge in self.leaving)

    @property
    def timed_side_outputs(self) -> tuple[str, ...]:
        """The side outputs that must have event times because downstream operators need them."""
        outputs = dict.fromkeys(edge.output for edge in self.leaving)
        return tuple(output for output in outputs if output != MAIN) if self.emits_event_time else ()

    @property
    def tells_partitions(self) -> bool:
        """Whether records have to carry the edge and the partition of their event times."""
        bounded = [edge.strategy for edge in self.edges if edge.strategy and edge.strategy.out_of_orderness is not None]
        return bool(bounded) and (len(self.edges) > 1 or bounded[0].partition is not None)

    @property
    def out_of_orderness(self) -> int | None:
        """How far its records may be out of order, if they are of one ordered stream and it follows their times."""
        if self.in_batches and not takes_timers_together(self.function):
            return None
        [edge, *others] = self.edges
        return None if others or self.tells_partitions or edge.strategy is None else edge.strategy.out_of_orderness


@dataclass(frozen=True)
class Edge:
    """The way from a source, or from an output of an operator, into an input of an operator.

    `steps` are applied to an operator's output on the way; those of a source are part of its DataFrame. With a
    `strategy` the records get event times and watermarks of their own. With `broadcast` every subtask gets all records.
    """

    origin: SourceNode | OperatorNode
    output: str = MAIN
    steps: tuple[Step, ...] = ()
    input: int = 1
    strategy: WatermarkStrategy | None = None
    broadcast: bool = False

    @property
    def timed(self) -> bool:
        """Whether the records have event times."""
        return self.strategy is not None or (isinstance(self.origin, OperatorNode) and self.origin.timed)


def chains_of(operators: Sequence[OperatorNode]) -> list[tuple[OperatorNode, ...]]:
    """Returns the operators task by task: each with those that are chained after it.

    Args:
        operators: The operators, upstream first.
    """
    chains = []
    for node in operators:
        if node.chained:
            continue
        chain = [node]
        while (successor := chain[-1].chained_after) is not None:
            chain.append(successor)
        chains.append(tuple(chain))
    return chains


def delta_sink(table: SinkTable) -> DeltaSink:
    """Returns the sink of a Delta table, as a manifest records it."""
    return DeltaSink(table.table, partition_by=json.loads(table.options.get(PARTITION_BY, "[]")))


def recorded(node: SinkNode) -> SinkTable | None:
    """Returns what manifests record of a sink; None for a sink that gets no output."""
    if isinstance(node.sink, DeltaSink):
        by = node.sink.partition_by
        options = {PARTITION_BY: json.dumps(by)} if by else {}
        return SinkTable(uid=node.uid, kind="delta", table=node.sink.path.rstrip("/"), options=options)
    if isinstance(node.sink, MemorySink):
        return SinkTable(uid=node.uid, kind="memory", table=node.sink.name)
    if isinstance(node.sink, TransactionalSink):
        return recorded_as(node.uid, node.sink)
    return SinkTable(uid=node.uid, kind="foreach") if isinstance(node.sink, ForeachEpochSink) else None


__all__ = [
    "ChainingStrategy",
    "ComputeStep",
    "Edge",
    "MapStep",
    "OperatorNode",
    "SelectStep",
    "SinkNode",
    "SourceNode",
    "Step",
    "TimeStep",
    "WhereStep",
    "chains_of",
    "delta_sink",
    "recorded",
]
