from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import read_inputs
from benchmarks.model import LARGE_EPOCHS, SMALL_EPOCHS, Case
from benchmarks.processes import Sample
from benchmarks.runner import Run
from benchmarks.state_sizes import LARGE, SMALL, Epochs, cases, key_numbers, loading, measure, row
from benchmarks.steady import warm_up_epochs

FEW = LARGE._replace(records=2_000, touched=300, least=20)
of_each = pytest.mark.parametrize("epochs", [SMALL, LARGE], ids=lambda epochs: epochs.workload)


@of_each
@pytest.mark.parametrize("keys", [1, 10_000, 1_000_000, 1_000_001, 10_000_000, 100_000_000])
def test_epochs_that_bring_keys_do_not_count(epochs: Epochs, keys: int) -> None:
    assert loading(keys) <= warm_up_epochs(epochs.over(keys)) < epochs.over(keys)


@of_each
def test_states_of_usual_sizes_have_the_same_number_of_epochs(epochs: Epochs) -> None:
    assert {epochs.over(keys) for keys in (10_000, 1_000_000, 10_000_000)} == {epochs.least}


def test_every_key_comes_before_any_comes_again() -> None:
    first, *others = key_numbers(SMALL, 5_000)

    assert sorted(first) == list(range(5_000))
    assert {len(one) for one in others} == {SMALL.records}
    assert len(others) == SMALL.least - 1
    assert np.ptp(np.concatenate(others)) > 4_900


@pytest.mark.parametrize("keys", [300, 50_000])
def test_large_epochs_touch_the_same_number_of_keys_of_few_and_of_many(keys: int) -> None:
    first, *others = key_numbers(FEW, keys)

    assert sorted(first) == list(range(keys))
    assert {len(one) for one in others} == {2_000}
    touched = [set(one.tolist()) for one in others]
    assert all(290 < len(one) <= 300 for one in touched), "except for the few that no record draws"
    assert all(max(one) - min(one) > 0.95 * keys for one in touched)
    assert keys == 300 or not touched[0] & touched[1]


def of(case: Case, counts: pa.Table) -> Run:
    samples = [Sample(0.0, 0.0, 1, {}), Sample(float(case.epochs), 1.0, 1, {})]
    return Run(case, [float(end) for end in range(case.epochs)], samples, {"count": counts})


@pytest.mark.parametrize(("epochs", "name"), [(SMALL, SMALL_EPOCHS), (FEW, LARGE_EPOCHS)])
def test_a_row_is_one_of_its_workload(epochs: Epochs, name: str, tmp_path: Path) -> None:
    [case, *_] = cases(epochs, tmp_path, [2_000], epochs.engines, 1)
    counts = read_inputs(Path(case.inputs)).group_by("k").aggregate([((), "count_all")]).rename_columns(["k", "n"])

    right = row(epochs, of(case, counts))
    wrong = row(epochs, of(case, counts.slice(1)))

    assert (right.workload, right.keys, right.epoch_records) == (name, 2_000, epochs.records)
    assert right.records == 2_000 + (epochs.least - 1) * epochs.records
    assert right.records_per_second == epochs.records  # an epoch a second
    assert (right.results_equal, wrong.results_equal) == (True, False)


def test_backends_take_turns(tmp_path: Path) -> None:
    made = list(cases(SMALL, tmp_path, [100, 300], SMALL.engines, 1))

    assert [(case.keys, case.engine) for case in made] == [(keys, e) for keys in (100, 300) for e in SMALL.engines]
    assert len({case.work for case in made}) == 2 * len(SMALL.engines)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("epochs", "labels"), [
    (SMALL._replace(least=6), ["lakestate/row", "lakestate/row/rocksdb", "lakestate/row/files"]),
    (FEW._replace(least=6), ["lakestate/row", "lakestate/row/rocksdb", "lakestate/vectorised", "lakestate/declared"]),
])  # fmt: skip
def test_lakestate_arrives_at_what_is_right(epochs: Epochs, labels: list[str], tmp_path: Path) -> None:
    report = measure(epochs, tmp_path, lambda _: None, [3_000], epochs.engines)

    assert report.failures == []
    assert [(one.label, one.results_equal) for one in report.results] == [(label, True) for label in labels]
