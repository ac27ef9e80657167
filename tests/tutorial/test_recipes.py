"""The code of a recipe is one file, and its tests pass as printed."""

import subprocess
import sys
from pathlib import Path

import pytest
from pages import steps_of


@pytest.mark.parametrize("recipe", ["foreach-epoch-sink", "late-records", "malformed-lines"])
def test_the_tests_of_the_recipe_pass(recipe: str, tmp_path: Path) -> None:
    code = "\n\n".join(step.text for step in steps_of(f"guides/{recipe}.md") if step.language == "python")
    (tmp_path / "test_recipe.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_recipe.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{code.count('def test_')} passed" in done.stdout


def test_the_job_of_a_recipe_is_built() -> None:
    from state_engine.spark.explain import explain_job
    from state_engine.spark.graph.dry import DrySession

    code = "\n\n".join(step.text for step in steps_of("guides/malformed-lines.md") if step.language == "python")
    names: dict[str, object] = {"__name__": "recipe"}
    exec(code, names)
    build = names["build"]
    assert callable(build)
    plan = explain_job(build(DrySession(), "/state", {"input": "/in", "tables": "/out"}))
    assert [sink.uid for operator in plan.operators for sink in operator.sinks] == ["counts", "malformed"]
