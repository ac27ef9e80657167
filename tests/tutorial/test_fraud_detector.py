"""The tutorial: its job is the example, and its pages hold word for word. With Spark: `test_from_a_wheel.py`."""

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pages import DOCS, Walk, files_of, steps_of

from lakestate.examples.fraud import job

GUIDE = "guides/fraud-detector"
PAGES = ("index", "job", "run", "release", "dagster")
PREPARED = ("mkdir detector-project", "python3 -m venv", 'pip install "lakestate', "pip install --quiet pytest")


def test_the_job_of_the_tutorial_is_the_example() -> None:
    example = re.sub(r"  # type: ignore\S+", "", Path(job.__file__).read_text())  # for strict types only
    assert example.count('StreamJob("fraud"') == 1
    expected = example.replace('StreamJob("fraud"', 'StreamJob("detector"')
    assert files_of(f"{GUIDE}/job.md")["detector/job.py"] == expected


@pytest.mark.long
@pytest.mark.slow
def test_the_project_is_installed_and_its_test_passes(
    tmp_path: Path, prepared: Callable[[str], dict[str, str]]
) -> None:
    with Walk(tmp_path, prepared("detector-project"), skip=PREPARED) as walk:
        for page in ("index", "job"):
            walk.follow(f"{GUIDE}/{page}.md")
        assert len(list((walk.cwd / "input").iterdir())) == 4


@pytest.mark.slow
@pytest.mark.parametrize("module", ["definitions", "python_definitions"])
def test_dagster_loads_both_kinds_of_definitions(tmp_path: Path, module: str) -> None:
    files = files_of(f"{GUIDE}/index.md") | files_of(f"{GUIDE}/job.md") | files_of(f"{GUIDE}/dagster.md")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for package in ("detector", "detector/defs"):
        (tmp_path / package / "__init__.py").touch()
    look = f"""
import os, sys
os.environ["LAKESTATE_ROOT"] = {str(tmp_path / "state")!r}
sys.path.insert(0, {str(tmp_path)!r})
import dagster as dg
from detector.{module} import defs
defs = defs if isinstance(defs, dg.Definitions) else defs()
dg.Definitions.validate_loadable(defs)
print(*sorted(key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()))
"""
    done = subprocess.run([sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    assert {"detector/checkpoint", "detector/savepoint", "detector/restored_state"} <= set(done.stdout.split())


def test_the_component_is_asked_for_what_it_has() -> None:
    component = yaml.safe_load(files_of(f"{GUIDE}/dagster.md")["detector/defs/detector/defs.yaml"])
    assert set(component["attributes"]) <= {"job", "root", "policies"}


def test_the_pages_lead_from_one_to_the_next() -> None:
    for page, following in itertools.pairwise(PAGES):
        assert f"]({following}.md)" in (DOCS / GUIDE / f"{page}.md").read_text().splitlines()[-1]


def test_each_change_of_the_next_release_has_its_place() -> None:
    from pages import changed

    source = files_of(f"{GUIDE}/job.md")["detector/job.py"]
    (step,) = [step for step in steps_of(f"{GUIDE}/release.md") if step.language == "diff"]
    release = changed(source, step.text, "release.md")
    compile(release, "job.py", "exec")
    assert release.count("self.alerts") == 3
