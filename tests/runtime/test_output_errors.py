"""A row that the declared output does not admit: the error names operator, output, field and value."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, OutputTag
from state_engine.runtime.failures import OperatorFailure

LATE = OutputTag("late", "n tinyint")


class Returning(KeyedProcessFunction):
    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        return self.make(value)  # type: ignore[no-any-return]


WRONG: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "too many fields": (lambda r: [(r.k, r.n, 1)], ["'main'", "3 fields for 2", "struct<k:string,n:bigint>"]),
    "too few fields": (lambda r: [(r.k,)], ["'main'", "1 fields for 2"]),
    "an empty row": (lambda r: [()], ["'main'", "0 fields for 2"]),
    "wrong type": (lambda r: [(r.k, "one")], ["'main'", "field 'n'", "'one' (str) is not bigint"]),
    "unknown field": (lambda r: [{"k": r.k, "m": 1}], ["'main'", "unknown fields ['m']"]),
    "a null row": (lambda r: [None], ["'main'", "None (NoneType)"]),
    "not a row": (lambda r: [5], ["'main'", "5 (int)"]),
    "one row instead of rows": (lambda r: (r.k, r.n), ["'main'", "'a' (str)"]),
    "one dict instead of rows": (lambda r: {"k": r.k, "n": r.n}, ["'main'", "'k' (str)"]),
    "wrong value at a side output": (lambda r: [(LATE, (300,))], ["'late'", "field 'n'", "300 (int) is not tinyint"]),
    "a tag with two rows": (lambda r: [(LATE, (1,), (2,))], ["'late'", "pair of tag and row"]),
    "a tag alone": (lambda r: [(LATE,)], ["'late'", "pair of tag and row"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows(run: Any, case: str) -> None:
    make, named = WRONG[case]
    with pytest.raises(OperatorFailure) as failed:
        run(Returning(make), side_outputs={"late": "n tinyint"}).feed(("a", 1))
    failure = failed.value.failure
    assert (failure.kind, failure.uid, failure.subtask) == ("output_type", "op", 0)
    for text in ["'op'", *named]:
        assert text in failure.message
    assert failure.record
    assert failure.action


def test_the_record_is_the_wrong_row(run: Any) -> None:
    with pytest.raises(OperatorFailure) as failed:
        run(Returning(lambda r: [(r.k, r.n if r.n < 3 else "x")])).feed(("a", 1), ("b", 2), ("c", 3))
    assert failed.value.failure.record == "('c', 'x')"
