"""Shipped test equipment: the harness for functions, conformance suites, the reference model, the simulator."""

from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.operator_state import OperatorSubtaskState, repackage_state

__all__ = ["KeyedOneInputStreamOperatorTestHarness", "OperatorSubtaskState", "repackage_state"]
