"""Where temporary folders of the tests are (`tests/plugins/memory_folder.py`)."""

import os
import subprocess
import sys
from pathlib import Path

import memory_folder
import pytest

RUN = """
import sys
from pathlib import Path
import memory_folder, pytest

memory_folder.MEMORY = Path(sys.argv[1])
memory_folder.has_room = lambda memory: True
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[memory_folder]))
"""
TEST = """
import os, subprocess, sys, tempfile
from pathlib import Path

def test_where(tmp_path):
    told = "import tempfile; print(tempfile.gettempdir())"
    of_child = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout.strip()
    folders = [tmp_path, tempfile.gettempdir(), of_child, os.environ.get("SPARK_LOCAL_DIRS", "")]
    Path("seen").write_text("\\n".join(map(str, folders)))
    assert Path("ends").read_text() == "well"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of one test that records its folders."""
    for folder in ("memory", "suite"):
        (tmp_path / folder).mkdir()
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "suite" / "test_where.py").write_text(TEST)
    return tmp_path


def run(suite: Path, ends: str, *options: str, **environment: str) -> tuple[str, list[str]]:
    """Runs the suite; returns what pytest printed, and the folders of the test."""
    (suite / "suite" / "ends").write_text(ends)
    inherited = {k: v for k, v in os.environ.items() if k != "TMPDIR" and not k.startswith(("PYTEST_", "SPARK_LOCAL"))}
    child = subprocess.run(
        [sys.executable, "-c", RUN, str(suite / "memory"), *options],
        cwd=suite / "suite",
        env={**inherited, "PYTHONPATH": str(Path(memory_folder.__file__).parent), **environment},
        capture_output=True,
        text=True,
    )
    assert child.returncode == (0 if ends == "well" else 1), child.stdout + child.stderr
    return child.stdout, (suite / "suite" / "seen").read_text().split("\n")


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "workers"])
def test_all_that_makes_temporary_folders_makes_them_in_memory(suite: Path, options: tuple[str, ...]) -> None:
    _, seen = run(suite, "well", *options)
    assert [folder.startswith(str(suite / "memory")) for folder in seen] == [True] * 4
    assert list((suite / "memory").iterdir()) == []


def test_folders_of_failed_tests_stay_until_the_next_run(suite: Path) -> None:
    printed, (folder, *_) = run(suite, "badly")
    assert Path(folder).is_dir()
    assert f"Folders of tests that failed are in {Path(folder).parents[1]}" in printed
    run(suite, "well")
    assert list((suite / "memory").iterdir()) == []


def test_a_folder_that_was_chosen_is_taken(suite: Path) -> None:
    chosen = suite / "chosen"
    chosen.mkdir()
    _, seen = run(suite, "well", TMPDIR=str(chosen))
    assert seen[:3] == [seen[0], str(chosen), str(chosen)]
    assert seen[0].startswith(str(chosen))
    run(suite, "well", f"--basetemp={suite / 'base'}")
    assert list((suite / "memory").iterdir()) == []


def test_folders_of_runs_that_go_on_are_left_alone(tmp_path: Path) -> None:
    for name in (f"lakestate-{os.getpid()}", "lakestate-other", "of-somebody"):
        (tmp_path / name).mkdir()
    memory_folder.sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_on_a_disk_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not memory_folder.has_room(tmp_path)
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    assert memory_folder.has_room(tmp_path)
    monkeypatch.setattr(memory_folder, "ROOM", 1 << 62)
    assert not memory_folder.has_room(tmp_path)
