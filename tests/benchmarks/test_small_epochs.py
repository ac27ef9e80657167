from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import read_inputs
from benchmarks.model import SMALL_EPOCHS, Case
from benchmarks.processes import Sample
from benchmarks.runner import Run
from benchmarks.small_epochs import ENGINES, EPOCHS, RECORDS, cases, epochs_of, key_numbers, loading, measure, small
from benchmarks.steady import warm_up_epochs


@pytest.mark.parametrize("keys", [1, 10_000, 1_000_000, 1_000_001, 10_000_000, 100_000_000])
def test_epochs_that_bring_keys_do_not_count(keys: int) -> None:
    assert loading(keys) <= warm_up_epochs(epochs_of(keys)) < epochs_of(keys)


def test_states_of_usual_sizes_have_as_many_epochs() -> None:
    assert {epochs_of(keys) for keys in (10_000, 1_000_000, 10_000_000)} == {EPOCHS}


def test_every_key_comes_before_any_comes_again() -> None:
    first, *others = key_numbers(5_000)

    assert sorted(first) == list(range(5_000))
    assert {len(one) for one in others} == {RECORDS}
    assert len(others) == EPOCHS - 1
    assert np.ptp(np.concatenate(others)) > 4_900


def of(case: Case, counts: pa.Table) -> Run:
    samples = [Sample(0.0, 0.0, 1, {}), Sample(float(case.epochs), 1.0, 1, {})]
    return Run(case, [float(end) for end in range(case.epochs)], samples, {"count": counts})


def test_a_row_is_one_of_small_epochs(tmp_path: Path) -> None:
    [case, *_] = cases(tmp_path, [2_000], ENGINES, 1)
    counts = read_inputs(Path(case.inputs)).group_by("k").aggregate([((), "count_all")]).rename_columns(["k", "n"])

    row = small(of(case, counts))
    wrong = small(of(case, counts.slice(1)))

    assert (row.workload, row.keys, row.epoch_records) == (SMALL_EPOCHS, 2_000, RECORDS)
    assert row.records == 2_000 + (EPOCHS - 1) * RECORDS
    assert row.records_per_second == RECORDS  # an epoch a second
    assert (row.results_equal, wrong.results_equal) == (True, False)


def test_backends_take_turns(tmp_path: Path) -> None:
    made = list(cases(tmp_path, [100, 300], ENGINES, 1))

    assert [(case.keys, case.engine) for case in made] == [(keys, e) for keys in (100, 300) for e in ENGINES]
    assert len({case.work for case in made}) == 2 * len(ENGINES)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_lakestate_arrives_at_what_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.small_epochs.EPOCHS", 6)

    report = measure(tmp_path, lambda _: None, [3_000], ENGINES)

    assert report.failures == []
    assert [(row.label, row.results_equal) for row in report.results] == [
        ("lakestate/row", True),
        ("lakestate/row/rocksdb", True),
        ("lakestate/row/files", True),
    ]
