"""Accumulators that grow in place: how often they are copied, and that a sealed one belongs to the state alone."""

import copy
from typing import Any

import pytest

from state_engine.api import AggregatingStateDescriptor, ReducingStateDescriptor, StateTtlConfig, Time
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.testing.state_folding_suite import Collecting
from state_engine.testing.state_harness import StateHarness
from state_engine.testing.state_ttl_cases import with_ttl


class Watched(Collecting):
    """Records the accumulators that it gets; a dict uses the value as a key."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.seen: list[Any] = []

    def create_accumulator(self) -> Any:
        return self.kind()

    def add(self, value: Any, accumulator: Any) -> Any:
        self.seen.append(accumulator)
        if isinstance(accumulator, dict):
            accumulator[value] = value
        else:
            accumulator.append(value)
        return accumulator


CONFIGS = [None, StateTtlConfig.new_builder(Time.hours(1)).build()]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("hint", "kind"), [("array<int>", list), ("map<int,int>", dict)])
def test_an_accumulator_that_grows_is_copied_once_per_epoch(
    hint: str, kind: type, config: StateTtlConfig | None
) -> None:
    function, harness = Watched(kind), StateHarness(HeapKeyedStateBackend)
    descriptor = with_ttl(AggregatingStateDescriptor("m", function, hint), config)
    epochs = []
    for _ in range(2):
        function.seen.clear()
        for value in range(9):
            harness.state(descriptor).add(value)
        epochs.append(list(function.seen))
        harness.seal()
    assert len({id(one) for one in epochs[0]}) == 2, "the new one, then the state's own"
    assert len({id(one) for one in epochs[1]}) == 1
    assert epochs[0][-1] is not epochs[1][0], "a sealed epoch is not changed in place"


@pytest.mark.parametrize("config", CONFIGS)
def test_a_reduced_list_that_grows_is_not_copied(config: StateTtlConfig | None) -> None:
    seen: list[Any] = []

    def extend(one: Any, other: Any) -> Any:
        seen.append(one)
        one.extend(other)
        return one

    descriptor = with_ttl(ReducingStateDescriptor("r", extend, "array<string>"), config)
    state = StateHarness(HeapKeyedStateBackend).state(descriptor)
    for value in "abcd":
        state.add([value])
    assert len({id(one) for one in seen}) == 1
    assert state.get() == ["a", "b", "c", "d"]


def test_rows_in_a_list_that_grows_are_rows_at_once() -> None:
    descriptor = AggregatingStateDescriptor("m", Collecting(), "array<struct<n:int>>")
    state = StateHarness(HeapKeyedStateBackend).state(descriptor)
    for n in range(3):
        state.add((n,))
    assert [row.n for row in state.get()] == [0, 1, 2]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("hint", "kind"), [("array<int>", list), ("map<int,int>", dict)])
def test_an_accumulator_that_a_function_kept_does_not_change_what_is_sealed(
    hint: str, kind: type, config: StateTtlConfig | None
) -> None:
    """A restart would not know of such a change: it is in no log."""
    function, harness = Watched(kind), StateHarness(HeapKeyedStateBackend)
    descriptor = with_ttl(AggregatingStateDescriptor("m", function, hint), config)
    for value in range(3):
        harness.state(descriptor).add(value)
    sealed = copy.deepcopy(harness.state(descriptor).get())
    harness.seal()
    for kept in function.seen:
        kept.clear()
    assert harness.state(descriptor).get() == sealed
