"""An output of an operator, and what an author may set for it: side outputs, chaining, sinks."""

from dataclasses import dataclass

from state_engine.api.output_tag import OutputTag
from state_engine.api.sinks import Sink
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.runtime.outputs import MAIN, side_output_columns
from state_engine.serialization.types import schema_of
from state_engine.spark.graph.building import JobGraph
from state_engine.spark.graph.nodes import Edge, OperatorNode, SinkNode, recorded
from state_engine.spark.graph.sinks import DeltaSink, DiscardingSink
from state_engine.spark.graph.upserts import check_upsert


@dataclass(frozen=True)
class OperatorOutput:
    """One output of an operator.

    Attributes:
        graph: The job's graph.
        operator: The operator.
        name: Name of the output.
    """

    graph: JobGraph
    operator: OperatorNode
    name: str

    def side_output(self, tag: OutputTag) -> StructType:
        """Declares a side output of the operator; returns its columns.

        Raises:
            JobDefinitionError: The tag has no columns, or was declared with others.
        """
        columns = side_output_columns(tag)
        if tag.tag_id not in self.operator.side_outputs:
            self.graph.check_open()
        declared = self.operator.side_outputs.setdefault(tag.tag_id, columns)
        if declared != columns:
            raise JobDefinitionError(
                f"The side output {tag.tag_id!r} was declared as {declared} and as {columns}.", action="Choose one."
            )
        return columns

    def add_sink(self, sink: Sink, uid: str | None) -> None:
        """Sends the records to a sink.

        Raises:
            DuplicateUidError: Another sink has this uid.
            JobDefinitionError: This is no sink, or it has no uid and the job is strict; another sink of the job writes
                its table; or its upserts would depend on the parallelism.
        """
        if not isinstance(sink, Sink):
            raise JobDefinitionError(f"{sink!r} is no sink.", action="Give a DeltaSink, or another of our sinks.")
        if sink.upsert is not None:
            check_upsert(self.operator, self.name, sink.upsert)
        if isinstance(sink, DeltaSink):
            columns = self.operator.output if self.name == MAIN else self.operator.side_outputs[self.name]
            sink.check_columns(schema_of(columns))
        place = f"{self.operator.uid}.{self.name}.{len(self.operator.sinks)}"
        if uid is None and isinstance(sink, DiscardingSink):
            uid = place  # nothing is ever looked up by this name
        node = SinkNode(self.graph.claim_sink_uid(uid, place), self.name, sink)
        table = recorded(node)
        if table is not None and table.table:
            self.graph.claim_table(table)
        self.operator.sinks.append(node)


def output_of(graph: JobGraph, edges: tuple[Edge, ...]) -> OperatorOutput | None:
    """Returns the operator output that a stream is; None if the stream is anything else."""
    [edge, *others] = edges
    if isinstance(edge.origin, OperatorNode) and not edge.steps and not others:
        return OperatorOutput(graph, edge.origin, edge.output)
    return None


def operator_of(graph: JobGraph, edges: tuple[Edge, ...], verb: str) -> OperatorNode:
    """Returns the operator that a stream is the main output of, to set how it runs.

    Raises:
        UnsupportedTopologyError: The stream is anything else.
    """
    output = output_of(graph, edges)
    if output is None or output.name != MAIN:
        raise UnsupportedTopologyError(
            f"{verb}() belongs right after an operator.", action="Call it on what map(), process(), … returned."
        )
    graph.check_open()
    return output.operator


__all__ = ["OperatorOutput", "operator_of", "output_of"]
