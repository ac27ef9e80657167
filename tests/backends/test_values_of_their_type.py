"""Values are converted to their type when they are put, so they are the same in this epoch and in the next one."""

import datetime
import decimal
import enum
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from state_engine.api.state import ListState, MapState, ValueState
from state_engine.backends.backend import StatesOfOperator
from state_engine.backends.layout import Layout
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.errors import StateTypeChangedError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness


class Number(enum.IntEnum):
    FIVE = 5


class Word(enum.StrEnum):
    HI = "hi"


NOON = datetime.datetime(2020, 1, 1, 12)
BIG = 2_000_000_000
CASES: list[tuple[str, Any, Any]] = [
    ("bigint", np.int32(BIG), BIG),
    ("int", np.uint8(200), 200),
    ("bigint", Number.FIVE, 5),
    ("string", Word.HI, "hi"),
    ("string", np.str_("x"), "x"),
    ("boolean", np.bool_(True), True),
    ("double", np.float32(0.1), float(np.float32(0.1))),
    ("double", np.int64(3), 3.0),
    ("double", 3, 3.0),
    ("float", 0.1, float(np.float32(0.1))),
    ("float", np.float64(0.1), float(np.float32(0.1))),
    ("decimal(20,2)", np.int64(3), decimal.Decimal("3.00")),
    ("date", np.datetime64("2020-01-01"), datetime.date(2020, 1, 1)),
    ("timestamp", pd.Timestamp(NOON, tz="UTC"), NOON.replace(tzinfo=datetime.UTC)),
    ("timestamp_ntz", pd.Timestamp(NOON), NOON),
    ("binary", np.bytes_(b"x"), b"x"),
]
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()


class Keeps(KeyedProcessFunction):
    """Puts values into states, and emits the states as text, with the classes of their content."""

    def __init__(self, puts: list[tuple[Any, Callable[[Any], None]]]) -> None:
        self.puts = puts

    def open(self, runtime_context: Any) -> None:
        states = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
            ReducingStateDescriptor: runtime_context.get_reducing_state,
            AggregatingStateDescriptor: runtime_context.get_aggregating_state,
        }
        self.states = [states[type(descriptor)](descriptor) for descriptor, _ in self.puts]

    def process_element(self, value: Any, ctx: Any) -> Any:
        for number, (state, (_, put)) in enumerate(zip(self.states, self.puts, strict=True)):
            if value.n:
                put(state)
            yield number, spelled(read(state))


def read(state: Any) -> Any:
    match state:
        case ValueState():
            return state.value()
        case MapState():
            return dict(state.items())
        case ListState():
            return list(state.get())
    return state.get()


