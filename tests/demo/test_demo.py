"""The demonstration as a whole, and its command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestate.cli import app


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_doubled_or_different(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "lakestate.cli", "demo", "--records", "30000", "--json", str(figures)]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path / "demo")], capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(figures.read_text())
    assert (report["lost"], report["doubled"], report["differing"]) == (0, 0, 0)
    assert report["records_in"] == 30_000
    assert report["kills"] == 2
    assert report["restores"] >= 3
    assert report["parallelism"] == [2, 3]
    assert report["epochs"] > 16
    assert report["spark_jobs"] >= 16
    assert report["rows_out"] > 0 < report["state_rows"]
    assert "SELECT" in done.stdout.upper()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(app, ["demo", "--dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not empty" in " ".join(result.output.replace("│", " ").split())  # typer breaks lines in a box


@pytest.mark.parametrize("records", ["999", "336777"])
def test_more_or_fewer_records_than_make_sense_are_refused(records: str) -> None:
    assert CliRunner().invoke(app, ["demo", "--records", records]).exit_code == 2


def test_help_names_the_verbs() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output
