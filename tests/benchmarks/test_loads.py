"""The workloads `postgresql` and `kafka`: their verdicts, and small runs against a real server and a real broker."""

import json
from pathlib import Path
from typing import Any

import pytest
from postgres_programs import needed_programs
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.loads.model import APPENDS, BARE, CASTS, KAFKA, POSTGRESQL, UPSERTS, LoadRow, judge_loads


def row(label: str, **changed: Any) -> LoadRow:
    figures: dict[str, Any] = {
        "records": 1000,
        "runs": 3,
        "seconds": 1.0,
        "records_per_second": 400_000.0,
        "cpu_us": 1.0,
    }
    return LoadRow(label=label, **{"workload": POSTGRESQL, "results_equal": True, **figures, **changed})


@pytest.mark.parametrize(
    ("mine", "bare", "reached"),
    [
        (400_000, 500_000, [True, True]),
        (300_000, 500_000, [True, False]),
        (149_000, 160_000, [False, True]),
    ],
)
def test_a_speed_is_judged_by_itself_and_beside_the_bare_load(mine: float, bare: float, reached: list[bool]) -> None:
    rows = [row(APPENDS, records_per_second=mine), row(BARE, records_per_second=bare)]
    assert [verdict.reached for verdict in judge_loads(rows)] == reached


def test_wrong_results_and_missing_rows_reach_nothing() -> None:
    wrong = [row(APPENDS, results_equal=False), row(BARE)]
    for rows in (wrong, [row(APPENDS)], [row(BARE)]):
        assert [verdict.reached for verdict in judge_loads(rows)] == [False, False]
    assert judge_loads([]) == []


def test_workloads_are_judged_apart() -> None:
    fast = [row(APPENDS), row(BARE)]
    slow = [row(APPENDS, workload=KAFKA, records_per_second=10.0), row(BARE, workload=KAFKA)]
    assert [verdict.reached for verdict in judge_loads([*fast, *slow])] == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "labels"),
    [
        (POSTGRESQL, (BARE, APPENDS, CASTS, UPSERTS)),
        pytest.param(KAFKA, (BARE, APPENDS), marks=pytest.mark.long),
    ],
)
def test_a_small_run(tmp_path: Path, workload: str, labels: tuple[str, ...]) -> None:
    if workload == POSTGRESQL:
        needed_programs()
    out = tmp_path / "out.json"
    arguments = [workload, "--rows", "3k", "--rounds", "2", "--json", str(out), "--work", str(tmp_path / "work")]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 0, run.output
    rows = json.loads(out.read_text())
    assert [(one["workload"], one["label"], one["records"], one["results_equal"]) for one in rows] == [
        (workload, label, 3_000, True) for label in labels
    ]
