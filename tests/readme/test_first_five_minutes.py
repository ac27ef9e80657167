"""The job of the README runs exactly as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def block(language: str, number: int = 0) -> str:
    """Returns a code block of the README."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    return blocks[number]


def test_the_job_has_at_most_25_lines() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 25


@pytest.mark.spark
@pytest.mark.slow
def test_the_job_runs_as_printed(tmp_path: Path) -> None:
    (tmp_path / "clicks.py").write_text(block("python"))
    typed = block("sh").replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    assert "clicks/1.json" in typed
    assert "python clicks.py" in typed
    done = subprocess.run(["sh", "-ec", typed], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == block("text").strip()

    command = re.findall(r"^\.venv/bin/lakestate (sql .*)$", README.read_text(), re.MULTILINE)[0]
    arguments = [*shlex.split(command), "--format", "csv"]
    done = subprocess.run(
        [sys.executable, "-m", "lakestate.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert sorted(done.stdout.splitlines()) == ["ann,2", "bob,1", "user,value"], done.stderr[-4000:]

    from state_engine.inspect import open_job, read_state

    state = read_state(str(tmp_path / "state"), "clicks", "count", "clicks")
    assert dict(zip(state["user"].to_pylist(), state["value"].to_pylist(), strict=True)) == {"ann": 2, "bob": 1}
    newest = open_job(str(tmp_path / "state"), "clicks").newest()
    assert newest is not None
    assert newest.manifest.generation == 2
    assert newest.manifest.operators["count"].parallelism == 3
