"""Explains what a job consists of, as data: for people who want to see it before they start it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from state_engine.api.sinks import TransactionalSink
from state_engine.backends.schemas import RAW_KEYED, RAW_OPERATOR
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.co_adapters import CoAdapter
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.outputs import MAIN
from state_engine.spark.graph.dry import DryFrame
from state_engine.spark.graph.nodes import (
    ComputeStep,
    Edge,
    MapStep,
    OperatorNode,
    SelectStep,
    SourceNode,
    Step,
    TimeStep,
    WhereStep,
    chains_of,
)
from state_engine.spark.wire.schemas import ddl_of

if TYPE_CHECKING:
    from state_engine.spark.job import StreamJob


_RAW = {RAW_KEYED: "bytes by key group", RAW_OPERATOR: "bytes in partitions"}


class SourcePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that feeds the job."""

    name: str
    kind: str
    bounded: bool
    event_time: str = ""


class InputPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One way into an operator.

    `upstream` is the uid of an operator or the name of a source. `ship` is how records reach their subtask, in the
    words of Flink's plans: `HASH(k)`, `BROADCAST`, `FORWARD` inside a task, or `REBALANCE` without key. `output` is the
    output of the upstream operator. With `shared`, others read that operator too: all through one more exchange.
    """

    upstream: str
    is_source: bool
    input: int
    ship: str
    order_by: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    event_time: str = ""
    output: str = MAIN
    shared: bool = False


class StatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A state that the function's `initialize_state()` or `open()` requests.

    `shape` is `raw` for a state that a function writes as bytes. Such a state is known here only if
    `initialize_state()` reads it also when nothing was restored. `ttl_ms` is its time to live; null if its values live
    for ever.
    """

    name: str
    kind: str
    shape: str
    type: str
    ttl_ms: int | None = None


class SinkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A sink on one output."""

    uid: str
    output: str
    kind: str
    table: str = ""


class OperatorExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One operator.

    `stage` is the place of its task among the exchanges of an epoch. `chain` has all operators of that task. `strategy`
    is Flink's name for the operators with which it may be chained. With `object_reuse` the next operator of its chain
    takes its rows as they are.
    """

    uid: str
    generated_uid: bool
    function: str
    stage: int
    parallelism: int
    inputs: tuple[InputPlan, ...]
    states: tuple[StatePlan, ...]
    output: str
    side_outputs: dict[str, str]
    sinks: tuple[SinkPlan, ...]
    chain: tuple[str, ...] = ()
    strategy: str = "always"
    object_reuse: bool = False


class JobExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A job, with its operators upstream first."""

    job: str
    root: str
    parallelism: int
    max_parallelism: int
    sources: tuple[SourcePlan, ...]
    operators: tuple[OperatorExplanation, ...]


def explain_job(job: "StreamJob") -> JobExplanation:
    """Returns what a job consists of; nothing is read, written or started."""
    origins = [edge.origin for node in job.operators for edge in node.edges]
    sources = sorted((o for o in origins if isinstance(o, SourceNode)), key=lambda source: source.number)
    timed = {
        edge.origin.number: _event_time(edge)
        for node in job.operators
        for edge in node.edges
        if isinstance(edge.origin, SourceNode)
    }
    chains = {node.uid: tuple(one.uid for one in chain) for chain in chains_of(job.operators) for node in chain}
    return JobExplanation(
        job=job.name,
        root=job.root,
        parallelism=job.settings.parallelism,
        max_parallelism=job.settings.max_parallelism,
        sources=tuple(
            SourcePlan(name=s.name, kind=_kind(s), bounded=s.bounded, event_time=timed[s.number]) for s in sources
        ),
        operators=tuple(_operator(job, node, chains[node.uid]) for node in job.operators),
    )


def _operator(job: "StreamJob", node: OperatorNode, chain: tuple[str, ...]) -> OperatorExplanation:
    return OperatorExplanation(
        uid=node.uid,
        generated_uid=node.generated_uid,
        function=_function(node),
        stage=_stage(node),
        parallelism=min(job.settings.parallelism, job.settings.max_parallelism),
        inputs=tuple(_input(node, edge) for edge in node.edges),
        states=tuple(
            StatePlan(
                name=state.name,
                kind=state.kind,
                shape="raw" if state.name in _RAW else state.shape,
                type=_RAW.get(state.name)
                or (f"{state.user_key} → {state.value}" if state.user_key is not None else state.value),
                ttl_ms=state.ttl.milliseconds if state.ttl is not None else None,
            )
            for state in node.states
        ),
        output=ddl_of(node.output),
        side_outputs={tag: ddl_of(columns) for tag, columns in node.side_outputs.items()},
        sinks=tuple(
            SinkPlan(
                uid=sink.uid,
                output=sink.output,
                kind=type(sink.sink).__name__,
                table=sink.sink.address
                if isinstance(sink.sink, TransactionalSink)
                else str(getattr(sink.sink, "path", "")),
            )
            for sink in node.sinks
        ),
        chain=chain,
        strategy=node.chaining,
        object_reuse=node.object_reuse,
    )


def _stage(node: OperatorNode) -> int:
    """Returns how many exchanges an operator has before it, with its own one: its place among the epoch's stages."""
    before = (_stage(upstream) + upstream.handover.shared for upstream, _ in node.upstream)
    return (0 if node.chained else 1) + max(before, default=0)


