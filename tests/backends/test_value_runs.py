"""Runs of values equal a dict by number, whatever is put and removed."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyCodec
from state_engine.backends.stores import value_runs
from state_engine.backends.stores.value_runs import Run, ValueRuns
from state_engine.serialization.types import parse_columns

CHANGES = st.lists(st.dictionaries(st.integers(0, 12), st.none() | st.integers(0, 99), max_size=13), max_size=30)


@pytest.mark.parametrize("most", [1 << 30, 100, 0])
@given(CHANGES, st.lists(st.integers(0, 14), unique=True, max_size=15), st.integers(0, 30), st.sets(st.integers(0, 12)))
def test_runs_are_values_by_key(
    most: int, changes: list[dict[int, int | None]], wanted: list[int], thinned: int, gone: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_runs, "MOST_BYTES", most)
        compare(changes, wanted, thinned, gone, whole=most > 100)


def compare(
    changes: list[dict[int, int | None]], wanted: list[int], thinned: int, gone: set[int], *, whole: bool
) -> None:
    runs, values = ValueRuns(pa.int64()), dict[int, int]()
    for n, change in enumerate(changes):
        numbers = sorted(change)
        runs.change(Run(np.array(numbers, np.int64), pa.array([change[number] for number in numbers], pa.int64())))
        values = {k: v for k, v in {**values, **change}.items() if v is not None}
        if n == thinned:
            runs.keep(lambda numbers: ~np.isin(numbers, list(gone)))
            values = {number: value for number, value in values.items() if number not in gone}
        assert runs.rows == len(values)
    asked = np.array(sorted(wanted), np.int64)
    assert runs.of(asked).to_pylist() == [values.get(number) for number in sorted(wanted)]
    assert runs.has(asked).tolist() == [number in values for number in sorted(wanted)]
    used = {number for numbers in runs.numbers() for number in numbers.tolist()}
    assert set(values) == used if whole else set(values) <= used


def test_what_an_epoch_puts_is_all_that_it_merges() -> None:
    """A million values are not rewritten for each thousand that are put."""
    runs = ValueRuns(pa.int64())
    runs.change(Run(np.arange(100_000), pa.array(np.arange(100_000))))
    largest = runs._runs[0].values
    for n in range(60):
        runs.change(Run(np.arange(n, n + 100), pa.array(np.arange(100))))
    assert runs._runs[0].values is largest
    assert len(runs._runs) <= np.log2(100_000)
    assert runs.of(np.array([58, 60, 159, 99_999])).to_pylist() == [0, 1, 159, 99_999]


def test_what_is_put_again_and_again_does_not_pile_up_in_runs_too_large_to_merge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_runs, "MOST_BYTES", 8_000)
    runs = ValueRuns(pa.int64())
    for n in range(200):
        runs.change(Run(np.arange(1_100), pa.array(np.full(1_100, n))))
    assert sum(len(run.numbers) for run in runs._runs) <= 3 * (1_100 + 1_000)
    assert (runs.rows, runs.of(np.array([0, 1_099])).to_pylist()) == (1_100, [199, 199])


def test_keys_that_come_epoch_by_epoch_are_numbered_without_those_before_them() -> None:
    numbers = KeyNumbers(KeyCodec(parse_columns("k bigint, t string"), 128))
    for n in range(300):
        assert numbers.of([(n, f"t{n}"), (n // 2, f"t{n // 2}")]).tolist() == [n, n // 2]
    assert len(numbers._parts) <= np.log2(300) + 1
    assert numbers.entries == [(n, f"t{n}") for n in range(300)]
    assert [column.to_pylist() for column in numbers.columns(np.array([299, 0]))] == [[299, 0], ["t299", "t0"]]
    assert len(numbers.groups) == len(numbers) == 300
