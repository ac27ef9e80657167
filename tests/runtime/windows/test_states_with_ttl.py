"""Merging what states hold under several windows, where some of it has expired (Flink: testMergeNamespaces)."""

from typing import Any

from state_engine.api import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
)
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import Namespaced
from state_engine.runtime.windows.states import merge_entries
from state_engine.testing.state_folding_suite import Adding
from state_engine.testing.state_harness import StateHarness
from state_engine.testing.state_ttl_cases import TTL, after, with_ttl

CONFIG = StateTtlConfig.new_builder(Time.milliseconds(TTL)).build()


def merged(descriptor: Any) -> Any:
    """Adds 1 to three windows at 0 ms, 10 to two at 120, 100 to one at 150, and merges them into another at 230."""
    harness = after(StateHarness(HeapKeyedStateBackend), 0)
    for ms, number, windows in [(0, 1, ["w1", "w2", "w3"]), (120, 10, ["w1", "w2"]), (150, 100, ["w2"])]:
        for window in windows:
            after(harness, ms).state(descriptor, "a", window).add(number)
        harness.seal()
    state = after(harness, 230).state(descriptor, "a", "target")
    merge_entries(state, harness.context, harness.context.entry, [Namespaced("a", w) for w in ("w1", "w2", "w3")])
    found = state.get()
    harness.seal()
    assert {row["namespace"] for row in harness.folded(descriptor).to_pylist()} == {"target"}
    return found


def test_a_list_is_merged_without_what_has_expired() -> None:
    assert list(merged(with_ttl(ListStateDescriptor("s", Types.LONG()), CONFIG))) == [100]


def test_a_reducing_state_is_merged_without_what_has_expired() -> None:
    assert merged(with_ttl(ReducingStateDescriptor("s", Adding(), Types.LONG()), CONFIG)) == 110
