"""Which tests run in `make test` and in `make test-long`, in which order, and until when (`tests/plugins`)."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[1] / "plugins"
ONE_LONG = """
import pytest, time

def test_short(): time.sleep(0.6)

@pytest.mark.long
def test_long(): pass
"""
DRAWN = """
from hypothesis import given, strategies

@given(strategies.none())
def test_drawn(n): pass
"""
DRAWN_INSIDE = """
import pytest

@pytest.mark.hypothesis
def test_drawn_inside(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of three tests with copies of our plugins, so that it has its own durations."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "selection.py").write_text((PLUGINS / "selection.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = plugins\nmarkers =\n    long: x\n    slow: x\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["selection"]\n')
    (tmp_path / "test_a.py").write_text(ONE_LONG)
    (tmp_path / "test_b.py").write_text(DRAWN)
    return tmp_path


def run(suite: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading them takes longer than the suite
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=60, env=environment).stdout


def names(output: str) -> list[str]:
    return [line.split("::")[1].split()[0] for line in output.splitlines() if "PASSED" in line]


def test_a_test_marked_long_is_left_out_unless_it_is_chosen_by_hand(suite: Path) -> None:
    assert names(run(suite)) == ["test_short", "test_drawn"]
    assert names(run(suite, "-m", "long")) == ["test_long"]
    assert names(run(suite, "test_a.py::test_long")) == ["test_long"]


def test_the_long_run_has_tests_marked_long_and_those_of_hypothesis(suite: Path) -> None:
    assert sorted(names(run(suite, "--long"))) == ["test_drawn", "test_long"]


def test_the_long_run_has_tests_that_draw_inside(suite: Path) -> None:
    (suite / "test_c.py").write_text(DRAWN_INSIDE)
    assert sorted(names(run(suite, "--long"))) == ["test_drawn", "test_drawn_inside", "test_long"]


def test_every_test_that_draws_inside_has_a_mark() -> None:
    """A test with examples that depend on its parameters has a function with `@given` inside; only its mark says so."""
    inside: dict[str, bool] = {}
    for file in PLUGINS.parent.rglob("test_*.py"):
        text = file.read_text()
        if "    @given" in text:
            for test in (one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)):
                if any(isinstance(one, ast.FunctionDef) and "given(" in decorators(one) for one in test.body):
                    inside[f"{file.name}::{test.name}"] = "pytest.mark.hypothesis" in decorators(test)
    assert len(inside) > 20
    assert [name for name, marked in inside.items() if not marked] == []


def decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


def test_the_file_that_took_longest_comes_first(suite: Path) -> None:
    (suite / "durations.json").write_text(json.dumps({"test_b.py": 2.0, "test_a.py": 1.0}))
    assert names(run(suite)) == ["test_drawn", "test_short"]


def test_the_quick_run_leaves_out_files_that_take_long_and_tests_with_marks(suite: Path) -> None:
    (suite / "test_c.py").write_text("import pytest\n\n@pytest.mark.slow\ndef test_slow(): pass\n")
    assert sorted(names(run(suite, "--quick"))) == ["test_drawn", "test_short"]
    (suite / "durations.json").write_text(json.dumps({"test_a.py": 4.0, "test_b.py": 1.0}))
    assert names(run(suite, "--quick")) == ["test_drawn"]


def test_durations_are_recorded_by_file(suite: Path) -> None:
    run(suite, "--record-durations")
    recorded = json.loads((suite / "durations.json").read_text())
    assert recorded["test_a.py"] >= 0.6


def test_a_budget_skips_what_would_begin_after_it_and_orders_files_by_its_part(suite: Path) -> None:
    assert "3 passed" not in run(suite, "--budget", "0s")
    assert "2 skipped" in run(suite, "--budget", "0s")
    orders = {tuple(names(run(suite, "--budget", "1h", "--part", str(part)))) for part in range(4)}
    assert orders == {("test_short", "test_drawn"), ("test_drawn", "test_short")}


def test_a_budget_skips_a_test_that_is_known_to_end_after_it(suite: Path) -> None:
    (suite / "durations.json").write_text(json.dumps({"test_a.py::test_short": 3000.0}))
    assert names(run(suite, "--budget", "40m")) == ["test_drawn"]
    assert len(names(run(suite, "--budget", "1h"))) == 2


def test_a_budget_that_is_no_time_is_refused(suite: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--budget", "soon"]
    refused = subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 4
    assert "--budget soon: say a number and s, m or h" in refused.stderr
