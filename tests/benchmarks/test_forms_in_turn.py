"""What workloads of forms in turn compare, and that their results can be wrong."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.forms.child import stream_of
from benchmarks.forms.measure import judge_forms
from benchmarks.forms.model import WORKLOADS, FormCase, FormExtra, FormLimit, FormRow
from benchmarks.forms.sinks import is_each_once
from benchmarks.forms.skew import KEYS, SHARE, Skew
from benchmarks.forms.wide import NARROW, Wide
from benchmarks.model import Verdict


def row(form: str, speed: int, *, right: bool = True) -> FormRow:
    return FormRow(
        workload="wide", form=form, keys=1, epoch_records=1, runs=1, records_per_second=speed, results_equal=right
    )


def case_of(workload: str, work: Path, **sizes: int) -> FormCase:
    return FormCase(workload=workload, work=str(work), **{"keys": 5, "epoch": 40, "epochs": 2, "rounds": 1} | sizes)


def test_forms_are_compared_in_one_run() -> None:
    limit = FormLimit(workload="wide", of="row/columns", to="row/narrow", at_least=0.5)
    narrow = row("row/narrow", 100)
    assert [verdict.reached for verdict in judge_forms([limit], [row("row/columns", 50), narrow])] == [True]
    assert [verdict.reached for verdict in judge_forms([limit], [row("row/columns", 49), narrow])] == [False]
    wrong = row("row/columns", 90, right=False)
    assert [verdict.reached for verdict in judge_forms([limit], [wrong, narrow])] == [False]
    [open_one] = judge_forms([limit], [narrow])
    assert (open_one.measured, open_one.missing) == (None, ("row/columns",))
    assert list(judge_forms([limit], [])) == []
    other = FormLimit(workload="skew", of="row/2/zipf", to="row/2/uniform", at_least=0.5)
    assert list(judge_forms([other], [row("row/columns", 50), narrow])) == [], "of a workload that was not run"


def test_what_a_form_costs_beyond_another_is_compared_with_what_a_third_costs_beyond_a_fourth() -> None:
    limit = FormExtra(
        workload="wide",
        of="row",
        beyond="row/narrow",
        through="aggregate",
        through_beyond="aggregate/narrow",
        at_most=1.2,
    )

    def verdict(*microseconds: float, right: bool = True) -> Verdict:
        forms = ("row", "row/narrow", "aggregate", "aggregate/narrow")
        rows = [row(form, round(1e6 / cost), right=right) for form, cost in zip(forms, microseconds, strict=False)]
        return next(iter(judge_forms([limit], rows)))

    assert verdict(4, 2, 3, 1).measured == pytest.approx(1.0, abs=1e-4)
    assert verdict(4.3, 2, 3, 1).reached
    assert not verdict(4.5, 2, 3, 1).reached
    assert not verdict(4, 2, 3, 3).reached, "the third costs nothing more"
    assert not verdict(4, 2, 3, 1, right=False).reached
    assert verdict(4, 2, 3).missing == ("aggregate/narrow",)


def test_the_limits_are_about_forms_that_run() -> None:
    found = thresholds.load()
    assert {limit.workload for limit in (*found.form, *found.extra)} == set(WORKLOADS)
    for limit in found.form:
        assert {limit.of, limit.to} <= set(WORKLOADS[limit.workload].beside)
    for extra in found.extra:
        forms = {extra.of, extra.beyond, extra.through, extra.through_beyond}
        assert forms <= set(WORKLOADS[extra.workload].beside)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_form_is_compared_with_a_form(workload: str) -> None:
    beside = WORKLOADS[workload].beside
    assert set(beside.values()) <= set(beside)


def test_wide_and_narrow_files_have_the_same_records(tmp_path: Path) -> None:
    stream = stream_of(case_of("wide", tmp_path))
    assert isinstance(stream, Wide)
    wide, narrow = pq.read_table(tmp_path / "wide"), pq.read_table(tmp_path / "narrow")
    assert (wide.num_columns, narrow.column_names) == (30, NARROW)
    assert wide.select(NARROW).equals(narrow)
    keys = narrow.column("k").to_pylist()
    assert list(stream.counts) == [keys.count(key) for key in range(5)]


def test_keys_are_as_skewed_as_their_names_say(tmp_path: Path) -> None:
    stream = stream_of(case_of("skew", tmp_path, keys=1_000, epoch=20_000))
    assert isinstance(stream, Skew)
    heaviest = {kind: max(stream.counts[kind]) / 40_000 for kind in KEYS}
    assert heaviest["uniform"] < 0.003
    assert SHARE - 0.01 < heaviest["one key"] < SHARE + 0.01
    assert 0.15 < heaviest["zipf"] < 0.2, "1 / (1 + 2**-1.1 + … + 1000**-1.1) is 0.178"
    for kind in KEYS:
        keys = pq.read_table(tmp_path / kind).column("k").to_numpy()
        assert np.array_equal(np.bincount(keys, minlength=1_000), stream.counts[kind])


def counted(rows: list[tuple[int, int]], *, counts: tuple[int, int] = (2, 1), numbered: bool = True) -> bool:
    table = pa.table({"k": [k for k, _ in rows], "n": [n for _, n in rows]})
    return is_each_once(table, np.array(counts), counted=numbered)


def test_rows_of_a_table_are_each_there_once() -> None:
    assert counted([(0, 2), (1, 1), (0, 1)])
    assert not counted([(0, 2), (1, 1), (0, 2)]), "one is there twice, one is missing"
    assert not counted([(0, 2), (1, 1)]), "one is missing"
    assert not counted([(0, 2), (1, 1), (0, 1), (1, 2)]), "one is too many"
    assert counted([(0, 7), (1, 7), (0, 7)], numbered=False)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_small_run(workload: str, tmp_path: Path) -> None:
    arguments = [workload, "--keys", "50", "--epoch", "500", "--epochs", "2", "--rounds", "1", "--work", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("|") and "equal" in line]
    assert [line.split("|")[1].strip() for line in rows] == list(WORKLOADS[workload].beside)
