"""`make setup` does each step once, and again only when its inputs have changed.

The real Makefile runs in a copy, with a `python` and a `uv` that only record how they were called: so the result is
the same wherever the tests run.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("Makefile", "pyproject.toml", "requirements.lock", "requirements-bootstrap.txt", "scripts/preflight.py")

TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
  "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv ;;
esac
"""

BOOTSTRAP, DEPENDENCIES, PROJECT, JARS = "-m pip install", "uv pip sync", "uv pip install", "state_engine.spark.jars"
ARCHIVE = "state_engine.spark.class_archive"
STEPS = [BOOTSTRAP, DEPENDENCIES, PROJECT, JARS]


class Checkout:
    """The files that `make setup` reads, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        self._python = folder / "python3"
        self._python.write_text(TOOL)
        self._python.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> tuple[list[str], str]:
        """Runs make; returns how the tools were called, and what it printed."""
        calls = self.folder / "calls"
        calls.write_text("")
        # If make runs the tests, it must not pass its flags and variables on.
        inherited = {name: value for name, value in os.environ.items() if "MAKE" not in name and "JARS" not in name}
        done = subprocess.run(
            ["make", f"PYTHON={self._python}", *arguments],
            cwd=self.folder,
            env={**inherited, "CALLS": str(calls), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return calls.read_text().splitlines(), done.stdout

    def steps(self, *arguments: str, **environment: str) -> list[str]:
        """Runs make; returns the steps of the setup that it took."""
        calls, _ = self.make(*arguments, **environment)
        return [step for call in calls for step in STEPS if step in call]

    def change(self, name: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write("# changed\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_setup_takes_every_step_in_order(checkout: Checkout) -> None:
    assert checkout.steps("setup") == STEPS


def test_the_second_setup_does_nothing(checkout: Checkout) -> None:
    checkout.make("setup")
    assert checkout.make("setup") == ([], "Lakestate is set up in .venv.\n")


def test_other_verbs_have_nothing_to_set_up_either(checkout: Checkout) -> None:
    checkout.make("setup")
    (checkout.folder / ".venv" / "bin" / "pytest").symlink_to("python")
    calls, _ = checkout.make("test")
    assert [call.split()[0] for call in calls] == ["python", "pytest"]
    assert ARCHIVE in calls[0], "no archive was written, and the tests run all the same"
    archive = checkout.folder / ".venv" / "share" / "lakestate" / "spark-classes.jsa"
    archive.parent.mkdir(parents=True)
    archive.touch()
    calls, _ = checkout.make("test")
    assert [call.split()[0] for call in calls] == ["pytest"]


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ("pyproject.toml", [PROJECT, JARS]),
        ("requirements.lock", [DEPENDENCIES, PROJECT, JARS]),
        ("requirements-bootstrap.txt", STEPS),
    ],
)
def test_a_changed_file_repeats_its_step_and_those_after_it(checkout: Checkout, changed: str, steps: list[str]) -> None:
    checkout.make("setup")
    checkout.change(changed)
    assert checkout.steps("setup") == steps
    assert checkout.steps("setup") == []


def test_jars_at_another_place_are_fetched_again(checkout: Checkout, tmp_path: Path) -> None:
    checkout.make("setup")
    assert checkout.steps("setup", LAKESTATE_JARS=str(tmp_path)) == [JARS]
    assert checkout.steps("setup", LAKESTATE_JARS=str(tmp_path)) == []


def test_a_setup_that_was_cut_off_goes_on_where_it_stopped(checkout: Checkout) -> None:
    checkout.make("setup")
    for stamp in (checkout.folder / ".venv").glob(".stamp-project-*"):
        stamp.unlink()
    assert checkout.steps("setup") == [PROJECT, JARS]
