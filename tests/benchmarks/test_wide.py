"""What `wide` compares, and that its results can be wrong."""

from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.wide import FORMS, Form, WideCase, WideLimit, WideRow, judge_wide
from benchmarks.wide_child import NARROW, _write


def row(form: Form, speed: int, *, right: bool = True) -> WideRow:
    return WideRow(form=form, keys=1, epoch_records=1, runs=1, records_per_second=speed, results_equal=right)


def test_forms_are_compared_in_one_run() -> None:
    limit, narrow = WideLimit(of="row/columns", to="row/narrow", at_least=0.5), row("row/narrow", 100)
    assert [verdict.reached for verdict in judge_wide([limit], [row("row/columns", 50), narrow])] == [True]
    assert [verdict.reached for verdict in judge_wide([limit], [row("row/columns", 49), narrow])] == [False]
    assert [verdict.reached for verdict in judge_wide([limit], [row("row/columns", 90, right=False), narrow])] == [
        False
    ]
    [open_one] = judge_wide([limit], [narrow])
    assert (open_one.measured, open_one.missing) == (None, ("row/columns",))
    assert list(judge_wide([limit], [])) == []


def test_the_limits_are_about_forms_that_run() -> None:
    limits = thresholds.load().wide
    assert limits
    assert {limit.of for limit in limits} | {limit.to for limit in limits} <= set(FORMS) == set(get_args(Form))


def test_wide_and_narrow_files_have_the_same_records(tmp_path: Path) -> None:
    case = WideCase(forms=FORMS, keys=5, epoch=40, epochs=2, rounds=1, work=str(tmp_path))
    truth = _write(case)
    wide, narrow = pq.read_table(tmp_path / "wide"), pq.read_table(tmp_path / "narrow")
    assert (wide.num_columns, narrow.column_names) == (30, NARROW)
    assert wide.select(NARROW).equals(narrow)
    keys = narrow.column("k").to_pylist()
    assert truth == {key: keys.count(key) for key in set(keys)}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_small_run(tmp_path: Path) -> None:
    arguments = ["wide", "--keys", "50", "--epoch", "500", "--epochs", "2", "--rounds", "1", "--work", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("|") and "equal" in line]
    assert [line.split("|")[1].strip() for line in rows] == list(FORMS)
