"""Packs the operators of a job as its workers get them, task by task."""

from state_engine.spark.graph.definition import JobDefinition, spec_of
from state_engine.spark.graph.nodes import OperatorNode
from state_engine.spark.graph.sinks import DeltaSink, DiscardingSink
from state_engine.spark.plan.planner import PlannedChain
from state_engine.spark.wire.task_spec import StageSpec, TaskSpec, pack
from state_engine.spark.worker.link import Packed
from state_engine.spark.worker.task import TaskFunction


def planned(job: JobDefinition) -> list[PlannedChain]:
    """Returns the job's chains, each with the function that its tasks are sent."""
    return [PlannedChain(chain, TaskFunction([_packed(node, job) for node in chain])) for chain in job.chains]


def _packed(node: OperatorNode, job: JobDefinition) -> Packed:
    stages = tuple(StageSpec(s.uid, s.output, *_table(s.sink)) for s in node.sinks)
    settings = job.settings
    spec, readers = spec_of(node, settings), node.handover.readers
    return Packed(*pack(TaskSpec(spec, stages, readers, settings.codec, settings.cache_bytes, settings.state_backend)))


def _table(sink: object) -> tuple[str | None, tuple[str, ...]]:
    if isinstance(sink, DeltaSink):
        return sink.path, sink.partition_by
    return "" if isinstance(sink, DiscardingSink) else None, ()


__all__ = ["planned"]
