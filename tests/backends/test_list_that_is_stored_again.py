"""A function reads a list, changes it and stores it: what is new is converted, wherever it is."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from state_engine.api import ListStateDescriptor, Row, Types
from state_engine.testing.operator_backends import HarnessBackends
from state_engine.testing.state_harness import StateHarness

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
ROWS = ListStateDescriptor("rows", Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.BIG_DEC(8, 2)]))


@pytest.fixture(params=["heap", "rocksdb"])
def harness(request: pytest.FixtureRequest) -> Iterator[StateHarness]:
    backends = HarnessBackends(request.param, "job")
    harness = StateHarness(backends.make)
    yield harness
    harness.backend.close()


def read(harness: StateHarness, descriptor: ListStateDescriptor, key: str = "a") -> list[Any]:
    return list(harness.state(descriptor, key).get())


@pytest.mark.parametrize("sealed", [False, True])
def test_new_elements_are_converted_wherever_they_are(harness: StateHarness, sealed: bool) -> None:
    harness.state(NUMBERS).add_all([1, 2, 3])
    if sealed:
        harness.seal()
    before = read(harness, NUMBERS)
    harness.state(NUMBERS).update([np.int64(7), *before[1:], np.int64(8), True, before[0]])
    after = read(harness, NUMBERS)
    assert list(map(type, after)) == [int, int, int, int, bool, int]  # the writer refuses the bool
    assert after == [7, 2, 3, 8, True, 1]


def test_elements_of_one_key_are_stored_for_another(harness: StateHarness) -> None:
    harness.state(ROWS).add(Row(a=2, b=3))
    harness.seal()
    before = read(harness, ROWS)
    harness.state(ROWS, "b").update([*before, (np.int64(4), 5)])
    for _ in range(2):
        assert list(map(str, read(harness, ROWS, "b"))) == [
            "Row(a=2, b=Decimal('3.00'))",
            "Row(a=4, b=Decimal('5.00'))",
        ]
        harness.seal()


def test_a_generator_over_the_state_is_stored(harness: StateHarness) -> None:
    harness.state(NUMBERS).add_all(range(5))
    state = harness.state(NUMBERS)
    state.update(number * 10 for number in state.get() if number % 2)
    assert read(harness, NUMBERS) == [10, 30]


def test_a_generator_is_stored_in_a_list_that_was_not_read(harness: StateHarness) -> None:
    harness.state(NUMBERS).update(number for number in range(3))
    harness.state(ROWS).update(Row(a=number, b=1) for number in range(2))
    assert read(harness, NUMBERS) == [0, 1, 2]
    assert [row.a for row in read(harness, ROWS)] == [0, 1]
