from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.tick_model import Form, Tick, TickLimit, judge_ticks


def row(form: Form = "history", **changes: Any) -> Tick:
    fields: dict[str, Any] = {
        "form": form, "checkpoints": 10_000, "states": 6, "runs": 5, "median_seconds": 0.5, "max_seconds": 1.5,
        "events": 10, "results_equal": True,
    }  # fmt: skip
    return Tick(**{**fields, **changes})


def test_the_slowest_run_counts() -> None:
    limit = TickLimit(form="history", checkpoints=10_000, at_most=1.5)
    assert [verdict.reached for verdict in judge_ticks([limit], [row()])] == [True]
    assert [verdict.reached for verdict in judge_ticks([limit], [row(max_seconds=1.51)])] == [False]
    assert [verdict.reached for verdict in judge_ticks([limit], [row(results_equal=False)])] == [False]
    [open_one] = judge_ticks([limit], [row(checkpoints=200)])
    assert open_one.measured is None
    assert list(judge_ticks([limit], [])) == []


def test_every_form_has_a_limit_at_ten_thousand_checkpoints() -> None:
    limits = thresholds.load().tick
    assert {(limit.form, limit.checkpoints) for limit in limits} == {
        (form, 10_000) for form in ("load", "history", "backlog", "idle")
    }
    assert {limit.form: limit.at_most for limit in limits} == {"load": 5, "history": 2, "backlog": 2, "idle": 2}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_small_run(tmp_path: Path) -> None:
    arguments = ["dagster_ticks", "--checkpoints", "20", "--states", "2", "--keys", "50", "--events", "2"]
    done = CliRunner().invoke(app, [*arguments, "--rounds", "2", "--work", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("|") and "equal" in line]
    assert [line.split("|")[1].strip() for line in rows] == ["load", "backlog", "history", "idle"]