def spelled(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{spelled(k)}={spelled(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple, Row)):
        return " ".join(map(spelled, value))
    return f"{type(value).__module__}.{type(value).__name__} {value!r}"


class Collects(AggregateFunction):
    """Adds to the list that it gets, and changes the list's first element."""

    def __init__(self, kind: type = list) -> None:
        self.kind = kind

    def create_accumulator(self) -> Any:
        return self.kind()

    def add(self, value: Any, accumulator: Any) -> Any:
        if self.kind is dict:
            accumulator["k"] = value
        else:
            accumulator.append(value)
            accumulator[0] = value
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def with_ttl(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(TTL)
    return descriptor


def by_columns(descriptor: Any) -> Any:
    descriptor.lies = Layout.COLUMNS
    return descriptor


@pytest.fixture(autouse=True)
def _laid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores states by columns if a test wants it: otherwise only functions over batches request that."""
    made = StatesOfOperator._new_table

    def new_table(backend: Any, descriptor: Any, stored: Any, layout: Layout) -> Any:
        return made(backend, descriptor, stored, getattr(descriptor, "lies", layout))

    monkeypatch.setattr(StatesOfOperator, "_new_table", new_table)


def last(_: Any, new: Any) -> Any:
    return new


def add_twice(s: Any, v: Any) -> None:
    s.add(v)
    s.add(v)


def shapes() -> dict[str, tuple[Callable[[str, str], Any], Callable[..., Any]]]:
    """Returns, by name, how to describe a state of values of a type, and how to put one."""
    value, listed, mapped = ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor
    of_list, of_map = Collects(), Collects(dict)
    return {
        "value": (lambda t, n: value(n, t), lambda s, v: s.update(v)),
        "value with a time to live": (lambda t, n: with_ttl(value(n, t)), lambda s, v: s.update(v)),
        "list in a value": (lambda t, n: value(n, f"array<{t}>"), lambda s, v: s.update([v, None, v])),
        "map in a value": (lambda t, n: value(n, f"map<string,{t}>"), lambda s, v: s.update({"a": v})),
        "row in a value": (lambda t, n: value(n, f"struct<a:{t}>"), lambda s, v: s.update((v,))),
        "row with names in a value": (lambda t, n: value(n, f"struct<a:{t}>"), lambda s, v: s.update(Row(a=v))),
        "list added to": (lambda t, n: listed(n, t), lambda s, v: s.add(v)),
        "list added to with a time to live": (lambda t, n: with_ttl(listed(n, t)), lambda s, v: s.add(v)),
        "list": (lambda t, n: listed(n, t), lambda s, v: s.update([v])),
        "map": (lambda t, n: mapped(n, "string", t), lambda s, v: s.put("a", v)),
        "user key": (lambda t, n: mapped(n, t, "string"), lambda s, v: s.put(v, "a")),
        "user key with a time to live": (lambda t, n: with_ttl(mapped(n, t, "string")), lambda s, v: s.put(v, "a")),
        "value by columns": (lambda t, n: by_columns(value(n, t)), lambda s, v: s.update(v)),
        "list by columns": (lambda t, n: by_columns(listed(n, t)), lambda s, v: s.add_all([v])),
        "map by columns": (lambda t, n: by_columns(mapped(n, "string", t)), lambda s, v: s.put("a", v)),
        "reduced": (lambda t, n: ReducingStateDescriptor(n, last, t), add_twice),
        "aggregated": (lambda t, n: AggregatingStateDescriptor(n, of_list, f"array<{t}>"), add_twice),
        "aggregated in a map": (lambda t, n: AggregatingStateDescriptor(n, of_map, f"map<string,{t}>"), add_twice),
    }


SHAPES = shapes()


def spellings(puts: list[tuple[Any, Callable[[Any], None]]], backend: str = "heap") -> list[list[str]]:
    """Returns the content of states as text: in the epoch that puts it, in the next one, and after a restore."""

    def made() -> KeyedOneInputStreamOperatorTestHarness:
        return KeyedOneInputStreamOperatorTestHarness(
            Keeps(puts), "k", "k string, n bigint", "number int, s string", state_backend=backend
        )

    restored = made()
    with made() as running:
        running.process_elements([("a", 1)])
        running.process_elements([("a", 0)])
        rows = running.extract_output_values()
        restored.initialize_state(running.snapshot())
    with restored as running:
        running.process_elements([("a", 0)])
        rows += running.extract_output_values()
    return [[row[1] for row in rows[at : at + len(puts)]] for at in range(0, len(rows), len(puts))]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_is_of_its_type_at_once(shape: str, backend: str) -> None:
    describe, put = SHAPES[shape]
    puts = [(describe(ddl, f"s{n}"), partial(put, v=given)) for n, (ddl, given, _) in enumerate(CASES)]
    at_once, later, restored = spellings(puts, backend)
    assert at_once == later == restored
    for (_, _, stored), text in zip(CASES, at_once, strict=True):
        assert spelled(stored) in text


@pytest.mark.parametrize(("ddl", "given"), [("double", (1 << 53) + 1), ("float", (1 << 24) + 1)])
@pytest.mark.parametrize("shape", ["value", "list", "map", "row in a value", "reduced", "value with a time to live"])
def test_an_integer_that_would_have_to_be_rounded_is_refused(ddl: str, given: int, shape: str) -> None:
    describe, put = SHAPES[shape]
    with pytest.raises(StateTypeChangedError, match=str(given)):
        spellings([(describe(ddl, "s"), partial(put, v=given))])


@pytest.mark.parametrize(("ddl", "given", "stored"), CASES, ids=lambda value: str(value)[:20])
def test_operator_state_and_broadcast_state_have_the_same_rule(ddl: str, given: Any, stored: Any) -> None:
    states = OperatorStateBackend("op", 0, 1)
    listed = states.get_list_state(ListStateDescriptor("list", ddl))
    shared = states.get_broadcast_state(MapStateDescriptor("map", ddl, ddl))
    listed.add(given)
    shared.put(given, given)
    assert spelled(list(listed.get())) == spelled(stored)
    assert spelled(dict(shared.items())) == f"{spelled(stored)}={spelled(stored)}"
    assert shared.contains(given)


def test_what_an_accumulator_got_is_plain_with_the_next_value() -> None:
    seen: list[type] = []

    class Watches(Collects):
        def add(self, value: Any, accumulator: Any) -> Any:
            seen.extend(map(type, accumulator))
            return super().add(np.int32(value), accumulator)

    def put(state: Any) -> None:
        for n in range(3):
            state.add(n)

    spellings([(AggregatingStateDescriptor("s", Watches(), "array<bigint>"), put)])
    assert set(seen) == {int}


def test_a_key_is_found_by_a_number_of_numpy_and_by_the_plain_one() -> None:
    class Finds(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.map = runtime_context.get_map_state(MapStateDescriptor("s", "date", "bigint"))

        def process_element(self, value: Any, ctx: Any) -> Any:
            plain, numpy = datetime.date(2020, 1, 1), np.datetime64("2020-01-01")
            self.map.put(numpy, value.n)
            yield value.k, f"{self.map.get(plain)} {self.map.get(numpy)} {self.map.contains(numpy)}"
            self.map.remove(numpy)
            yield value.k, str(self.map.is_empty())

    with KeyedOneInputStreamOperatorTestHarness(Finds(), "k", "k string, n bigint", "k string, s string") as running:
        running.process_elements([("a", 7)])
        assert [row[1] for row in running.extract_output_values()] == ["7 7 True", "True"]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("shape", ["user key", "user key with a time to live"])
def test_equal_user_keys_of_any_class_are_one_with_the_first_spelling(shape: str, backend: str) -> None:
    describe, put = SHAPES[shape]

    def put_all(state: Any, keys: tuple[Any, ...]) -> None:
        for key in keys:
            put(state, key)
            assert state.contains(key)

    kinds: list[tuple[str, tuple[Any, ...], str]] = [
        ("double", (np.float64("nan"), float("nan"), np.float32("nan")), "builtins.float nan"),
        ("float", (np.float32("nan"), float("nan")), "builtins.float nan"),
        ("double", (np.float64(-0.0), 0, np.int64(0), 0.0), "builtins.float -0.0"),
        ("double", (0, -0.0), "builtins.float 0.0"),
        ("bigint", (np.int32(5), Number.FIVE, 5), "builtins.int 5"),
        ("string", (Word.HI, "hi"), "builtins.str 'hi'"),
        ("struct<x:double>", ((np.float64("nan"),), Row(x=float("nan"))), "builtins.float nan"),
        ("struct<x:double>", ((np.float64(-0.0),), Row(x=np.int8(0))), "builtins.float -0.0"),
    ]
    puts = [(describe(ddl, f"s{n}"), partial(put_all, keys=keys)) for n, (ddl, keys, _) in enumerate(kinds)]
    at_once, later, restored = spellings(puts, backend)
    assert at_once == later == restored == [f"{key}=builtins.str 'a'" for _, _, key in kinds]


@pytest.mark.parametrize("given", [{np.float64("nan"): 1}, {np.float32("nan"): 0, float("nan"): 1}])
@pytest.mark.parametrize("shape", ["value", "map"])
def test_nan_of_numpy_is_found_in_a_map_that_is_a_value(shape: str, given: Any) -> None:
    describe, put = SHAPES[shape]
    results: list[Any] = []

    def put_and_look(state: Any) -> None:
        put(state, given)
        held = read(state)
        results.append((held["a"] if shape == "map" else held).get(math.nan))

    spellings([(describe("map<double,bigint>", "s"), put_and_look)])
    assert results == [1]


def test_nan_that_an_accumulator_got_in_place_is_found() -> None:
    results: list[Any] = []

    class Counts(Collects):
        def add(self, value: Any, accumulator: Any) -> Any:
            results.append(accumulator.get(math.nan))
            accumulator[float("nan")] = value
            return accumulator

    state = AggregatingStateDescriptor("s", Counts(dict), "map<double,bigint>")
    spellings([(state, lambda s: [s.add(n) for n in range(3)])])
    assert results == [None, 0, 1]


def test_a_timer_of_an_enum_fires_at_a_plain_time() -> None:
    class Sets(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(Number.FIVE)
            ctx.timer_service().register_event_time_timer(np.int32(7))

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield ctx.get_current_key(), spelled(timestamp)

    with KeyedOneInputStreamOperatorTestHarness(Sets(), "k", "k string, n bigint", "k string, s string") as running:
        running.process_elements([("a", 1)])
        running.process_watermark(10)
        assert [row[1] for row in running.extract_output_values()] == ["builtins.int 5", "builtins.int 7"]
