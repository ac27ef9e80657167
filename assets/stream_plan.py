"""The plan of a stream, as far as assets need it: sources, states and sinks.

It comes from two places, and neither imports the job: the plan that `lakestate explain <job> --json` printed, and the
newest epoch that the job sealed. The plan has names before the first run of the job. The epoch has what really
exists, such as the tables of sinks and the states that the runtime adds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from state_engine.errors import JobDefinitionError
from state_engine.log.paths import operator_table_path, state_table_path, table_path
from state_engine.log.records import Manifest
from state_engine.text import UNDECODABLE


class Source(NamedTuple):
    """A source of the job; `uri` is where it is stored, if that is known."""

    name: str
    kind: str = ""
    uri: str = ""


class State(NamedTuple):
    """A state of an operator; `table` is its folder below the job's root."""

    uid: str
    table: str
    about: str = ""


class Sink(NamedTuple):
    """An output of the job. `operator` is empty if it is not known which operator writes to it."""

    uid: str
    kind: str = ""
    uri: str = ""
    operator: str = ""


@dataclass(frozen=True)
class StreamPlan:
    """The plan of a stream.

    Attributes:
        sources: Its sources.
        states: All states.
        sinks: Its outputs.
    """

    sources: tuple[Source, ...] = ()
    states: tuple[State, ...] = ()
    sinks: tuple[Sink, ...] = ()


class _ExplainedSource(msgspec.Struct, frozen=True):
    name: str
    kind: str = ""


class _ExplainedState(msgspec.Struct, frozen=True):
    name: str
    kind: str
    shape: str
    type: str


class _ExplainedSink(msgspec.Struct, frozen=True):
    uid: str
    kind: str = ""


class _ExplainedOperator(msgspec.Struct, frozen=True):
    uid: str
    states: tuple[_ExplainedState, ...] = ()
    sinks: tuple[_ExplainedSink, ...] = ()


class _Explained(msgspec.Struct, frozen=True):
    """The fields of `JobExplanation` that are read; `JobExplanation` itself is in a room that imports Spark."""

    job: str
    sources: tuple[_ExplainedSource, ...] = ()
    operators: tuple[_ExplainedOperator, ...] = ()


def read_plan(job: str, text: bytes | str) -> StreamPlan:
    """Reads what `lakestate explain <job> --json` printed.

    Args:
        job: Name of the job that the plan must be of.
        text: The JSON.

    Raises:
        JobDefinitionError: It is not a plan, or one of another job.
    """
    action = f"Write it again: lakestate explain {job} --json."
    try:
        plan = msgspec.json.decode(text, type=_Explained)
    except UNDECODABLE as error:
        raise JobDefinitionError(f"The plan of job {job!r} cannot be read: {error}.", action=action) from error
    if plan.job != job:
        raise JobDefinitionError(f"The plan of job {job!r} is one of job {plan.job!r}.", action=action)
    return StreamPlan(
        sources=tuple(Source(source.name, source.kind) for source in plan.sources),
        states=tuple(_states(plan.operators)),
        sinks=tuple(Sink(sink.uid, sink.kind, "", one.uid) for one in plan.operators for sink in one.sinks),
    )


def plan_of(manifest: Manifest) -> StreamPlan:
    """Returns the plan from a sealed epoch: it names sources by number, and not the operators that write to sinks."""
    sources = [
        Source(f"source_{number}", one.kind, one.path) for number, one in enumerate(manifest.fingerprints, start=1)
    ]
    states = [
        State(schema.uid, state_table_path(schema), f"{schema.shape.capitalize()} state of `{schema.value}`")
        for schema in manifest.schemas
        if schema.uid in manifest.operators
    ]
    sinks = {sink.uid: Sink(sink.uid, sink.kind, sink.table) for sink in manifest.sinks}
    return StreamPlan(tuple(sources), tuple({state.table: state for state in states}.values()), tuple(sinks.values()))


def merged(plan: StreamPlan | None, seen: StreamPlan | None) -> StreamPlan:
    """Returns both plans in one. For what is in both, `plan` gives the names, and `seen` the addresses."""
    if plan is None or seen is None:
        return plan or seen or StreamPlan()
    places = {sink.uid: sink.uri for sink in seen.sinks}
    tables = {state.table for state in plan.states}
    is_single = len(plan.sources) == len(seen.sources) == 1  # an epoch has no names, and may have another order
    return StreamPlan(
        sources=tuple(source._replace(uri=seen.sources[0].uri) for source in plan.sources)
        if is_single
        else plan.sources or seen.sources,
        states=(*plan.states, *(state for state in seen.states if state.table not in tables)),
        sinks=tuple(sink._replace(uri=places.get(sink.uid, "")) for sink in plan.sinks) or seen.sinks,
    )


def _states(operators: Sequence[_ExplainedOperator]) -> Iterator[State]:
    for operator in operators:
        for state in operator.states:
            of_operator = state.kind in ("operator", "broadcast")
            table = (operator_table_path if of_operator else table_path)(operator.uid, state.name)
            yield State(operator.uid, table, f"{state.shape.capitalize()} state of `{state.type}`")


__all__ = ["Sink", "Source", "State", "StreamPlan", "merged", "plan_of", "read_plan"]
