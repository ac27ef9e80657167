"""`map`, `flat_map`, `filter` and `reduce`: what they emit, and the life of their functions."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from state_engine.api import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ReduceFunction,
    Row,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import DuplicateStateError, JobDefinitionError
from state_engine.runtime.adapters import Adapter, FilterAdapter, FlatMapAdapter, MapAdapter, ReduceAdapter
from state_engine.runtime.discovery import discover_states
from state_engine.runtime.failures import OperatorFailure
from state_engine.runtime.operators import operator_of

INPUT = "k string, n bigint"
COLUMNS = parse_columns_ddl(INPUT)
RECORDS = [("a", 1), ("b", 5), ("a", 2), (None, 7), ("b", -3), (None, 1), ("a", 2)]


def reducing(function: Any) -> ReduceAdapter:
    return ReduceAdapter(function, COLUMNS)


def main(run: Any, adapter: Adapter, *records: Any, **given: Any) -> list[tuple[Any, ...]]:
    outputs = run(adapter, key=["k"], **given).feed(*(records or RECORDS))
    return [tuple(row.values()) for row in outputs.get("main", [])]


class Doubled(MapFunction):
    def map(self, value: Any) -> Any:
        return value.k, value.n * 2


class Repeated(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        for _ in range(value.n):
            yield value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value.n % 2 == 0)


class Least(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if value2.n < value1.n else value1


@pytest.mark.parametrize("function", [Doubled(), Doubled().map], ids=["object", "callable"])
def test_map(run: Any, function: Any) -> None:
    assert main(run, MapAdapter(function)) == [(k, n * 2) for k, n in RECORDS]


@pytest.mark.parametrize("function", [Repeated(), lambda value: [value] * value.n], ids=["object", "callable"])
def test_flat_map(run: Any, function: Any) -> None:
    assert main(run, FlatMapAdapter(function)) == [r for r in RECORDS for _ in range(r[1])]


def test_a_flat_map_may_give_nothing_at_all(run: Any) -> None:
    assert main(run, FlatMapAdapter(lambda value: None)) == []


@pytest.mark.parametrize("function", [Even(), Even().filter], ids=["object", "callable"])
def test_filter(run: Any, function: Any) -> None:
    assert main(run, FilterAdapter(function)) == [r for r in RECORDS if r[1] % 2 == 0]


@pytest.mark.parametrize("function", [Least(), Least().reduce], ids=["object", "callable"])
def test_reduce_emits_the_reduced_of_the_key_for_each_record(run: Any, function: Any) -> None:
    least: dict[Any, int] = {}
    expected = []
    for k, n in RECORDS:
        least[k] = min(n, least.get(k, n))
        expected.append((k, least[k]))
    assert main(run, reducing(function)) == expected


@pytest.mark.parametrize("kind", [tuple, list, lambda r: Row(*r), lambda r: {"k": r[0], "n": r[1]}])
def test_every_form_of_a_row_is_a_record_when_it_comes_back(run: Any, kind: Any) -> None:
    reduced = reducing(lambda one, other: kind((one.k, one.n + other.n)))
    assert main(run, reduced, ("a", 1), ("a", 2), ("a", 3)) == [("a", 1), ("a", 3), ("a", 6)]


def test_a_stream_without_key_has_the_three_that_need_none(run: Any) -> None:
    for adapter, count in ((MapAdapter(Doubled()), 7), (FlatMapAdapter(Repeated()), 18), (FilterAdapter(Even()), 2)):
        assert len(run(adapter, key=[]).feed(*RECORDS)["main"]) == count


def test_side_outputs_are_open_to_all_that_emit_freely(run: Any) -> None:
    tag = OutputTag("odd", "n bigint")
    adapter = FlatMapAdapter(lambda value: [(tag, (value.n,))] if value.n % 2 else [value])
    outputs = run(adapter, key=["k"], side_outputs={"odd": "n bigint"}).feed(("a", 1), ("a", 2))
    assert outputs == {"main": [{"k": "a", "n": 2}], "odd": [{"n": 1}]}


# Life cycle and state -----------------------------------------------------------------------------------------------


class Numbered(MapFunction):
    """Keeps state of its key."""

    def __init__(self) -> None:
        self.life: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.life.append(f"opened as {runtime_context.get_task_name()}")
        self.times = runtime_context.get_state(ValueStateDescriptor("times", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.times.update((self.times.value() or 0) + 1)
        return value.k, self.times.value()

    def close(self) -> None:
        self.life.append("closed")


def test_a_map_function_on_a_keyed_stream_may_keep_state(run: Any, spec: Any) -> None:
    function = Numbered()
    running = run(MapAdapter(function), key=["k"])
    rows = [tuple(r.values()) for r in running.feed(*RECORDS)["main"]]
    assert rows == [("a", 1), ("b", 1), ("a", 2), (None, 1), ("b", 2), (None, 2), ("a", 3)]
    running.operator.close()
    assert function.life == ["opened as op", "closed"]
    states = discover_states(
        spec(MapAdapter(Numbered()), key=["k"]), lambda given: pickle.loads(pickle.dumps(given))
    ).states
    assert [(s.name, s.value) for s in states] == [("times", "bigint")]


def test_without_key_there_is_no_keyed_state(spec: Any) -> None:
    with pytest.raises(JobDefinitionError, match=r"'times'.*no key"):
        operator_of(spec(MapAdapter(Numbered()), key=[]), 0, 1).open()


class Opened(Least):
    def __init__(self, state: str, error: Exception | None = None) -> None:
        self.state, self.error = state, error

    def open(self, runtime_context: RuntimeContext) -> None:
        assert runtime_context.get_index_of_this_subtask() == 0
        if self.error is not None:
            raise self.error
        self.own = runtime_context.get_state(ValueStateDescriptor(self.state, Types.LONG()))


def test_a_reduce_function_may_have_states_but_not_the_operators_own(run: Any, spec: Any) -> None:
    states = discover_states(spec(reducing(Opened("mine")), key=["k"]), lambda given: given).states
    assert sorted(s.name for s in states) == ["mine", "reduced"]
    with pytest.raises(DuplicateStateError, match="'reduced'"):
        run(reducing(Opened("reduced")), key=["k"])


def test_the_operators_own_state_is_known_even_if_open_can_run_only_in_a_worker(spec: Any) -> None:
    states = discover_states(
        spec(reducing(Opened("mine", OSError("no network"))), key=["k"]), lambda given: given
    ).states
    assert [s.name for s in states] == ["reduced"]


# Failures -----------------------------------------------------------------------------------------------------------

ADAPTERS = [MapAdapter, FlatMapAdapter, FilterAdapter, reducing]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_failure_names_what_was_called_key_and_record(run: Any, adapter: Any) -> None:
    def divide(*values: Any) -> Any:
        return 1 // 0

    with pytest.raises(OperatorFailure) as caught:
        main(run, adapter(divide), ("a", 1), ("a", 2))
    failure = caught.value.failure
    verb = adapter(divide).verb
    assert failure.message.startswith(f"{verb}() raised ZeroDivisionError")
    assert (failure.key, failure.record) == ("'a'", "Row(k='a', n=2)" if verb == "reduce" else "Row(k='a', n=1)")


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("given", [3, None, Doubled, Least, "n", OutputTag("n")])
def test_what_is_no_function_is_refused(adapter: Any, given: Any) -> None:
    with pytest.raises(JobDefinitionError, match=r"(map|flat_map|filter|reduce)\(\) got ") as caught:
        adapter(given)
    assert caught.value.action


def test_a_function_of_another_verb_is_refused() -> None:
    with pytest.raises(JobDefinitionError, match=r"filter\(\) got Doubled") as caught:
        FilterAdapter(Doubled())
    assert "FilterFunction" in caught.value.action


def test_a_class_in_place_of_an_object_is_refused() -> None:
    with pytest.raises(JobDefinitionError, match=r"map\(\) got the class Doubled") as caught:
        MapAdapter(Doubled)
    assert "Doubled()" in caught.value.action
