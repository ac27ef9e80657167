"""Finds functions that behave differently when created anew, because they keep in fields what is not in their state."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from state_engine.iterating import whole
from state_engine.testing.operator_harness import KeyedOneInputStreamOperatorTestHarness


def check_restorable(
    make_harness: Callable[[], KeyedOneInputStreamOperatorTestHarness], epochs: Sequence[Iterable[Any]]
) -> None:
    """Compares an operator that keeps its instances with one that creates new instances before every epoch.

    In a job both happen, in an unpredictable order: workers rotate, and a restart begins with new instances.

    Args:
        make_harness: Creates a harness; it is called twice.
        epochs: Records of each epoch.

    Raises:
        AssertionError: Output or state differ; the message names the first epoch in which they do.
    """
    with make_harness() as warm, make_harness() as anew:
        for number, records in enumerate([list(whole(records)) for records in epochs], 1):
            results = [_run(harness, records) for harness in (warm, anew)]
            anew.close()
            for what, kept, made in zip(("output", "state"), *results, strict=True):
                assert kept == made, (
                    f"In epoch {number} the {what} of the kept instances is {kept}, that of new instances is "
                    f"{made}: the function keeps in fields what it does not store."
                )


def _run(harness: KeyedOneInputStreamOperatorTestHarness, records: list[Any]) -> tuple[Any, Any]:
    harness.clear_output()
    harness.process_elements(records)
    snapshot = harness.snapshot()
    raw = snapshot.raw_keyed_state(), snapshot.raw_operator_state()
    return harness.extract_output_values(), (snapshot.states(), snapshot.operator_states(), *raw)


__all__ = ["check_restorable"]
