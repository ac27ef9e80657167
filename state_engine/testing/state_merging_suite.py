"""What merging windows require of a keyed state backend: a part of `StateSuite`.

When windows are merged, the contents of their states move to the namespace of one of them. Flink's backends merge
namespaces themselves. Here windows read, clear and add under several namespaces, which each backend must support.
"""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from state_engine.api import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.backends.keys import Namespaced
from state_engine.errors import JobDefinitionError
from state_engine.runtime.windows.states import MergeableAggregatingState, merge_entries
from state_engine.testing.state_folding_suite import Adding, Collecting, Mean
from state_engine.testing.state_harness import StateHarness, refused
from state_engine.testing.state_log_suite import StateLogSuite
from state_engine.testing.state_ttl_cases import after, lives, with_ttl

Placed = dict[str, dict[str, list[int]]]
"""By key and window: the numbers to add."""

NUMBERS: Placed = {
    "in three windows": {"w1": [33, 55], "w2": [22, 11], "w3": [44]},
    "in two of them": {"w1": [11, 44], "w3": [22, 55, 33]},
    "nowhere": {},
    "in the target": {"w1": [11, 22, 33, 44, 55]},
    "in one source": {"w3": [11, 22, 33, 44, 55]},
}


class InPlace(Collecting):
    """Also changes an accumulator in place when it merges."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a.extend(acc_b)
        return acc_a


def _mean(numbers: Sequence[int]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


KINDS: list[tuple[Callable[[], StateDescriptor], Callable[[Any], Any], Callable[[list[int]], Any]]] = [
    (lambda: ListStateDescriptor("s", Types.LONG()), lambda s: list(s.get()), list),
    (lambda: ReducingStateDescriptor("s", Adding(), Types.LONG()), lambda s: s.get(), lambda given: sum(given) or None),
    (
        lambda: AggregatingStateDescriptor("s", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
        lambda s: s.get(),
        _mean,
    ),
    (
        lambda: AggregatingStateDescriptor("s", InPlace(), "array<bigint>"),
        lambda s: s.get(),
        lambda given: given or None,
    ),
]
"""For each kind: creates a descriptor, reads the state, returns the expected result for numbers."""


def _state(harness: StateHarness, descriptor: StateDescriptor) -> Any:
    """Returns the state in the form that windows use."""
    if isinstance(descriptor, AggregatingStateDescriptor):
        context: Any = SimpleNamespace(get_aggregating_state=harness.backend.state)
        return MergeableAggregatingState(context, descriptor)
    return harness.backend.state(descriptor)


def _merge(harness: StateHarness, descriptor: StateDescriptor, key: str, target: str, *sources: str) -> None:
    entries = [Namespaced(key, source) for source in sources]
    merge_entries(_state(harness, descriptor), harness.context, Namespaced(key, target), entries)


def _after_seal(harness: StateHarness) -> StateHarness:
    harness.seal()
    return harness


class MergingStateSuite(StateLogSuite):
    """Tests of list, reducing and aggregating state that moves between namespaces."""

    def test_merge_moves_what_stands_in_any_of_the_namespaces(self) -> None:
        for descriptor, read, expected, harness in self._placed():
            for key in NUMBERS:
                _merge(harness, descriptor, key, "w1", "w2", "w3")
                assert harness.context.entry == Namespaced(key, "w1"), "the target is current"
            for place in (harness, _after_seal(harness), harness.reopened()):
                for key, windows in NUMBERS.items():
                    given = [number for numbers in windows.values() for number in numbers]
                    contents = []
                    for window in ("w1", "w2", "w3"):
                        place.at(key, window)
                        contents.append(read(_state(place, descriptor)))
                    assert contents == [expected(given), expected([]), expected([])], key

    def test_merge_leaves_nothing_once_the_target_is_cleared(self) -> None:
        for descriptor, _, _, harness in self._placed():
            for key in NUMBERS:
                _merge(harness, descriptor, key, "w1", "w2", "w3")
                _state(harness, descriptor).clear()
            harness.seal()
            assert harness.backend.rows == harness.folded(descriptor).num_rows == 0

    def test_merge_of_one_key_leaves_others_alone(self) -> None:
        for descriptor, read, expected, harness in self._placed():
            _merge(harness, descriptor, "in one source", "w1", "w2", "w3")
            harness.at("in three windows", "w3")
            assert read(_state(harness, descriptor)) == expected([44])

    def test_merge_that_was_not_sealed_never_happened(self) -> None:
        for descriptor, read, expected, harness in self._placed():
            _after_seal(harness)
            _merge(harness, descriptor, "in one source", "w1", "w2", "w3")
            harness.backend.freeze(0)
            harness.backend.forget()
            for window, given in [("w1", []), ("w3", NUMBERS["in one source"]["w3"])]:
                harness.at("in one source", window)
                assert read(_state(harness, descriptor)) == expected(given)

    def test_merge_of_values_and_maps_is_refused(self) -> None:
        others: list[StateDescriptor] = [ValueStateDescriptor("v", int), MapStateDescriptor("m", int, int)]
        for other in others:
            harness = self.harness()
            refused(JobDefinitionError, "merge", lambda h=harness, o=other: _merge(h, o, "a", "w1", "w2"))  # type: ignore[misc]

    def test_merge_leaves_out_what_has_expired(self) -> None:
        """Flink: testMergeNamespaces. Each list element has its own time; a folded value has the last one."""
        for (make, read, _), remaining in zip(KINDS, [[100], 110, 55.0, [10, 100]], strict=True):
            for restore in (False, True):
                descriptor = with_ttl(make(), lives().build())
                harness = self._written_at_several_times(descriptor, restore)
                _merge(harness, descriptor, "a", "target", "w1", "w2", "w3")
                assert read(_state(harness, descriptor)) == remaining
                harness.seal()
                assert {row["namespace"] for row in harness.folded(descriptor).to_pylist()} == {"target"}

    def _placed(self) -> Iterator[tuple[StateDescriptor, Any, Any, StateHarness]]:
        """Yields each kind of state with its numbers, in the epoch that wrote them and in the next."""
        for make, read, expected in KINDS:
            for seal in (False, True):
                descriptor, harness = make(), self.harness()
                for key, windows in NUMBERS.items():
                    for window, numbers in windows.items():
                        for number in numbers:
                            harness.at(key, window)
                            _state(harness, descriptor).add(number)
                yield descriptor, read, expected, _after_seal(harness) if seal else harness

    def _written_at_several_times(self, descriptor: StateDescriptor, restore: bool) -> StateHarness:
        """Adds 1 to three windows at 0 ms, 10 to two at 120 ms, 100 to one at 150 ms; then sets the time to 230 ms."""
        harness = after(self.harness(), 0)
        for ms, number, windows in [(0, 1, ["w1", "w2", "w3"]), (120, 10, ["w1", "w2"]), (150, 100, ["w2"])]:
            for window in windows:
                after(harness, ms).at("a", window)
                _state(harness, descriptor).add(number)
            harness.seal()
            harness = harness.reopened() if restore else harness
        return after(harness, 230)


__all__ = ["MergingStateSuite"]
