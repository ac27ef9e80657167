from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import same_tables
from benchmarks.model import CONTENDERS, STATE_BACKENDS, STORES, Case
from benchmarks.state_backend_engine import run, touched, truth
from benchmarks.state_backends import EPOCHS, SHAPES, TOUCHED, cases, loads
from benchmarks.steady import steady_part
from benchmarks.thresholds import load


@pytest.mark.parametrize("engine", STORES)
def test_every_shape_in_every_backend_ends_with_the_sums_that_numpy_makes(engine: str, tmp_path: Path) -> None:
    case = Case(
        workload=STATE_BACKENDS,
        engine=engine,
        key_type="int",
        keys=300,
        epochs=6,
        epoch_records=70,
        files_per_epoch=0,
        parallelism=1,
        inputs="",
        work=str(tmp_path),
    )
    outcome = run(case)

    assert same_tables(outcome.final, truth(case))
    assert steady_part(outcome.ends).epochs == 4


def test_a_round_runs_the_backends_in_turn(tmp_path: Path) -> None:
    made = cases(tmp_path, [30_000, 100_000], ["value", "list"])

    assert [(case.engine, case.keys) for case in made] == [
        (engine, keys)
        for keys in (30_000, 100_000)
        for engine in ("value/heap", "value/rocksdb", "list/heap", "list/rocksdb", "value/dict")
    ]
    assert {case.epoch_records for case in made} == {TOUCHED}
    assert {case.epochs for case in made} == {EPOCHS}


def test_a_round_without_rocksdb_still_has_the_bare_dict(tmp_path: Path) -> None:
    made = cases(tmp_path, [100], ["value", "list"], ["heap"])

    assert [case.engine for case in made] == ["value/heap", "list/heap", "value/dict"]


def test_fewer_keys_are_compared_with_the_most_in_epochs_that_touch_the_same_number(tmp_path: Path) -> None:
    made = cases(tmp_path, [10_000, 15_000, 100_000, 10_000_000], ["value"], ["heap"])

    assert [(case.keys, case.epoch_records) for case in made if case.engine == "value/heap"] == [
        (10_000, 10_000),
        (15_000, 10_000),
        (10_000_000, 10_000),
        (100_000, TOUCHED),
        (10_000_000, TOUCHED),
    ]
    assert len({case.work for case in made}) == len(made)
    assert loads([50]) == [(50, 50)]


@pytest.mark.parametrize("keys", [10_000, 100_000, 10_000_000])
def test_an_epoch_touches_each_of_its_keys_once(keys: int, tmp_path: Path) -> None:
    for case in cases(tmp_path, [10_000, keys], ["value"], ["heap"]):
        for epoch in range(case.epochs):
            assert len(np.unique(touched(case, epoch))) == case.epoch_records


def test_growth_is_asked_from_ten_thousand_keys_to_ten_million() -> None:
    growths = [one for one in load().growth if one.workload == STATE_BACKENDS and one.few == 10_000]

    assert {one.of for one in growths} == {f"lakestate/{shape}/heap" for shape in SHAPES}
    assert {(one.many, one.at_most, one.beyond) for one in growths} == {(10_000_000, 1.3, "lakestate/value/dict")}


def test_thresholds_name_what_there_is() -> None:
    labels = {engine.label for engine in CONTENDERS.values()}
    ratios = [ratio for ratio in load().ratio if ratio.workload == STATE_BACKENDS]

    assert {ratio.of for ratio in ratios} >= {f"lakestate/{shape}/rocksdb" for shape in SHAPES}
    assert all({ratio.of, ratio.to} <= labels for ratio in ratios)
