"""A row keeps the content that it had when the function returned it, however the function changes the object later."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import (
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    Time,
    Types,
)
from state_engine.api.windows import CountEvictor, TumblingEventTimeWindows
from state_engine.runtime.adapters import FlatMapAdapter, MapAdapter
from state_engine.runtime.chain import ChainAdapter
from state_engine.testing import windowed_harness

SIDE = OutputTag("side", "k string, path array<bigint>")
PATHS = "k string, path array<bigint>"


@dataclass
class Path:
    k: str
    path: list[int]


class Keeps(KeyedProcessFunction):
    """Emits the numbers that came so far, in an object that it keeps and extends."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.path: list[int] = []
        self.row: Any = {"dict": {}, "list": ["", []], "dataclass": Path("", [])}.get(form)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.path.append(value.n)
        match self.form:
            case "dict":
                self.row.update(k=value.k, path=self.path)
            case "list":
                self.row[:] = [value.k, self.path]
            case "dataclass":
                self.row.k, self.row.path = value.k, self.path
            case "side":
                return [(SIDE, [value.k, self.path])]
            case _:
                return [(value.k, self.path)]
        return [self.row]


@pytest.mark.parametrize("form", ["tuple", "list", "dict", "dataclass", "side"])
def test_an_object_that_is_kept_and_changed(run: Any, form: str) -> None:
    side = {"side_outputs": {"side": PATHS}} if form == "side" else {}
    outputs = run(Keeps(form), PATHS, **side).feed(("a", 1), ("b", 2), ("a", 3))
    rows = outputs["side" if form == "side" else "main"]
    assert [(row["k"], row["path"]) for row in rows] == [("a", [1]), ("b", [1, 2]), ("a", [1, 2, 3])]


class Reuses(KeyedProcessFunction):
    """Emits atoms in a list that it refills, twice for each record."""

    def __init__(self) -> None:
        self.row: list[Any] = [None, None]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for n in (value.n, -value.n):
            self.row[:] = [value.k, n]
            yield self.row

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return self.process_element(ctx, ctx)


@pytest.mark.parametrize("side", [{}, {"side_outputs": {"side": PATHS}}, {"emits_event_time": True}])
def test_a_row_that_is_filled_anew_between_two_yields(run: Any, side: dict[str, Any]) -> None:
    rows = run(Reuses(), **side).feed(("a", 1), ("b", 2))["main"]
    assert [(row["k"], row["n"]) for row in rows] == [("a", 1), ("a", -1), ("b", 2), ("b", -2)]


class AtTimer(KeyedProcessFunction):
    """Emits two rows in one list at a timer, and at the end of the input."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return self._twice(ctx.get_current_key())

    def finish(self) -> Iterator[Any]:
        return self._twice("end")

    def _twice(self, key: str) -> Iterator[Any]:
        row: list[Any] = [key, []]
        for n in (1, 2):
            row[1].append(n)
            yield row


@pytest.mark.parametrize("timed", [False, True])
def test_timers_and_the_end_of_the_input(run: Any, timed: bool) -> None:
    running = run(AtTimer(), PATHS, emits_event_time=timed)
    running.feed(("a", 1))
    fired = running.operator.advance()["main"].to_pydict()["path"]
    assert fired == [[1], [1, 2]]
    assert running.operator.finish()["main"].to_pydict()["path"] == [[1], [1, 2]]


class OfState(KeyedProcessFunction):
    """Adds further elements to a list of a state after it emitted the list, before `update`."""

    def open(self, runtime_context: Any) -> None:
        self.stored = runtime_context.get_list_state(ListStateDescriptor("stored", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        path = list(self.stored)
        yield value.k, path
        path.append(value.n)
        self.stored.update(path)


def test_a_list_of_a_state_that_is_added_to_before_it_is_stored(run: Any) -> None:
    rows = run(OfState(), PATHS).feed(("a", 1), ("a", 2), ("a", 3))["main"]
    assert [row["path"] for row in rows] == [[], [1], [1, 2]]


# Functions of a chain ------------------------------------------------------


class Growing(FlatMapFunction):
    """Emits its own list twice, with another number in it each time."""

    def __init__(self) -> None:
        self.path: list[int] = []

    def flat_map(self, value: Any) -> Iterator[Any]:
        for n in (value.n, -value.n):
            self.path.append(n)
            yield self.path


def spoiled(path: list[int]) -> list[int]:
    path.append(100)
    return path


def test_what_a_chained_function_changes_the_one_upstream_does_not_see(run: Any) -> None:
    chain = ChainAdapter([FlatMapAdapter(Growing()), MapAdapter(spoiled), MapAdapter(lambda path: ("a", path))])
    rows = run(chain, PATHS).feed(("a", 1), ("a", 2))["main"]
    assert [row["path"] for row in rows] == [[1, 100], [1, -1, 100], [1, -1, 2, 100], [1, -1, 2, -2, 100]]


def test_the_last_function_of_a_chain_may_go_on_to_change_what_it_gave(run: Any) -> None:
    class Last(FlatMapFunction):
        def flat_map(self, value: Any) -> Iterator[Any]:
            row: list[Any] = ["a", []]
            for n in (value, -value):
                row[1].append(n)
                yield row

        def finish(self) -> Iterator[Any]:
            return self.flat_map(9)

    running = run(ChainAdapter([MapAdapter(lambda r: r.n), FlatMapAdapter(Last())]), PATHS)
    assert [row["path"] for row in running.feed(("a", 1))["main"]] == [[1], [1, -1]]
    assert running.operator.finish()["main"].to_pydict()["path"] == [[9], [9, -9]]


# Windows ------------------------------------------------------------------------------------------------------


class OfWindow(ProcessWindowFunction):
    """Emits one list twice, changed in between, and changes the elements."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        given: list[Any] = [key, []]
        for element in elements:
            element[1].append(0)
            given[1].append(len(element[1]))
            yield given


@pytest.mark.parametrize("evicts", [False, True])
def test_rows_and_elements_of_windows(evicts: bool) -> None:
    stream = windowed_harness(TumblingEventTimeWindows.of(Time.milliseconds(10)), "k", PATHS)
    if evicts:
        stream = stream.evictor(CountEvictor.of(2))
    with stream.process(OfWindow(), PATHS) as running:
        running.process_elements([("a", [1]), ("a", [2])], [1, 2])
        running.process_watermark(20)
        assert [row[1] for row in running.extract_output_values()] == [[2], [2, 2]]