def _input(node: OperatorNode, edge: Edge) -> InputPlan:
    origin = edge.origin
    is_source = isinstance(origin, SourceNode)
    key, order_by = node.key, node.order_by
    if node.two_inputs is not None and edge.input == 2:
        key, order_by = node.two_inputs.second_key, node.two_inputs.second_order
    return InputPlan(
        upstream=origin.name if isinstance(origin, SourceNode) else origin.uid,
        is_source=is_source,
        input=edge.input,
        ship=_ship(node, edge, key),
        order_by=order_by,
        steps=tuple(map(_step, edge.steps)),
        event_time="" if is_source else _event_time(edge),
        output=edge.output,
        shared=isinstance(origin, OperatorNode) and origin.handover.shared,
    )


def _ship(node: OperatorNode, edge: Edge, key: Sequence[str]) -> str:
    if node.chained:
        return "FORWARD"
    if edge.broadcast:
        return "BROADCAST"
    return f"HASH({', '.join(key)})" if key else "REBALANCE"


def _event_time(edge: Edge) -> str:
    strategy = edge.strategy
    if strategy is None:
        return ""
    time = strategy.timestamp or type(strategy.assigner).__name__
    delay = strategy.out_of_orderness
    return f"{time}, no watermarks" if delay is None else f"{time}, watermark {delay} ms behind"


def _step(step: Step) -> str:
    match step:
        case SelectStep(expressions):
            return f"select({', '.join(expressions)})"
        case WhereStep(condition):
            return f"where({condition})"
        case MapStep(function):
            return f"map({getattr(function, '__qualname__', type(function).__name__)})"
        case ComputeStep(_, _, computed):
            return f"compute({', '.join(computed.names)})"
        case TimeStep():
            return "assign_timestamps_and_watermarks"


def _function(node: OperatorNode) -> str:
    function = node.function
    if isinstance(function, (Adapter, Declared)):
        return f"{function.verb}({function.argument})"
    if isinstance(function, CoAdapter):
        return f"{function.verb}({type(function.function).__name__})"
    return type(function).__name__


def _kind(source: SourceNode) -> str:
    df: object = source.df
    return df.kind if isinstance(df, DryFrame) else "DataFrame"


def sinks_of(operator: OperatorExplanation, output: str = MAIN) -> Sequence[SinkPlan]:
    """Returns the sinks of one output of an operator."""
    return [sink for sink in operator.sinks if sink.output == output]


__all__ = [
    "InputPlan",
    "JobExplanation",
    "OperatorExplanation",
    "SinkPlan",
    "SourcePlan",
    "StatePlan",
    "explain_job",
    "sinks_of",
]
