"""A driver that waits for input, and others that try to run its job: real processes, real Spark."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.supervision import Condition, kill_driver, look
from state_engine.errors import JobAlreadyRunningError
from state_engine.inspect import open_job
from state_engine.savepoint import restore_key_groups

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

PROGRAM = """
import sys
from lakestate.registry import load_job
from state_engine.spark import local_session
root, tables, source = sys.argv[1:]
job = load_job("flights")(local_session(), root, {"input": source, "tables": tables})
job.start(available_now=True).await_termination()
"""


def test_a_second_one_is_refused_and_a_claim_ends_the_first(tmp_path: Path, patiently: Any) -> None:
    source, root, tables = tmp_path / "input", str(tmp_path / "state"), str(tmp_path / "tables")
    source.mkdir()
    options = ("flights", "--root", root, "-o", f"input={source}", "-o", f"tables={tables}")
    assert CliRunner().invoke(app, ["start", *options]).exit_code == 0
    try:
        first = look(root, "flights")
        assert first.condition is Condition.RUNNING
        sealed = open_job(root, "flights").newest()
        refused = CliRunner().invoke(app, ["run", *options])
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"JobAlreadyRunningError: Process {first.pid} holds job 'flights'" in refused.stderr
        program = subprocess.run(
            [sys.executable, "-c", PROGRAM, root, tables, str(source)], capture_output=True, text=True, check=False
        )
        assert program.returncode == 1
        assert f"{JobAlreadyRunningError.__name__}: Process {first.pid} holds" in program.stderr
        assert open_job(root, "flights").newest() == sealed
        assert look(root, "flights").pid == first.pid
        assert sealed is not None
        restore_key_groups(root, "flights", "latest", [0])  # as a program does that does not look
        seen = patiently(lambda: now if (now := look(root, "flights")).condition is Condition.FAILED else None)
        assert seen.last_words.cause.startswith("FencedError: ")
        assert open_job(root, "flights").newest().manifest.incarnation_number == 2
    finally:
        if look(root, "flights").pid is not None:
            kill_driver(root, "flights")
