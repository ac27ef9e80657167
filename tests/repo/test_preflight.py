"""The preflight names what is missing, and what to do."""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "preflight.py"


@pytest.fixture(scope="module")
def preflight() -> ModuleType:
    spec = importlib.util.spec_from_file_location("preflight", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def saying(text: str | None) -> Callable[[str], str | None]:
    return lambda command: text


def test_an_old_python_can_parse_it() -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 8))


def test_an_old_python_is_named_with_the_remedy(preflight: ModuleType) -> None:
    problem = str(preflight.check_python((3, 10)))
    assert "Python 3.11 or newer; this is 3.10" in problem
    assert "make setup PYTHON=python3.11" in problem


@pytest.mark.parametrize("version", [(3, 11), (3, 13), (4, 0)])
def test_a_new_python_is_fine(preflight: ModuleType, version: tuple[int, int]) -> None:
    assert preflight.check_python(version) is None


def test_a_python_without_venv_is_named_with_the_remedy(preflight: ModuleType) -> None:
    problem = str(preflight.check_venv(lambda name: name != "ensurepip"))
    assert "module ensurepip" in problem
    assert "python3-venv" in problem


def test_no_java_is_named_with_the_remedy(preflight: ModuleType) -> None:
    problem, _ = preflight.check_java({"PATH": "/nowhere"})
    assert "JAVA_HOME is not set and PATH has no `java`" in str(problem)
    assert "openjdk-17" in str(problem)


def test_a_wrong_java_home_is_named(preflight: ModuleType) -> None:
    problem, _ = preflight.check_java({"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"})
    assert "/nowhere/bin/java" in str(problem)


@pytest.mark.parametrize(
    ("report", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("something else", None),
    ],
)
def test_the_version_of_java_is_read(preflight: ModuleType, report: str, major: int | None) -> None:
    assert preflight.java_major(report) == major


def test_an_old_java_is_named_with_the_remedy(preflight: ModuleType) -> None:
    problem, _ = preflight.check_java({"JAVA_HOME": "/old"}, saying('openjdk version "11.0.2"'))
    assert "Java 17 or newer; /old/bin/java is Java 11" in str(problem)


def test_an_untested_java_gives_a_note_only(preflight: ModuleType) -> None:
    problem, note = preflight.check_java({"JAVA_HOME": "/new"}, saying('openjdk version "25"'))
    assert problem is None
    assert "Java 25 was not tested" in note


def test_a_full_disk_is_named_with_the_remedy(preflight: ModuleType, tmp_path: Path) -> None:
    problem = str(preflight.check_disk(tmp_path, lambda folder: 1024**3))
    assert f"{tmp_path} has 1.0 GB" in problem
    assert "Free some space" in problem


def test_all_problems_are_reported_at_once(preflight: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "check_python", lambda: preflight.Problem("A", "a"))
    monkeypatch.setattr(preflight, "check_disk", lambda folder: preflight.Problem("B", "b"))
    monkeypatch.setattr(preflight, "check_java", lambda: (preflight.Problem("C", "c"), None))
    assert preflight.main([]) == 1


def test_without_java_the_other_verbs_still_run() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--no-java"],
        env={"JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Java" not in done.stderr
