"""Small real runs of all streams: every installed engine gets the right result."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.model import ENGINES
from benchmarks.streams import Plan, cases
from benchmarks.workloads import WORKLOADS


def run(workload: str, engines: list[str], epoch: str, folder: Path) -> list[dict[str, Any]]:
    """Runs a workload as the command line does, on integer keys, and returns its rows; leaves no files."""
    out, work = folder / "out.json", folder / "work"
    sizes = ["--records", "50k", "--keys", "500", "--epochs", epoch, "--least-epochs", "5", "--key-types", "int"]
    where = ["--engines", ",".join(engines), "--json", str(out), "--work", str(work)]

    result = CliRunner().invoke(app, [workload, *sizes, *where])

    assert result.exit_code == 0, result.output
    assert list(work.iterdir()) == []
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    return rows


def engines_of(workload: str, *products: str) -> list[str]:
    return [name for name in WORKLOADS[workload].engines if ENGINES[name].engine in products]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_lakestate_and_the_reference_arrive_at_what_is_right(tmp_path: Path) -> None:
    rows = run("windows", ["declared/rocksdb", "duckdb"], "10k", tmp_path)

    assert [(row["engine"], row["workload"], row["records"], row["results_equal"]) for row in rows] == [
        ("lakestate", "windows", 50_000, True),
        ("duckdb", "windows", 50_000, True),
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_lakestate_and_spark_arrive_at_what_is_right(workload: str, tmp_path: Path) -> None:
    engines = engines_of(workload, "lakestate", "spark", "duckdb")

    rows = run(workload, engines, "10k", tmp_path)

    assert [f"{row['engine']}/{row['form']}" for row in rows] == [ENGINES[engine].label for engine in engines]
    assert {row["workload"] for row in rows} == {workload}
    assert {row["records"] for row in rows} == {50_000}
    assert [row["results_equal"] for row in rows] == [True] * len(engines)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not FLINK_PYTHON.exists(), reason="`make flink` makes it")
@pytest.mark.parametrize("workload", WORKLOADS)
def test_flink_arrives_at_what_is_right(workload: str, tmp_path: Path) -> None:
    engines = engines_of(workload, "flink")

    rows = run(workload, engines, "20k", tmp_path)

    assert [f"{row['engine']}/{row['form']}" for row in rows] == [ENGINES[engine].label for engine in engines]
    assert [row["results_equal"] for row in rows] == [True] * len(engines)
    assert {row["checkpoints"] for row in rows} == {"1000 ms"}


def test_engines_read_the_epochs_that_their_steady_part_needs(tmp_path: Path) -> None:
    engines = "lakestate", "declared", "pyflink", "duckdb"
    plan = Plan("windows", engines, records=200, keys=10, epochs=(10,))

    runs = {case.engine: case for case in cases(plan, tmp_path / "windows", 1)}

    assert {one: runs[one].epochs for one in engines} == {"lakestate": 20, "declared": 60, "pyflink": 5, "duckdb": 20}
    assert {one: len(list(Path(runs[one].inputs).iterdir())) for one in engines} == {
        "lakestate": 40,
        "declared": 120,
        "pyflink": 10,
        "duckdb": 40,
    }
    counted = cases(plan._replace(workload="running_count"), tmp_path / "running_count", 1)
    assert [case.epochs for case in counted] == [60, 60, 5, 20]


def test_the_row_form_runs_every_stream_in_every_engine() -> None:
    row_forms = {"lakestate", "lakestate/rocksdb", "flink-java", "flink-java/rocksdb", "pyflink", "pyflink/rocksdb"}

    for workload in WORKLOADS.values():
        assert row_forms <= set(workload.engines)
        assert ("transformWithState" in workload.engines) == (workload.name != "windows"), "it has none of its own"
    assert set(WORKLOADS) == {"running_count", "map_and_list", "ttl", "sessions", "windows"}


def test_pyflink_names_its_mode_and_has_processes_where_functions_run_row_by_row() -> None:
    forms = {name: engine.form for name, engine in ENGINES.items() if name.startswith("pyflink")}

    assert forms == {
        "pyflink": "python/thread",
        "pyflink/rocksdb": "python/thread/rocksdb",
        "pyflink/process": "python/process",
        "pyflink/process/rocksdb": "python/process/rocksdb",
    }
    for mode in ("pyflink/process", "pyflink/process/rocksdb"):
        assert [name for name, one in WORKLOADS.items() if mode not in one.engines] == ["windows"]
        assert ENGINES[mode].most_records == 100_000


def test_forms_of_lakestate_run_on_both_backends() -> None:
    forms = {
        name: [engine for engine in workload.engines if ENGINES[engine].engine == "lakestate"]
        for name, workload in WORKLOADS.items()
    }
    row, vectorised, declared = ([form, f"{form}/rocksdb"] for form in ("lakestate", "vectorised", "declared"))

    assert forms == {
        "running_count": [*row, *vectorised, *declared],
        "map_and_list": [*row, *vectorised],
        "ttl": [*row, *vectorised, *declared],
        "sessions": [*row, *vectorised, *declared],
        "windows": [*row, *vectorised, *declared],
    }
    for engine in ENGINES.values():
        assert engine.engine != "lakestate" or engine.form == engine.api + ("/rocksdb" * (engine.backend == "rocksdb"))


def test_every_stream_has_a_reference_and_those_of_time_spark_without_functions() -> None:
    assert all("duckdb" in workload.engines for workload in WORKLOADS.values())
    assert [name for name, one in WORKLOADS.items() if "groupBy" in one.engines] == [
        "running_count",
        "sessions",
        "windows",
    ]


def test_windows_are_declared_and_in_sql_too() -> None:
    assert {"declared", "groupBy", "flink-sql"} <= set(WORKLOADS["windows"].engines)
