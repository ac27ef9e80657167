"""Random epochs: warm backends, loads of their logs and loads of the folded logs never differ.

`tests/model` compares their content with plain Python.
"""

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.log.fold import coalesce, fold
from state_engine.log.ops import with_position
from state_engine.testing.reference import ReferenceState
from state_engine.testing.state_folding_suite import Mean
from state_engine.testing.state_harness import StateHarness

DESCRIPTORS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "rows": ValueStateDescriptor("rows", "struct<a:double,b:array<string>>"),
    "list": ListStateDescriptor("list", Types.DOUBLE()),
    "tags": ListStateDescriptor("tags", Types.STRING()),
    "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    "grid": MapStateDescriptor("grid", "struct<a:int>", Types.DOUBLE()),
    "sum": ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()),
    "mean": AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
}
KEYS = [1, 2, None]
SPACES = [None, "w"]
small = st.integers(0, 3)
nullable = st.one_of(st.none(), small)
texts = st.sampled_from(["", "x", "y"])
records = st.tuples(small, st.lists(texts, max_size=2))
ARGUMENTS: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("value", "update"): st.tuples(nullable),
    ("rows", "update"): st.tuples(st.one_of(st.none(), records)),
    ("list", "add"): st.tuples(nullable),
    ("list", "update"): st.tuples(st.lists(nullable, max_size=3)),
    ("tags", "add"): st.tuples(texts),
    ("tags", "add_all"): st.tuples(st.lists(texts, max_size=3)),
    ("map", "put"): st.tuples(st.one_of(st.none(), texts), nullable),
    ("map", "remove"): st.tuples(st.one_of(st.none(), texts)),
    ("grid", "put"): st.tuples(st.tuples(small), nullable),
    ("grid", "remove"): st.tuples(st.tuples(small)),
    ("sum", "add"): st.tuples(small),
    ("mean", "add"): st.tuples(small),
    **{(name, "clear"): st.just(()) for name in DESCRIPTORS},
}
step = st.sampled_from(sorted(ARGUMENTS)).flatmap(
    lambda call: st.tuples(st.just(call), st.sampled_from(KEYS), st.sampled_from(SPACES), ARGUMENTS[call])
)
epochs = st.lists(st.tuples(st.lists(step, max_size=10), st.sampled_from(["seal", "seal", "seal", "lose"])), max_size=5)


def contents(harness: StateHarness) -> dict[Any, Any]:
    """Returns all values that a function could read, as plain values."""
    shown: dict[Any, Any] = {}
    for name, descriptor in DESCRIPTORS.items():
        for key in KEYS:
            for space in SPACES:
                state = harness.state(descriptor, key, space)
                if name in ("value", "rows"):
                    content = state.value()
                    content = content if name == "value" or content is None else content.as_tuple()
                elif name in ("map", "grid"):
                    content = {k if name == "map" else k.as_tuple(): v for k, v in state.items()} or None
                else:
                    content = state.get() if name in ("sum", "mean") else list(state.get()) or None
                if content is not None:
                    shown[(name, key, space)] = content
    return shown


def folded(make: Any, harness: StateHarness, how: Any) -> StateHarness:
    """Returns a fresh backend on a log of one epoch: the fold of all epochs."""
    epoch = []
    for schema in harness.backend.schemas:
        tables = [with_position(rows, number) for number, rows in enumerate(harness.tables(schema))]
        if tables:
            rows = how(schema, tables)
            epoch.append((schema, rows))
    return StateHarness(make, "k bigint", [epoch])


def order_of(harness: StateHarness) -> dict[Any, Any]:
    return {place: list(content) for place, content in contents(harness).items() if isinstance(content, dict)}


def run(harness: StateHarness, steps: list[Any]) -> None:
    for call, key, space, arguments in steps:
        getattr(harness.state(DESCRIPTORS[call[0]], key, space), call[1])(*arguments)


@given(script=epochs)
@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_epochs(make_backend: Any, script: list[tuple[list[Any], str]]) -> None:
    harness = StateHarness(make_backend, "k bigint")
    for steps, end in script:
        run(harness, steps)
        if end == "seal":
            harness.seal()
        else:
            harness.backend.freeze(0)
            harness.backend.forget()
        assert contents(harness) == contents(StateHarness(HeapKeyedStateBackend, "k bigint", harness.epochs))
    for other in (harness.reopened(), folded(make_backend, harness, fold), folded(make_backend, harness, coalesce)):
        assert contents(other) == contents(harness)
        assert order_of(other) == order_of(harness)
        statistics = {s.name: (s.rows, s.keys) for s in other.backend.statistics()}
        assert statistics == {s.name: (s.rows, s.keys) for s in harness.backend.statistics()}


@given(script=epochs)
@settings(max_examples=settings.default.max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_log_means_the_same_to_the_naive_interpreter(
    make_backend: Any, script: list[tuple[list[Any], str]]
) -> None:
    harness = StateHarness(make_backend, "k bigint")
    for steps, _ in script:
        run(harness, steps)
        harness.seal()
    contents(harness)  # all states are in use
    for schema, statistics in zip(harness.backend.schemas, harness.backend.statistics(), strict=True):
        tables = [with_position(rows, number) for number, rows in enumerate(harness.tables(schema))]
        naive = ReferenceState(schema).apply_all(pa.concat_tables(tables).to_pylist() if tables else [])
        live = naive.live()
        rows = sum(len(row[-1]) for row in live) if schema.shape == "list" else len(live)
        assert rows == statistics.rows
