"""The lowest versions that `pyproject.toml` allows pass the tests, installed in an environment of their own.

It needs the network, as `make setup` does.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
ROOMS = ["api", "serialization", "log", "storage", "backends", "runtime", "checkpoint", "epoch", "rest", "policies"]
JOBS = ["tests/spark/test_restore.py", "tests/spark/test_shared_jobs.py", "tests/spark/test_sketches.py"]
TOOLS = ["greenlet", "httpx2", "hypothesis", "packaging", "pytest", "pytest-timeout", "pytest-xdist"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


def run(command: list[str | Path], cwd: Path) -> str:
    """Runs a command without variables that lead into the checkout; returns its output."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden and "XDIST" not in name}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=1400, check=False)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def lowest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, all extras, and of each direct dependency the lowest version that resolves."""
    folder = tmp_path_factory.mktemp("lowest")
    run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder / "dist", ROOT], folder)
    [wheel] = (folder / "dist").glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python, wanted = folder / "venv" / "bin" / "python", folder / "wanted.txt"
    resolve = [UV, "pip", "compile", ROOT / "pyproject.toml", "--extra", "all", "--resolution", "lowest-direct"]
    run([*resolve, "--python", python, "--no-header", "--no-annotate", "--quiet", "--output-file", wanted], folder)
    run([UV, "pip", "install", "--quiet", "--python", python, "--requirement", wanted], folder)
    run([UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel], folder)
    run([UV, "pip", "install", "--quiet", "--python", python, "--constraint", wanted, *TOOLS], folder)
    return folder / "venv"


def test_tests_without_a_jvm_pass(lowest: Path) -> None:
    quick = ["--quick", "--hypothesis-profile", "quick", "-q", "-n", "2", "-p", "no:cacheprovider"]
    printed = run([lowest / "bin" / "pytest", *quick, *(f"tests/{room}" for room in ROOMS)], ROOT)
    [passed] = re.findall(r"(\d+) passed", printed)
    assert int(passed) > 1000


@pytest.mark.spark
def test_jobs_run_on_both_backends(lowest: Path) -> None:
    run([lowest / "bin" / "pytest", "-q", "-p", "no:cacheprovider", *JOBS], ROOT)
