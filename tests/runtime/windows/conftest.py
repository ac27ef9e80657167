"""Windows over records `k string, n bigint`; the test gives their event times."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import AggregateFunction, OutputTag, ProcessWindowFunction
from state_engine.api.windows import TimeWindow
from state_engine.runtime.windows.stream import WindowedStream
from state_engine.testing import windowed_harness

INPUT = "k string, n bigint"
SEEN = "k string, window string, seen string"
LATE = OutputTag("late", INPUT)


def spelled(window: Any) -> str:
    return f"{window.start}-{window.end}" if isinstance(window, TimeWindow) else repr(window)


class Show(ProcessWindowFunction[Any, Any, Any, Any]):
    """Emits key, window and the `n` of its elements, in order."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, spelled(context.window()), " ".join(str(e.n) for e in elements)


class Total(AggregateFunction):
    """Count and sum, as a list that is changed in place, so that a shared list would be noticed."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value.n
        return accumulator

    def get_result(self, accumulator: list[int]) -> Any:
        return "total", *accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        acc_a[0] += acc_b[0]
        acc_a[1] += acc_b[1]
        return acc_a


def add(one: Any, other: Any) -> Any:
    return one.k, one.n + other.n


def nothing_left(harness: Any) -> bool:
    """Returns whether no row of any state and no timer exists."""
    snapshot = harness.snapshot()
    return not any(snapshot.table(schema.name).num_rows for schema in snapshot.manifest.schemas)


@pytest.fixture
def windowed() -> Callable[..., WindowedStream[Any]]:
    """Makes a stream with windows; its last call returns a harness."""
    return lambda assigner, **options: windowed_harness(assigner, "k", INPUT, side_outputs=[LATE], **options)


@pytest.fixture
def shown(windowed: Any) -> Callable[..., Any]:
    """Makes a harness that shows its windows; `more` adds further settings to them."""

    def make(assigner: Any, more: Callable[[Any], Any] = lambda stream: stream, **options: Any) -> Any:
        return more(windowed(assigner, **options)).process(Show(), SEEN)

    return make


@pytest.fixture
def empty() -> Callable[[Any], bool]:
    return nothing_left


@pytest.fixture
def late() -> OutputTag:
    return LATE


@pytest.fixture
def total() -> Total:
    return Total()


@pytest.fixture
def sum_of_n() -> Callable[[Any, Any], Any]:
    return add
