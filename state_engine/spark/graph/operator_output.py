"""What may be said of a stream that is the output of an operator: sinks, side outputs, how the operator is run."""

from typing import Self

from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.runtime.outputs import MAIN, side_output_columns
from state_engine.spark.graph.building import JobGraph
from state_engine.spark.graph.nodes import ChainingStrategy, Edge, OperatorNode, SinkNode, recorded
from state_engine.spark.graph.sinks import DiscardingSink, Sink


class OperatorOutput:
    """The part of a stream that speaks of the operator in front of it; refused, by name, where there is none.

    Args:
        graph: That of the job.
        edges: Where its records come from.
        columns: Their columns.
    """

    def __init__(
        self,
        graph: JobGraph,
        edges: tuple[Edge, ...],
        columns: StructType,
    ) -> None:
        self._graph = graph
        self._edges = edges
        self._columns = columns

    @property
    def _operator(self) -> OperatorNode | None:
        """The operator that this stream is an output of, None if it is anything else."""
        [edge, *others] = self._edges
        return edge.origin if isinstance(edge.origin, OperatorNode) and not edge.steps and not others else None

    @property
    def _output(self) -> str:
        """Which output of that operator it is."""
        return self._edges[0].output

    def get_side_output(self, tag: OutputTag) -> Self:
        """Returns a side output of the operator that this stream is the main output of.

        Raises:
            JobDefinitionError: The tag has no columns, or this is not an operator's main output.
        """
        operator = self._operator
        if operator is None or self._output != MAIN:
            raise JobDefinitionError(
                "get_side_output() belongs right behind an operator.", action="Call it on what process() returned."
            )
        columns = side_output_columns(tag)
        if tag.tag_id not in operator.side_outputs:
            self._graph.check_open()
        known = operator.side_outputs.setdefault(tag.tag_id, columns)
        if known != columns:
            raise JobDefinitionError(
                f"The side output {tag.tag_id!r} was declared as {known} and as {columns}.", action="Choose one."
            )
        return type(self)(self._graph, (Edge(operator, tag.tag_id),), columns)

    def start_new_chain(self) -> Self:
        """Begins a new task at the operator that this stream is the output of; later ones may be chained behind it.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        return self._chain("head", "start_new_chain")

    def disable_chaining(self) -> Self:
        """Gives the operator that this stream is the output of a task of its own.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        return self._chain("never", "disable_chaining")

    def _chain(self, strategy: ChainingStrategy, verb: str) -> Self:
        self._operator_of(verb).chaining = strategy
        return self

    def enable_object_reuse(self) -> Self:
        """Hands the rows of the operator that this stream is the output of to the next one as they are.

        Where the next one is chained behind it, its function gets the very objects that this one's gave: nothing is
        copied, nor compared with `output_type`. Give what the next function expects, and change neither afterwards.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        self._operator_of("enable_object_reuse").object_reuse = True
        return self

    def disable_object_reuse(self) -> Self:
        """Makes rows of the declared types for the next operator; so it is by default.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        self._operator_of("disable_object_reuse").object_reuse = False
        return self

    def _operator_of(self, verb: str) -> OperatorNode:
        operator = self._operator
        if operator is None or self._output != MAIN:
            raise UnsupportedTopologyError(
                f"{verb}() belongs right behind an operator.", action="Call it on what map(), process(), … returned."
            )
        self._graph.check_open()
        return operator

    def sink_to(self, sink: Sink, uid: str | None = None) -> Self:
        """Sends the records to a sink; several sinks may take one output.

        Args:
            sink: Where to.
            uid: Stable name of the sink: its commits carry it, and a restore finds its output under it. Without one a
                name is made from the sink's place, with a warning.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
            DuplicateUidError: Another sink has this uid.
            JobDefinitionError: This is no sink, or it has no uid and the job is strict; or another sink of the job
                writes its table.
        """
        operator = self._operator
        if operator is None:
            raise UnsupportedTopologyError(
                "A sink belongs right behind an operator or get_side_output(): who makes an output stages it.",
                action="Do the last transformation inside the function; map(..., uid=...) is an operator too.",
            )
        if not isinstance(sink, Sink):
            raise JobDefinitionError(f"{sink!r} is no sink.", action="Give a DeltaSink, or another of our sinks.")
        place = f"{operator.uid}.{self._output}.{len(operator.sinks)}"
        if uid is None and isinstance(sink, DiscardingSink):
            uid = place  # nothing is ever looked for under its name
        node = SinkNode(self._graph.claim_sink_uid(uid, place), self._output, sink)
        table = recorded(node)
        if table is not None and table.table:
            self._graph.claim_table(table)
        operator.sinks.append(node)
        return self


__all__ = ["OperatorOutput"]
