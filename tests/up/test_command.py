"""The command line of `lakestate up` and `lakestate down`, in cases that start nothing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.up.record import Record, only_one, write_record


def lakestate(*arguments: str, code: int) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return " ".join(result.output.replace("│", " ").split())  # typer breaks lines in a box


@pytest.mark.parametrize("arguments", [["up", "--status"], ["down"]])
def test_a_folder_that_was_never_started_is_no_failure_of_ours(tmp_path: Path, arguments: list[str]) -> None:
    shown = lakestate(*arguments, "--dir", str(tmp_path / "new"), code=2)
    assert "`lakestate up` was never run" in shown
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("arguments", [["up"], ["up", "--status"], ["down"]])
def test_a_foreign_folder_is_left_alone(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    assert "ForeignFolderError" in lakestate(*arguments, "--dir", str(tmp_path), code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_java_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    shown = lakestate("up", "--dir", str(tmp_path / "up"), code=1)
    assert "MissingJavaError" in shown
    assert "What to do" in shown or "Install Java" in shown
    assert not (tmp_path / "up" / "processes").exists()


def test_what_does_not_run_any_more_is_reported(tmp_path: Path) -> None:
    write_record(tmp_path, Record(port=3000, every_s=15))
    shown = lakestate("up", "--status", "--dir", str(tmp_path), code=0)
    assert shown.count("not running") == 4
    assert "Nothing ran." in lakestate("down", "--dir", str(tmp_path), code=0)


def test_two_at_once(tmp_path: Path) -> None:
    write_record(tmp_path, Record(port=3000, every_s=15))
    with only_one(tmp_path):
        for verb in ("up", "down"):
            assert "BusyError" in lakestate(verb, "--dir", str(tmp_path), code=1)
        lakestate("up", "--status", "--dir", str(tmp_path), code=0)
