"""`await_termination` ends where the session of the job was stopped, or its JVM was killed: with real Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_job_without_its_session_ends_by_name_and_its_process_does(tmp_path: Path, how: str) -> None:
    program = Path(__file__).with_name("lost_session.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
    command = [sys.executable, str(program), str(tmp_path), how]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout == "SparkLostError FAILED\n"
