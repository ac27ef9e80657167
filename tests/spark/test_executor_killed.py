"""An executor dies in the second stage of an epoch; what is sealed comes from one attempt of each subtask."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import Input, newest, state_of, table_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,  # `test_lost_shuffle_files.py` sees the same mix of attempts, in one process
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the executor through /proc"),
    pytest.mark.timeout(400),
]
SCRIPT = Path(__file__).with_name("executor_job.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs all jobs in one cluster, because its start takes longer than the jobs, and returns their folder."""
    folder = tmp_path_factory.mktemp("executors")
    Input(folder / "in").add_many(3)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return folder


def report_of(folder: Path, job: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / f"{job}.json").read_text())
    return report


@pytest.mark.parametrize("job", ["killed", "unguarded", "branched"])
def test_no_epoch_is_a_mix_of_attempts(folder: Path, job: str) -> None:
    assert "CoarseGrainedExecutorBackend" in (folder / f"{job}-victim").read_text(), "no executor was killed"
    first, second = table_rows(str(folder / job / "first")), table_rows(str(folder / job / "second"))
    assert [row[0] for row in first] == list(range(180))
    assert first == second
    root = folder / "root"
    tokens = {n: token for n, _, _, token in first}
    assert state_of(root, job, "first", "token", key="n") == tokens
    assert state_of(root, job, "second", "token", key="n") == tokens
    if job == "branched":
        assert table_rows(str(folder / job / "third")) == first
        assert state_of(root, job, "third", "token", key="n") == tokens
    assert newest(root, job).epoch == 4


def test_without_the_checksums_of_spark_the_barriers_show_the_mix(folder: Path) -> None:
    report = report_of(folder, "unguarded")
    assert report["answers"] == [[2, "SUCCESS"], [3, "INCONSISTENT"], [3, "SUCCESS"], [4, "SUCCESS"]]
    assert (report["epochs"], report["jobs"]) == (3, 4)
