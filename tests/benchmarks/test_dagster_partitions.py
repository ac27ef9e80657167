import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.dagster_partitions import MOST_SECONDS, PartitionRow, judge_partitions
from lakestate.policies.savepoints import MOST_PARTITIONS


def row(**changes: Any) -> PartitionRow:
    fields: dict[str, Any] = {
        "savepoints": MOST_PARTITIONS, "partitions": 100_000, "runs": 3, "names_seconds": 1.0, "status_seconds": 0.1,
        "slowest_seconds": MOST_SECONDS, "results_equal": True,
    }  # fmt: skip
    return PartitionRow(**{**fields, **changes})


def test_the_slowest_run_at_the_limit_of_savepoints_counts() -> None:
    fast, slow = row(savepoints=100, slowest_seconds=9.0), row(slowest_seconds=MOST_SECONDS + 0.1)
    assert [verdict.reached for verdict in judge_partitions([fast, row()])] == [True]
    assert [verdict.reached for verdict in judge_partitions([slow])] == [False]
    assert [verdict.reached for verdict in judge_partitions([row(results_equal=False)])] == [False]
    [open_one] = judge_partitions([fast])
    assert open_one.measured is None


def test_a_small_run(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    arguments = ["dagster_partitions", "--savepoints", "2,5", "--rounds", "2", "--json", str(out)]
    done = CliRunner().invoke(app, [*arguments, "--work", str(tmp_path / "work")])
    assert done.exit_code == 0, done.output
    rows = json.loads(out.read_text())
    assert [(one["savepoints"], one["partitions"], one["results_equal"]) for one in rows] == [
        (2, 32, True),
        (5, 80, True),
    ]


def test_the_limit_fails_a_run_that_did_not_measure_it(tmp_path: Path) -> None:
    arguments = ["dagster_partitions", "--savepoints", "2", "--rounds", "1", "--check", "--work", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "not measured in this run" in done.output
