"""What reducing and aggregating state must do: a part of `StateSuite`."""

from collections.abc import Callable
from typing import Any

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ReduceFunction,
    ReducingStateDescriptor,
    Types,
)
from state_engine.testing.state_harness import At, same
from state_engine.testing.state_log_suite import StateLogSuite


class Adding(ReduceFunction):
    """Adds two numbers."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Mean(AggregateFunction):
    """Computes the mean of all added values; the accumulator is (sum, count)."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Collecting(Mean):
    """Keeps all values in an accumulator that it changes in place, and returns this accumulator as the result."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Last(Collecting):
    """Keeps the list that was added last, without a copy."""

    def __init__(self) -> None:
        self.shared: list[int] = []

    def add(self, value: Any, accumulator: Any) -> Any:
        return value


class OneForAll(Last):
    """Returns the same list as every new accumulator."""

    def create_accumulator(self) -> Any:
        return self.shared

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.extend(value)
        return accumulator


class FoldingStateSuite(StateLogSuite):
    """Tests of reducing and aggregating state."""

    def test_reducing_is_none_before_the_first_add(self) -> None:
        descriptor = ReducingStateDescriptor("r", Adding(), int)
        self.harness().everywhere(descriptor, lambda at: same(at("a").get(), None))

    def test_reducing_adds_up_over_epochs(self) -> None:
        functions: list[ReduceFunction | Callable[[Any, Any], Any]] = [Adding(), lambda a, b: a + b]
        for function in functions:
            descriptor, harness = ReducingStateDescriptor("r", function, int), self.harness()
            harness.state(descriptor).add(1)
            harness.state(descriptor).add(2)
            harness.seal()
            harness.state(descriptor).add(4)
            harness.everywhere(descriptor, lambda at: same(at("a").get(), 7))

    def test_reducing_starts_again_after_clear(self) -> None:
        descriptor, harness = ReducingStateDescriptor("r", Adding(), int), self.harness()
        harness.state(descriptor).add(1)
        harness.seal()
        harness.state(descriptor).clear()
        assert harness.state(descriptor).get() is None
        harness.state(descriptor).add(5)
        harness.everywhere(descriptor, lambda at: same(at("a").get(), 5))

    def test_reducing_values_that_can_change_are_copies(self) -> None:
        descriptor, harness = ReducingStateDescriptor("r", Adding(), "array<int>"), self.harness()
        given = [1]
        harness.state(descriptor).add(given)
        given.append(2)

        def spoil(at: At) -> None:
            at("a").get().append(3)
            same(at("a").get(), [1])

        harness.everywhere(descriptor, spoil)

    def test_aggregating_gives_the_result_of_the_accumulator(self) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        descriptor, harness = AggregatingStateDescriptor("m", Mean(), accumulator), self.harness()
        assert harness.state(descriptor).get() is None
        harness.state(descriptor).add(1)
        harness.state(descriptor).add(2)
        harness.seal()
        harness.state(descriptor).add(6)
        harness.everywhere(descriptor, lambda at: same(at("a").get(), 3.0))
        harness.state(descriptor).clear()
        harness.everywhere(descriptor, lambda at: same(at("a").get(), None))

    def test_aggregating_accumulators_that_change_in_place(self) -> None:
        descriptor, harness = AggregatingStateDescriptor("m", Collecting(), "array<int>"), self.harness()
        harness.state(descriptor).add(1)
        harness.seal()
        harness.state(descriptor).add(2)

        def spoil(at: At) -> None:
            at("a").get().append(3)
            same(at("a").get(), [1, 2])

        harness.everywhere(descriptor, spoil)

    def test_aggregating_accumulators_that_somebody_else_holds(self) -> None:
        functions: list[tuple[Last, list[int]]] = [(Last(), [1, 2]), (OneForAll(), [1, 1, 2])]
        for function, both in functions:
            descriptor, harness = AggregatingStateDescriptor("m", function, "array<int>"), self.harness()
            given = [1]
            for expected in ([1], both):
                harness.state(descriptor).add(given)
                given.append(2)
                function.shared.append(3)
                harness.everywhere(descriptor, lambda at, expected=expected: same(at("a").get(), expected))  # type: ignore[misc]

    def test_aggregating_changes_nothing_that_was_not_sealed(self) -> None:
        descriptor, harness = AggregatingStateDescriptor("m", Collecting(), "array<int>"), self.harness()
        harness.state(descriptor).add(1)
        harness.seal()
        harness.state(descriptor).add(2)
        harness.backend.forget()
        harness.everywhere(descriptor, lambda at: same(at("a").get(), [1]))


__all__ = ["Adding", "Collecting", "FoldingStateSuite", "Last", "Mean", "OneForAll"]
