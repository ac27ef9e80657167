"""An executor dies in the second stage of an epoch; what is sealed comes from one attempt of each subtask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import Input, newest, state_of, table_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCRIPT = Path(__file__).with_name("executor_job.py")


@pytest.mark.timeout(400)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the executor through /proc")
def test_no_epoch_is_a_mix_of_attempts(tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(3)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert "CoarseGrainedExecutorBackend" in (tmp_path / "killed").read_text(), "no executor was killed"

    first, second = table_rows(str(tmp_path / "first")), table_rows(str(tmp_path / "second"))
    assert [row[0] for row in first] == [row.n for row in source.all]
    assert first == second
    root = tmp_path / "root"
    tokens = {n: token for n, _, _, token in first}
    assert state_of(root, "killed", "first", "token", key="n") == tokens
    assert state_of(root, "killed", "second", "token", key="n") == tokens
    assert newest(root, "killed").epoch == 4
