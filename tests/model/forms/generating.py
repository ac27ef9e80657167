"""Random programs and inputs for them."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from forms.plain import Record, Stretch
from forms.program import FOLDS, READS, TIMERS, WRITES, Program, StateOf, Step
from forms.running import Case, forms_of
from forms.values import KEYS, WIDER, types, values
from forms.ways import Way, ways
from hypothesis import strategies as st
from hypothesis.internal.conjecture.engine import ConjectureRunner

ROWS = ["tuple", "list", "dict", "Row", "named tuple"]
USER_KEYS = [*KEYS, "double", "struct<a:int,b:string>", "struct<x:float,y:double>"]
SUMS = ["bigint", "decimal(38,0)"]
TTLS = ["", "", "clock", "clock reads", "event", "event reads"]


@st.composite
def states(draw: Any, *, for_spark: bool = False) -> StateOf:
    """States of all shapes; for Spark without a time to live, since tests do not set its clocks."""
    shape, fold = draw(st.sampled_from(sorted(WRITES))), draw(st.sampled_from([*FOLDS, "sum"]))
    sums = shape == "reduced" and fold == "sum"
    kind = draw(st.sampled_from(SUMS) if sums else types(listed=for_spark))
    return StateOf(
        shape, kind, draw(st.sampled_from(USER_KEYS)), fold, "" if for_spark else draw(st.sampled_from(TTLS))
    )


@st.composite
def programs(draw: Any, *, for_spark: bool = False) -> Program:
    """Programs; the first operation reads everything, others write once. For Spark without timers."""
    asked = tuple(draw(st.lists(states(for_spark=for_spark), min_size=1, max_size=2)))
    numbered = list(enumerate(asked))
    every = tuple(Step(call, n) for n, state in numbered for call in READS[state.shape])
    writes = [Step(call, n) for n, state in numbered for call in WRITES[state.shape]]
    timers = [Step(call) for call in TIMERS]
    step = st.one_of(*map(st.sampled_from, [writes, writes, list(every), *([] if for_spark else [timers])]))
    several = st.lists(step, min_size=1, max_size=4).map(tuple)
    operations = [(write,) for write in writes] + draw(st.lists(several, max_size=3))
    clears = st.sampled_from([Step("clear", n) for n, _ in numbered])
    on_timer = st.lists(st.one_of(st.sampled_from(every), clears).filter(_needs_no_record(asked)), max_size=3)
    return Program(
        key=tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2))),
        states=asked,
        operations=(every, *operations),
        on_timer=tuple(draw(on_timer)),
        rows=draw(st.sampled_from(ROWS)),
        spoils=draw(st.booleans()),
        spoils_rows=draw(st.booleans()),
        numpy=draw(st.booleans()),
    )


def _needs_no_record(asked: tuple[StateOf, ...]) -> Any:
    return lambda step: not (asked[step.state].shape == "map" and step.call in ("get", "contains"))


@st.composite
def cases(draw: Any, of: st.SearchStrategy[Program] | None = None) -> Case:
    """Programs with inputs; at the end all state of the input's keys is read."""
    program = draw(programs() if of is None else of)
    keys = draw(st.lists(st.tuples(*map(values, program.key)), min_size=1, max_size=3))
    user_keys = [draw(st.lists(_user_keys(state), min_size=1, max_size=2)) for state in program.states]
    stretches = draw(st.lists(_stretches(program, keys, user_keys), min_size=1, max_size=3))
    following = draw(st.none() if of is not None else st.one_of(st.none(), _releases(program)))
    released = len(stretches)
    if following is not None:
        stretches += draw(st.lists(_stretches(following, keys, user_keys), max_size=2))
    if _timed(program):  # an element is also stamped by the watermark: event time begins before the first one
        stretches[0] = stretches[0]._replace(watermark=1 + stretches[0].watermark)
    nothing = tuple((None, None) for _ in program.states)
    last = tuple(Record(key, 0, nothing, 0, 125) for key in keys)
    return Case(program, (*stretches, Stretch(0, 0, last), Stretch(2, 2, last)), following, released)


def _stretches(program: Program, keys: list[Any], user_keys: list[Any]) -> st.SearchStrategy[Stretch]:
    pairs = [
        st.tuples(_values(state), st.sampled_from(own)) for state, own in zip(program.states, user_keys, strict=True)
    ]
    times, moves = st.integers(95, 125), st.integers(0, 4)
    record = st.builds(
        Record,
        st.sampled_from(keys),
        st.integers(0, len(program.operations) - 1),
        st.tuples(*pairs),
        st.integers(0, 4),
        times if _timed(program) else st.one_of(st.none(), times),
    )
    records = st.lists(record, min_size=2, max_size=10).map(lambda found: tuple(sorted(found, key=_in_time)))
    return st.builds(Stretch, moves, moves, records)


def _timed(program: Program) -> bool:
    return any(state.ttl.startswith("event") for state in program.states)


@st.composite
def _releases(draw: Any, program: Program) -> Program:
    """The same program with wider types of its states."""
    wider = [draw(st.sampled_from([state.type, *WIDER.get(state.type, [])])) for state in program.states]
    changed = zip(program.states, wider, strict=True)
    return replace(program, states=tuple(replace(state, type=kind) for state, kind in changed))


def ways_of(program: Program) -> st.SearchStrategy[Way]:
    """Ways to run a program: its forms replace each other."""
    return ways(forms_of(program))


def _values(state: StateOf) -> st.SearchStrategy[Any]:
    if state.shape == "reduced" and state.fold == "sum":
        return st.integers(-9, 9)  # sums that fit into every type
    return values(state.type)


def _user_keys(state: StateOf) -> st.SearchStrategy[Any]:
    found = values(state.user_key, nullable=not state.user_key.startswith("struct"))
    return found


@contextlib.contextmanager
def only_new() -> Iterator[None]:
    """Has Hypothesis make new programs only: five of six examples were copies of the last one with a part repeated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConjectureRunner, "generate_mutations_from", lambda runner, data: None)
        yield


def _in_time(record: Record) -> tuple[bool, int]:
    return record.at is not None, record.at or 0


__all__ = ["cases", "only_new", "programs", "ways_of"]
