"""The fraud function, bare and as an operator, gives what the example's recount gives."""

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.data import same_tables
from benchmarks.fraud import bare, operator
from benchmarks.fraud.inputs import read
from benchmarks.fraud.measure import STREAMS, Plan, cases, truth
from benchmarks.fraud.results import MORE_OUTPUTS, expected
from benchmarks.model import FRAUD_ENGINES, Case

ALONE = tuple(name for name in FRAUD_ENGINES if name not in STREAMS)
SMALL = Plan(cards=60, alone=2_000, epochs=5, streams=(700,))


@pytest.fixture(scope="module")
def of_engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("fraud")
    return {case.engine: case for case in cases(SMALL._replace(engines=ALONE), folder, 1)}


@pytest.mark.parametrize("engine", ALONE)
def test_results_are_those_of_the_recount(of_engines: dict[str, Case], engine: str) -> None:
    case = of_engines[engine]
    Path(case.work).mkdir(parents=True)
    module = bare if engine.startswith("fraud/bare") else operator
    outcome = module.run(case)
    assert len(outcome.ends) == 5
    assert outcome.ends == sorted(outcome.ends)
    assert same_tables(outcome.final, truth(case))
    less = {**outcome.final, "recent": outcome.final["recent"].slice(1)}
    assert not same_tables(less, truth(case))


def test_the_recount_has_rows_of_each_kind(of_engines: dict[str, Case]) -> None:
    right = expected(Path(of_engines["fraud/bare"].inputs))
    assert {name for name, rows in right.items() if not rows.num_rows} <= {"late_alerts"}
    assert not same_tables({**right, "late": right["late"].slice(1)}, right)
    assert set(MORE_OUTPUTS) < set(right)


def test_records_come_by_epoch_in_order_of_event_time(of_engines: dict[str, Case]) -> None:
    batches = list(read(Path(of_engines["fraud/bare"].inputs)))
    assert [batch.num_rows for batch in batches] == [2_000] * 5
    for batch in batches:
        times = batch.columns[-1].to_pylist()
        assert times == sorted(times)
    ids = pa.concat_arrays([batch["id"] for batch in batches]).drop_null().to_pylist()
    assert len(ids) == len(set(ids))


def test_streams_run_at_each_size_and_the_others_once(tmp_path: Path) -> None:
    plan = SMALL._replace(streams=(200, 300), epochs=5)
    assert [(case.engine, case.epoch_records, case.parallelism) for case in cases(plan, tmp_path, 1)] == [
        *((engine, 2_000, 1) for engine in ALONE),
        *((engine, size, 2) for size in (200, 300) for engine in STREAMS),
    ]
