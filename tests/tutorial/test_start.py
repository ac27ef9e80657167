"""The pages of *Start*, followed word for word. The whole of them, from a wheel, is in `test_from_a_wheel.py`."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import DOCS, Walk, steps_of

PREPARED = ("mkdir try-lakestate", "python3 -m venv", 'pip install "lakestate', "python -m state_engine.spark.jars")
START = ("install", "first-job", "kill-it", "look-into-state", "savepoint", "dagster")


@pytest.mark.long  # `readme/test_first_five_minutes.py` runs the same job; test_from_a_wheel.py follows every page
@pytest.mark.spark
@pytest.mark.slow
def test_the_first_job_runs_as_printed(tmp_path: Path, prepared: Callable[[str], dict[str, str]]) -> None:
    environment = prepared("try-lakestate")
    with Walk(tmp_path, environment, skip=PREPARED) as walk:
        for page in ("install", "first-job"):
            walk.follow(f"start/{page}.md")
        assert (walk.cwd / "counts" / "_delta_log").is_dir()


def test_the_pages_lead_from_one_to_the_next() -> None:
    index = (DOCS / "start" / "index.md").read_text()
    places = [index.index(f"({page}.md)") for page in START]
    assert places == sorted(places)
    for page, following in itertools.pairwise(START):
        assert f"]({following}.md)" in (DOCS / "start" / f"{page}.md").read_text().splitlines()[-1]


def test_each_page_has_something_to_do_and_says_what_is_printed() -> None:
    for page in START:
        languages = [step.language for step in steps_of(f"start/{page}.md")]
        assert {"bash", "text"} <= set(languages), page
