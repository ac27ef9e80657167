"""Shipped test tools: the harness for functions, conformance suites, the reference model, the simulator."""

from state_engine.testing.broadcast_harness import KeyedBroadcastOperatorTestHarness
from state_engine.testing.join_harness import interval_join_harness, temporal_join_harness
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.operator_state import OperatorSubtaskState, repackage_state
from state_engine.testing.restorable import check_restorable
from state_engine.testing.two_input_harness import KeyedTwoInputStreamOperatorTestHarness
from state_engine.testing.window_harness import windowed_harness

__all__ = [
    "KeyedBroadcastOperatorTestHarness",
    "KeyedOneInputStreamOperatorTestHarness",
    "KeyedTwoInputStreamOperatorTestHarness",
    "OperatorSubtaskState",
    "check_restorable",
    "interval_join_harness",
    "repackage_state",
    "temporal_join_harness",
    "windowed_harness",
]
