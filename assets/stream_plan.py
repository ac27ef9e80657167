"""What a stream is made of, as far as assets need it: sources, states, sinks, and what feeds what.

Known from two places, none of which imports the job: the plan that `lakestate explain <job> --json` printed, and the
newest epoch that the job sealed. The plan knows names and edges before the job has run for the first time; the epoch
knows what is really there, such as the tables of sinks and the states that the runtime adds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from state_engine.errors import JobDefinitionError
from state_engine.log.paths import operator_table_path, state_table_path, table_path
from state_engine.log.records import Manifest
from state_engine.text import UNDECODABLE


class Source(NamedTuple):
    """A stream that feeds the job; `uri` where it lies, if that is known."""

    name: str
    kind: str = ""
    uri: str = ""


class State(NamedTuple):
    """A state of an operator; `table` is its folder below the job's root."""

    uid: str
    table: str
    about: str = ""


class Sink(NamedTuple):
    """An output of the job. `operator` is empty where nobody knows which one writes to it."""

    uid: str
    kind: str = ""
    uri: str = ""
    operator: str = ""


class Way(NamedTuple):
    """What feeds an operator: an operator by its uid, or a source by its name."""

    upstream: str
    is_source: bool


class Feeders(NamedTuple):
    """What feeds something: the tables of the nearest states, and the names of the nearest sources."""

    tables: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StreamPlan:
    """A stream.

    Attributes:
        sources: What feeds it.
        states: All states.
        sinks: Its outputs.
        ways: What feeds each operator. One that is not in it may be fed by every source.
    """

    sources: tuple[Source, ...] = ()
    states: tuple[State, ...] = ()
    sinks: tuple[Sink, ...] = ()
    ways: Mapping[str, tuple[Way, ...]] = field(default_factory=dict)

    def feeders_of(self, uid: str) -> Feeders:
        """Returns what feeds an operator."""
        if uid not in self.ways:
            return Feeders(sources=frozenset(source.name for source in self.sources))
        found = Feeders()
        for way in self.ways[uid]:
            more = Feeders(sources=frozenset({way.upstream})) if way.is_source else self._given_by(way.upstream)
            found = Feeders(found.tables | more.tables, found.sources | more.sources)
        return found

    def writers_of(self, sink: Sink) -> Feeders:
        """Returns what feeds a sink: every state where nobody knows which operator writes to it."""
        if not sink.operator:
            return Feeders(frozenset(state.table for state in self.states))
        return self._given_by(sink.operator)

    def _given_by(self, uid: str) -> Feeders:
        """What an operator hands on stands on its states; one without any hands on what feeds it."""
        own = frozenset(state.table for state in self.states if state.uid == uid)
        return Feeders(own) if own else self.feeders_of(uid)


class _ExplainedSource(msgspec.Struct, frozen=True):
    name: str
    kind: str = ""


class _ExplainedInput(msgspec.Struct, frozen=True):
    upstream: str
    is_source: bool


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
    inputs: tuple[_ExplainedInput, ...] = ()
    states: tuple[_ExplainedState, ...] = ()
    sinks: tuple[_ExplainedSink, ...] = ()


class _Explained(msgspec.Struct, frozen=True):
    """As much of `JobExplanation` as is looked at: that one lies in a room that imports Spark."""

    job: str
    sources: tuple[_ExplainedSource, ...] = ()
    operators: tuple[_ExplainedOperator, ...] = ()


def read_plan(job: str, text: bytes | str) -> StreamPlan:
    """Reads what `lakestate explain <job> --json` printed.

    Args:
        job: Name of the job that it has to be of.
        text: The JSON.

    Raises:
        JobDefinitionError: It is something else, or of another job.
    """
    again = f"Write it again: lakestate explain {job} --json."
    try:
        found = msgspec.json.decode(text, type=_Explained)
    except UNDECODABLE as error:
        raise JobDefinitionError(f"The plan of job {job!r} is no such plan: {error}.", action=again) from error
    if found.job != job:
        raise JobDefinitionError(f"The plan of job {job!r} is one of job {found.job!r}.", action=again)
    return StreamPlan(
        sources=tuple(Source(source.name, source.kind) for source in found.sources),
        states=tuple(_states(found.operators)),
        sinks=tuple(Sink(sink.uid, sink.kind, "", one.uid) for one in found.operators for sink in one.sinks),
        ways={one.uid: tuple(Way(way.upstream, way.is_source) for way in one.inputs) for one in found.operators},
    )


def plan_of(manifest: Manifest) -> StreamPlan:
    """Returns what a sealed epoch tells: no edges, and sources by number."""
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
    """Returns what both tell. Of what both know, the plan says how it hangs together, the epoch where it lies."""
    if plan is None or seen is None:
        return plan or seen or StreamPlan()
    places = {sink.uid: sink.uri for sink in seen.sinks}
    known = {state.table for state in plan.states}
    alone = len(plan.sources) == len(seen.sources) == 1  # an epoch does not tell names, and may have another order
    return StreamPlan(
        sources=tuple(source._replace(uri=seen.sources[0].uri) for source in plan.sources)
        if alone
        else plan.sources or seen.sources,
        states=(*plan.states, *(state for state in seen.states if state.table not in known)),
        sinks=tuple(sink._replace(uri=places.get(sink.uid, "")) for sink in plan.sinks) or seen.sinks,
        ways=plan.ways,
    )


def _states(operators: Sequence[_ExplainedOperator]) -> Iterator[State]:
    for operator in operators:
        for state in operator.states:
            of_operator = state.kind in ("operator", "broadcast")
            table = (operator_table_path if of_operator else table_path)(operator.uid, state.name)
            yield State(operator.uid, table, f"{state.shape.capitalize()} state of `{state.type}`")


__all__ = ["Sink", "Source", "State", "StreamPlan", "Way", "merged", "plan_of", "read_plan"]
