"""Shows each known fault that the generators of programs leave out: these tests pass when the fault is mended."""

import datetime
from collections import namedtuple
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql
import pytest
from forms.windows import END, Contents, Definition, Windowed, assigner_of, operator_of
from known_faults import KNOWN_FAULTS

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.api.type_hints import parse_ddl
from state_engine.api.windows import EventTimeSessionWindows
from state_engine.errors import LakestateError, StateTypeChangedError
from state_engine.serialization.convert import ValueTypeError, reader
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, windowed_harness

INPUT = "k string, n bigint"


def harness(function: Any, output: str, **options: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(function, "k", INPUT, output, **options)


def rows_of(function: Any, output: str, epochs: list[list[Any]], **options: Any) -> list[Any]:
    """Returns the rows of some epochs."""
    with harness(function, output, **options) as running:
        for records in epochs:
            running.process_elements(records)
        return running.extract_output_values()


class Paths(KeyedProcessFunction):
    """Yields a list of its own, and goes on to change it."""

    def open(self, runtime_context: Any) -> None:
        self.stored = runtime_context.get_list_state(ListStateDescriptor("stored", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        path = list(self.stored)
        path.append(value.n)
        self.stored.add(value.n)
        yield value.k, path
        path.append(-1)


def test_a_row_is_what_it_was_when_it_was_yielded() -> None:
    rows = rows_of(Paths(), "k string, path array<bigint>", [[("a", 1), ("a", 2)]])
    assert rows == [("a", [1]), ("a", [1, 2])]


class Times(KeyedProcessFunction):
    """Counts how often a double came, in a map; doubles are spelled, so that each is another object."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def open(self, runtime_context: Any) -> None:
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.DOUBLE(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        key = float(self.keys[value.n])
        self.times.put(key, (self.times.get(key) or 0) + 1)
        yield value.k, self.times.get(key)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_nan_is_one_user_key(backend: str) -> None:
    rows = rows_of(Times("nan"), INPUT, [[("a", 0), ("a", 0)], [("a", 0)]], state_backend=backend)
    assert rows == [("a", 1), ("a", 2), ("a", 3)]


class Stores(KeyedProcessFunction):
    """Stores a value, and adds to it."""

    def __init__(self, kind: Any, value: Any, added: Any) -> None:
        self.kind, self.value, self.added = kind, value, added

    def open(self, runtime_context: Any) -> None:
        self.stored = runtime_context.get_state(ValueStateDescriptor("stored", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if value.n:
            self.stored.update(self.value)
        else:
            yield value.k, str(self.stored.value() + self.added)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_a_number_of_numpy_is_one_of_python_as_soon_as_it_is_stored() -> None:
    stores = Stores(Types.LONG(), np.int32(2_000_000_000), 2_000_000_000)
    assert rows_of(stores, "k string, sum string", [[("a", 1), ("a", 0)]]) == [("a", "4000000000")]


def test_an_integer_that_a_double_would_round_is_refused() -> None:
    with pytest.raises(StateTypeChangedError):
        rows_of(Stores(Types.DOUBLE(), (1 << 53) + 1, 0), "k string, sum string", [[("a", 1)]])


class Named(KeyedProcessFunction):
    """Yields a row with names in another order than the output's."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield self.row


@pytest.mark.parametrize("row", [namedtuple("Pair", "b a")("B", "A"), pyspark.sql.Row(b="B", a="A")])
def test_a_row_with_names_counts_by_name(row: Any) -> None:
    assert rows_of(Named(row), "a string, b string", [[("k", 1)]]) == [("A", "B")]


@pytest.mark.parametrize(
    ("ddl", "array"),
    [
        ("date", pa.array([4_000_000], pa.int32()).cast(pa.date32())),
        ("timestamp_ntz", pa.array([1 << 58], pa.int64()).cast(pa.timestamp("us"))),
    ],
)
def test_a_date_outside_years_1_to_9999_is_refused_or_a_date(ddl: str, array: Any) -> None:
    try:
        (value,) = reader(parse_ddl(ddl))(array)
    except (LakestateError, ValueTypeError):
        return
    assert isinstance(value, datetime.date)


# Windows --------------------------------------------------------------------------------------------------------------


def windows(of: Definition, form: str = "process", **options: Any) -> Any:
    program = Windowed(("string",), "bigint", False, None, (of,))
    stream = windowed_harness(assigner_of(program, of), ("k0",), program.input, **options)
    return operator_of(program, of, form, stream)


def shown(running: Any) -> list[Any]:
    return [tuple(row)[1:4] for row in running.extract_output_values()]


def test_records_one_gap_apart_are_one_session() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = windowed_harness(EventTimeSessionWindows(2), ("k0",), "k0 string, n bigint, v bigint",
                              watermark_strategy=strategy)  # fmt: skip
    output = Windowed(("string",), "bigint", False, None, ()).output
    with stream.process(Contents(), output) as running:
        running.process_elements([("a", 1, 0), ("a", 2, 0)], [6, 8])
        running.process_watermark(END)
        assert shown(running) == [(6, 10, 3)]


def next_release(before: Definition, after: Definition, until: int, records: list[Any]) -> tuple[Any, list[Any]]:
    """Runs a release with a record at 1, then the next one with others at 2; returns it, and what it gave."""
    with windows(before) as first:
        first.process_elements([("a", 1, 0)], [1])
        first.process_watermark(until)
        running = windows(after)
        running.initialize_state(first.snapshot())
    running.process_elements(records, [2 for _ in records])
    running.process_watermark(END)
    return running, shown(running)


def test_sessions_go_on_with_less_lateness() -> None:
    running, rows = next_release(Definition("sessions", 5, lateness=50), Definition("sessions", 5), 10, [("a", 2, 0)])
    assert rows == []  # the record is late by now
    assert not any(running.snapshot().states().values())


def test_nothing_is_left_of_windows_with_more_lateness_than_before() -> None:
    running, rows = next_release(Definition("tumbling", 10), Definition("tumbling", 10, lateness=5), 5, [])
    assert rows == [(0, 10, 1)]
    assert not any(running.snapshot().states().values())


def test_count_windows_go_on_with_another_size() -> None:
    with windows(Definition("count", 5)) as first:
        first.process_elements([("a", n, 0) for n in range(3)])
        running = windows(Definition("count", 2))
        running.initialize_state(first.snapshot())
    running.process_elements([("a", n, 0) for n in range(3, 8)])
    numbers = [n for row in running.extract_output_values() for n in row[4]]
    assert numbers[:3] == [0, 1, 2]


# The list -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", KNOWN_FAULTS, ids=lambda entry: entry.name)
def test_each_known_fault_is_left_out_and_shown(entry: Any) -> None:
    tests, quoted = Path(__file__).parents[2], f'"{entry.name}"'
    assert entry.asked_by
    for file in entry.asked_by:
        assert quoted in (tests.parent / file).read_text(), f"{file} does not ask for it"
    assert any(f"@shows({quoted}" in file.read_text() for file in tests.rglob("test_*.py")), "no test shows it"
