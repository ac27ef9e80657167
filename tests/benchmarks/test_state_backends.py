from pathlib import Path

import pytest

from benchmarks.data import same_tables
from benchmarks.model import CONTENDERS, STATE_BACKENDS, STORES, Case
from benchmarks.state_backend_engine import run, truth
from benchmarks.state_backends import EPOCHS, SHAPES, TOUCHED, cases
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
    made = cases(tmp_path, [100, 1_000], ["value", "list"])

    assert [(case.engine, case.keys) for case in made] == [
        (engine, keys)
        for keys in (100, 1_000)
        for engine in ("value/heap", "value/rocksdb", "list/heap", "list/rocksdb", "value/dict")
    ]
    assert {case.epoch_records for case in made} == {TOUCHED}
    assert {case.epochs for case in made} == {EPOCHS}


def test_a_round_without_rocksdb_still_has_the_bare_dict(tmp_path: Path) -> None:
    made = cases(tmp_path, [100], ["value", "list"], ["heap"])

    assert [case.engine for case in made] == ["value/heap", "list/heap", "value/dict"]


def test_thresholds_name_what_there_is() -> None:
    labels = {engine.label for engine in CONTENDERS.values()}
    ratios = [ratio for ratio in load().ratio if ratio.workload == STATE_BACKENDS]

    assert {ratio.of for ratio in ratios} >= {f"lakestate/{shape}/rocksdb" for shape in SHAPES}
    assert all({ratio.of, ratio.to} <= labels for ratio in ratios)
