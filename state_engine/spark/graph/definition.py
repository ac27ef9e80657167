"""A job as it is started: settings, operators and sources, which no start changes."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.spark.graph.nodes import OperatorNode, chains_of
from state_engine.spark.graph.settings import JobSettings
from state_engine.spark.graph.sources import Sources


def spec_of(node: OperatorNode, settings: JobSettings) -> OperatorSpec:
    """Returns an operator as its tasks get it."""
    return OperatorSpec(
        uid=node.uid,
        kind=node.kind,
        function=node.function,
        input=node.input,
        key=key_columns(node.input, node.key),
        order_by=node.order_by,
        output=node.output,
        side_outputs=node.side_outputs,
        max_parallelism=settings.max_parallelism,
        generated_uid=node.generated_uid,
        parameters=dict(settings.parameters),
        two_inputs=node.two_inputs,
        broadcast=node.broadcast_states,
        emits_event_time=node.emits_event_time,
        timed_side_outputs=node.timed_side_outputs,
        out_of_orderness=node.out_of_orderness,
        keeps_rows=node.keeps_rows,
        writes_main=node.writes_main,
    )


@dataclass(frozen=True)
class JobDefinition:
    """A job as a driver gets it.

    Attributes:
        settings: What applies to the whole job.
        operators: The operators, upstream first.
        sources: The sources that feed them.
        session: The Spark session of the sources.
    """

    settings: JobSettings
    operators: tuple[OperatorNode, ...]
    sources: Sources
    session: SparkSession

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def root(self) -> str:
        return self.settings.root

    @property
    def chains(self) -> list[tuple[OperatorNode, ...]]:
        """The operators, task by task."""
        return chains_of(self.operators)


__all__ = ["JobDefinition", "spec_of"]
