"""Results do not depend on where a function was closed, restored or rescaled."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

Make = Callable[..., KeyedOneInputStreamOperatorTestHarness]
Record = tuple[str | None, int]
KEYS = st.one_of(st.none(), st.text("abcdefgh", min_size=1, max_size=2))
RECORDS = st.lists(st.tuples(KEYS, st.integers(-1, 3)), max_size=20)


def undisturbed(everything: Make, *epochs: Sequence[Record]) -> tuple[Counter[Any], dict[str, Any]]:
    with everything() as harness:
        for records in epochs:
            harness.process_elements(records)
        return Counter(harness.extract_output_values()), harness.snapshot().states()


@settings(max_examples=settings.default.max_examples // 4)
@given(st.lists(st.tuples(st.integers(1, 13), RECORDS), min_size=1, max_size=4))
def test_restored_at_any_parallelism(everything: Make, epochs: list[tuple[int, list[Record]]]) -> None:
    totals: Counter[Any] = Counter()
    harness = everything(max_parallelism=13)
    for parallelism, records in epochs:
        snapshot = harness.snapshot()
        harness = everything(parallelism=parallelism, max_parallelism=13)
        harness.initialize_state(snapshot)
        harness.process_elements(records)
        totals.update(harness.extract_output_values())
    expected, states = undisturbed(everything, *(records for _, records in epochs))
    assert totals == expected
    assert harness.snapshot().states() == states


@settings(max_examples=settings.default.max_examples // 4)
@given(RECORDS, RECORDS, RECORDS)
def test_one_to_three_to_two(everything: Make, first: list[Record], second: list[Record], third: list[Record]) -> None:
    one, three, two = everything(), everything(parallelism=3), everything(parallelism=2)
    one.process_elements(first)
    three.initialize_state(one.snapshot())
    three.process_elements(second)
    two.initialize_state(three.snapshot())
    two.process_elements(third)
    expected, states = undisturbed(everything, first, second, third)
    assert sum((Counter(h.extract_output_values()) for h in (one, three, two)), Counter()) == expected
    assert two.snapshot().states() == states
