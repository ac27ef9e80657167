"""What `failover` compares, what it takes for a pause, and that its results can be wrong."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.failover.measure import _pause
from benchmarks.failover.model import ENGINES, PEER_KEYS, FailoverLimit, FailoverRow, judge_failover
from benchmarks.latency.table import TableWatch

SECOND = 1_000_000_000


def row(**changes: Any) -> FailoverRow:
    fields: dict[str, Any] = {
        "engine": "lakestate/row", "keys": 10_000, "killed": "driver", "kills": 3, "seconds": 9.0,
        "worst_seconds": 11.0, "results_equal": True,
    }  # fmt: skip
    return FailoverRow(**{**fields, **changes})


def test_one_pause_is_compared_with_another() -> None:
    limit = FailoverLimit(of=("lakestate/row", 10_000, "driver"), to=("spark/delta", 10_000, "driver"), at_most=1.2)
    peer = row(engine="spark/delta", seconds=8.0)
    others = [row(keys=5, seconds=99.0), row(killed="worker", seconds=99.0)]
    assert [verdict.reached for verdict in judge_failover([limit], [row(), peer, *others])] == [True]
    assert [verdict.reached for verdict in judge_failover([limit], [row(seconds=9.7), peer])] == [False]
    assert [verdict.reached for verdict in judge_failover([limit], [row(results_equal=False), peer])] == [False]
    [open_one] = judge_failover([limit], [row()])
    assert (open_one.measured, open_one.missing) == (None, ("spark/delta with 10,000 keys, driver killed",))
    assert list(judge_failover([limit], [])) == []


def test_the_limits_are_about_what_is_run() -> None:
    limits = thresholds.load().failover
    assert limits
    for engine, keys, _ in [case for limit in limits for case in (limit.of, limit.to)]:
        assert engine in ENGINES
        assert engine.startswith("lakestate") or keys == PEER_KEYS


def test_only_records_that_came_after_the_kill_end_a_pause(tmp_path: Path) -> None:
    """Rows of earlier ones may be committed by the next start, before it reads anything."""
    (tmp_path / "feed.log").write_text(f"0 {SECOND}\n1 {3 * SECOND}\n2 {4 * SECOND}\n3 {5 * SECOND}\n")
    watch = TableWatch(tmp_path / "table")
    watch.files = {0: 6 * SECOND, 1: 9 * SECOND, 2: 8 * SECOND}
    assert _pause(tmp_path, watch, 2 * SECOND) == 6.0
    assert _pause(tmp_path, watch, 4 * SECOND) is None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_small_run(tmp_path: Path) -> None:
    arguments = ["failover", "--engines", "lakestate/row,spark/delta", "--keys", "500", "--kills", "1"]
    done = CliRunner().invoke(app, [*arguments, "--work", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = [line for line in done.output.splitlines() if line.startswith("|") and "equal" in line]
    shown = [tuple(cell.strip() for cell in line.split("|")[1:4:2]) for line in rows]
    assert shown == [("lakestate/row", "driver"), ("lakestate/row", "worker"), ("spark/delta", "driver")]
