"""What `long_life` counts, and that its results can be wrong."""

from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks import thresholds
from benchmarks.__main__ import app
from benchmarks.long_life import Kind, Left, LifeLimit, LifeRow, judge_life
from benchmarks.long_life_child import _is_right, _kind


def row(*, files: int = 5, last_ms: float = 10.0, right: bool = True) -> LifeRow:
    left = [Left("Spark's directory", files, 1, 1, 1)]
    return LifeRow(epochs=9, first_ms=10.0, last_ms=last_ms, left=left, results_equal=right)


def test_files_of_a_kind_and_the_slowdown_are_limited() -> None:
    files, slowdown = LifeLimit(of="Spark's directory", at_most=5), LifeLimit(of="slowdown", at_most=1.5)
    assert [verdict.reached for verdict in judge_life([files, slowdown], [row()])] == [True, True]
    assert [verdict.reached for verdict in judge_life([files], [row(files=6)])] == [False]
    assert [verdict.reached for verdict in judge_life([slowdown], [row(last_ms=15.1)])] == [False]
    assert [verdict.reached for verdict in judge_life([files], [row(right=False)])] == [False]


def test_the_limits_name_kinds() -> None:
    assert {limit.of for limit in thresholds.load().life} <= {*get_args(Kind), "slowdown"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("table/part-1.parquet", "table"),
        ("table/_delta_log/00.json", "table's log"),
        ("root/life/_spark/a/offsets/.1.crc", "Spark's directory"),
        ("root/life/_epochs/g000001/e0000000001.json", "manifests"),
        ("root/life/_epochs/g000001/bases/b.json", "checkpoints"),
        ("root/life/count/count/part.parquet", "checkpoints"),
        ("root/life/_control/driver", "other"),
    ],
)
def test_files_have_kinds(path: str, kind: Kind) -> None:
    assert _kind(Path(path)) == kind


def test_a_row_that_is_missing_or_doubled_is_noticed() -> None:
    rows = pa.table({"k": [0, 1, 2, 3, 4, 5, 6, 0], "n": [1, 1, 1, 1, 1, 1, 1, 2]})
    assert _is_right(rows, 8)
    assert not _is_right(rows.slice(1), 8)
    assert not _is_right(pa.concat_tables([rows, rows.slice(0, 1)]), 8)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_small_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["long_life", "--epochs", "30", "--work", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "30 epochs" in done.output
    assert "results: equal" in done.output
