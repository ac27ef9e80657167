"""What `latency` compares, and that its results can be wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.latency.feed import Feed, keys_of, run, table_of
from benchmarks.latency.model import ENGINES, RECORDS, LatencyLimit, LatencyRow, judge_latency
from benchmarks.latency.table import is_right


def row(**changes: Any) -> LatencyRow:
    fields: dict[str, Any] = {
        "engine": "lakestate/row", "keys": 1, "trigger_interval_ms": 0, "pace": "alone", "files": 9, "p50_ms": 100.0,
        "p90_ms": 1.0, "p99_ms": 300.0, "max_ms": 1.0, "commits_per_hour": 1, "files_per_hour": 1,
        "results_equal": True,
    }  # fmt: skip
    return LatencyRow(**{**fields, **changes})


def test_files_that_come_alone_are_compared_without_a_trigger_interval() -> None:
    limit = LatencyLimit(of="lakestate/row", to="spark/delta", figure="p50_ms", at_most=0.25)
    peer = row(engine="spark/delta", p50_ms=400.0)
    others = [row(pace="each 100 ms", p50_ms=9_999.0), row(trigger_interval_ms=1_000, p50_ms=9_999.0)]
    assert [verdict.reached for verdict in judge_latency([limit], [row(), peer, *others])] == [True]
    assert [verdict.reached for verdict in judge_latency([limit], [row(p50_ms=101.0), peer])] == [False]
    assert [verdict.reached for verdict in judge_latency([limit], [row(results_equal=False), peer])] == [False]
    [open_one] = judge_latency([limit], [row()])
    assert (open_one.measured, open_one.missing) == (None, ("spark/delta",))
    assert list(judge_latency([limit], [])) == []


def test_the_limits_are_about_engines_that_run() -> None:
    limits = thresholds.load().latency
    assert limits
    assert {limit.of for limit in limits} | {limit.to for limit in limits} <= set(ENGINES)


def test_a_feed_has_the_records_that_are_expected(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    feed = Feed(
        folder=str(tmp_path / "in"), log=str(tmp_path / "log"), first=3, files=2, keys=7, pace_ms=0.0, jitter=0.0
    )
    run(feed)
    assert sorted(file.name for file in (tmp_path / "in").iterdir()) == ["f000003.parquet", "f000004.parquet"]
    assert [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()] == ["3", "4"]
    assert np.array_equal(keys_of(3, 7), keys_of(3, 7))
    assert len(keys_of(3, 7)) == RECORDS


@pytest.mark.parametrize("counted", [True, False])
def test_a_row_that_is_missing_or_doubled_is_noticed(counted: bool) -> None:
    rows = pa.concat_tables([table_of(np.arange(7), -1), table_of(keys_of(0, 7), 0)])
    seen: dict[int, int] = {}
    numbers = []
    for key in rows.column("k").to_pylist():
        seen[key] = seen.get(key, 0) + 1
        numbers.append(seen[key])
    rows = rows.append_column("n", pa.array(numbers))
    assert is_right(rows, 7, 1, counted=counted)
    assert is_right(rows.take(list(reversed(range(len(numbers))))), 7, 1, counted=counted), "in any order"
    assert not is_right(rows.slice(1), 7, 1, counted=counted)
    assert not is_right(pa.concat_tables([rows, rows.slice(0, 1)]), 7, 1, counted=counted)
    assert not is_right(rows, 7, 2, counted=counted)
    wrong = rows.set_column(2, "n", pa.array([2, *numbers[1:]]))
    assert is_right(wrong, 7, 1, counted=counted) == (not counted), "only a count that was emitted can be wrong"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_small_run(tmp_path: Path) -> None:
    arguments = ["latency", "--keys", "500", "--warm", "1", "--files", "3", "--work", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("|") and "equal" in line]
    assert [line.split("|")[1].strip() for line in rows] == [engine for engine in ENGINES for _ in range(2)]
