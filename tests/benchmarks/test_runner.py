from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app, count
from benchmarks.data import checks_of_counts, write_epoch
from benchmarks.flink_engine import epoch_ends, wrapped
from benchmarks.model import Case, Result
from benchmarks.processes import MIB, Sample
from benchmarks.runner import EngineFailedError, Run, middle, result_of, run_case
from benchmarks.running_count import Plan, cases
from benchmarks.worker_memory import heaviest_worker_mb

TRUTH = pa.table({"k": [1], "n": [50]})


def case(work: Path, **changes: object) -> Case:
    fields: dict[str, object] = {
        "workload": "running_count",
        "engine": "groupBy",
        "key_type": "int",
        "keys": 5,
        "epochs": 5,
        "epoch_records": 1_000_000,
        "files_per_epoch": 2,
        "parallelism": 2,
        "inputs": str(work / "missing"),
        "work": str(work / "work"),
    }
    return Case(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_row_measures_the_steady_part_only(tmp_path: Path) -> None:
    samples = [Sample(0.0, 0.0, 900 * MIB, {}), Sample(10.0, 40.0, 100 * MIB, {}), Sample(18.0, 48.0, 100 * MIB, {})]
    run = Run(case(tmp_path), [10.0, 12.0, 14.0, 16.0, 18.0], samples, TRUTH)

    row = result_of(run, TRUTH)

    assert (row.engine, row.form, row.backend) == ("spark", "groupBy", "rocksdb")
    assert row.records == 5_000_000
    assert row.records_per_second == 500_000
    assert row.cpu_seconds_per_million == 2.0
    assert row.peak_rss_mb == 900
    assert row.results_equal


def test_no_worker_seen_is_not_a_small_worker() -> None:
    with pytest.raises(EngineFailedError, match="No Python worker"):
        heaviest_worker_mb([Sample(0.0, 0.0, 1, {})], 1.0)
    assert heaviest_worker_mb([Sample(0.0, 0.0, 1, {7: 5 * MIB, 8: 6 * MIB})], 1.0) == 6


def test_rounds_give_the_median_and_the_worst(row: Callable[..., Result]) -> None:
    rounds = [
        row(records_per_second=speed, peak_rss_mb=memory, results_equal=equal)
        for speed, memory, equal in [(100.0, 1.0, True), (300.0, 3.0, False), (200.0, 2.0, True)]
    ]

    one = middle(rounds)

    assert (one.records_per_second, one.peak_rss_mb, one.results_equal) == (200.0, 3.0, False)


def test_engines_take_turns_on_the_same_files(tmp_path: Path) -> None:
    engines = ("lakestate", "vectorised", "declared", "transformWithState", "groupBy", "pass-through")
    plan = Plan(records=60, keys=5, epochs=[10, 20], key_types=["int"], engines=engines, slow_epochs=5)

    planned = list(cases(plan, tmp_path, round_number=1))

    assert [(c.epoch_records, c.engine, c.epochs) for c in planned] == [
        (epoch, engine, 5 if engine == "transformWithState" else epochs)
        for epoch, epochs in ((10, 6), (20, 5))
        for engine in engines
    ]
    files = [len(list(Path(c.inputs).iterdir())) for c in planned]
    assert files == [12, 12, 12, 10, 12, 12, *[10] * 6]
    assert len({c.work for c in planned}) == 12


def test_flink_has_keys_of_integers_alone(tmp_path: Path) -> None:
    plan = Plan(records=60, keys=5, epochs=[10], engines=("lakestate", "flink-java", "pyflink"), slow_epochs=5)
    planned = [(case.key_type, case.engine) for case in cases(plan, tmp_path, round_number=1)]
    assert planned == [("int", "lakestate"), ("int", "flink-java"), ("int", "pyflink"), ("string", "lakestate")]


def test_what_flink_notes_becomes_the_ends_of_epochs(tmp_path: Path) -> None:
    times = [2.0, 5.0, 1.0, 3.0, 4.0]  # each behind 1,000 records
    assert epoch_ends(times, case(tmp_path, epochs=2, epoch_records=2000)) == [2.0, 4.0]
    assert epoch_ends(times, case(tmp_path, epochs=2, epoch_records=2600)) == [2.0, 5.0]
    assert [wrapped(number) for number in (5, 2**63, -(2**63) - 1)] == [5, -(2**63), 2**63 - 1]


def test_counts_are_compared_by_what_their_rows_come_to(tmp_path: Path) -> None:
    write_epoch(tmp_path, 0, pa.table({"k": [3, 5, 3]}), 1)
    assert checks_of_counts(tmp_path).to_pylist() == [{"records": 3, "sum": 1 + 2 + 1, "weighted": 3 * (1 + 2) + 5}]


def test_a_failing_engine_is_named_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"(?s)nobody ended with status 1.*KeyError"):
        run_case(case(tmp_path, engine="nobody"))


@pytest.mark.parametrize(
    ("text", "records"), [("200k", 200_000), ("1m", 1_000_000), ("2_000", 2_000), ("1.5M", 1_500_000)]
)
def test_numbers_of_records_are_read(text: str, records: int) -> None:
    assert count(text) == records


@pytest.mark.parametrize(
    "arguments", [["--engines", "flink"], ["--epochs", "many"], ["--key-types", ""], ["--slow-epochs", "4"]]
)
def test_wrong_options_are_refused_before_anything_runs(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["running_count", *arguments]).exit_code == 2
