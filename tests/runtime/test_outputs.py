"""What a function may return, and to which output it goes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, OutputTag, ProcessFunction, Row


class Returning(KeyedProcessFunction):
    """Returns the result of a function of the record."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self.make(value)  # type: ignore[no-any-return]


class Yielding(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        for number in range(value.n):
            yield value.k, number


@dataclass
class Out:
    n: int
    k: str


ROWS = [{"k": "a", "n": 1}]


@pytest.mark.parametrize(
    "make",
    [
        lambda r: [(r.k, r.n)],
        lambda r: ((r.k, r.n),),
        lambda r: [[r.k, r.n]],
        lambda r: [r],
        lambda r: [Row(r.k, r.n)],
        lambda r: [Row(n=r.n, k=r.k)],
        lambda r: [{"n": r.n, "k": r.k}],
        lambda r: [Out(k=r.k, n=r.n)],
        lambda r: iter([(r.k, r.n)]),
        lambda r: (row for row in [(r.k, r.n)]),
    ],
)
def test_rows_of_any_form(run: Any, make: Callable[[Any], Any]) -> None:
    assert run(Returning(make)).feed(("a", 1)) == {"main": ROWS}


@pytest.mark.parametrize("make", [lambda r: None, lambda r: [], lambda r: (), lambda r: iter(())])
def test_no_rows(run: Any, make: Callable[[Any], Any]) -> None:
    assert run(Returning(make)).feed(("a", 1)) == {}


def test_a_generator_is_drained_before_the_next_record(run: Any) -> None:
    outputs = run(Yielding()).feed(("a", 2), ("b", 0), ("c", 1))
    assert [(r["k"], r["n"]) for r in outputs["main"]] == [("a", 0), ("a", 1), ("c", 0)]


def test_a_batch_without_records(run: Any) -> None:
    assert run(Yielding()).feed() == {}


def test_fields_that_a_dict_leaves_out_are_null(run: Any) -> None:
    assert run(Returning(lambda r: [{"k": r.k}])).feed(("a", 1)) == {"main": [{"k": "a", "n": None}]}


LATE, UNREAD = OutputTag("late", "n bigint"), OutputTag("unread", "x string")


def test_side_outputs_that_are_read(run: Any) -> None:
    running = run(
        Returning(lambda r: [(LATE, (r.n,)), (r.k, r.n), (LATE, {"n": 7})]), side_outputs={"late": "n bigint"}
    )
    assert running.feed(("a", 1)) == {"main": ROWS, "late": [{"n": 1}, {"n": 7}]}


def test_side_outputs_that_are_not_read_are_dropped_unchecked(run: Any) -> None:
    assert run(Returning(lambda r: [(UNREAD, object()), (r.k, r.n)])).feed(("a", 1)) == {"main": ROWS}
    assert run(Returning(lambda r: [(UNREAD, object())])).feed(("a", 1)) == {}


def test_a_tag_without_columns_emits_to_the_one_that_is_read(run: Any) -> None:
    running = run(Returning(lambda r: [(OutputTag("late"), (r.n,))]), side_outputs={"late": "n bigint"})
    assert running.feed(("a", 1)) == {"late": [{"n": 1}]}


def test_a_function_without_keys(run: Any) -> None:
    class Doubling(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            return [(value.k, 2 * value.n), (LATE, (value.n,))]

    running = run(Doubling(), side_outputs={"late": "n bigint"})
    assert running.feed((None, 2)) == {"main": [{"k": None, "n": 4}], "late": [{"n": 2}]}
