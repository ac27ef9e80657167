"""Runs one mutant against its killers, in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mutant import DoesNotApplyError, Mutant
from private_copy import GUARD, copy_with

TIME_LIMIT_S = 120.0


class Verdict(Enum):
    """How a run ended."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    ERROR = "ERROR"


class Ran(NamedTuple):
    """The result of one run.

    Attributes:
        verdict: How it ended.
        test: Node id of the test that failed first; empty if none did.
        seconds: How long it took.
        message: What went wrong, for an error.
    """

    verdict: Verdict
    test: str
    seconds: float
    message: str = ""


def run_mutant(mutant: Mutant, package: Path, limit_s: float = TIME_LIMIT_S, histories: int = 0) -> Ran:
    """Plants a bug in a copy of a copy and runs its killers there, until the first one fails.

    Args:
        mutant: The bug.
        package: The copy that `private_copy.copy_checkout` made.
        limit_s: Time limit in seconds. The run is ended after it, which is an error.
        histories: If not 0, plays as many random histories of the protocol instead of the killers.
    """
    began = time.monotonic()
    with TemporaryDirectory(prefix="lakestate-mutant-", dir=package.parent) as folder:
        try:
            copy = copy_with(mutant, package, Path(folder) / "copy")
        except DoesNotApplyError as error:
            return Ran(Verdict.ERROR, "", time.monotonic() - began, str(error))
        if histories:
            return play_histories(copy, histories, limit_s=limit_s)
        return run_tests(copy, mutant.killers, module=mutant.module, limit_s=limit_s)


def run_tests(copy: Path, tests: Sequence[str], *, module: str = "", limit_s: float = TIME_LIMIT_S) -> Ran:
    """Runs tests in a private copy.

    A test kills a mutant only by failing in its own body: a failed import, collection or fixture proves nothing.

    Args:
        copy: Root of the copy.
        tests: Files or node ids.
        module: The module with the bug.
        limit_s: Time limit in seconds. The run is ended after it, which is an error.
    """
    began = time.monotonic()
    report = copy / "first_failure.json"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", GUARD, "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-o", "timeout=0", "--hypothesis-seed=0", *tests]
    guarded = {"MUTANT_COPY": str(copy), "MUTANT_MODULE": module, "MUTANT_REPORT": str(report)}
    code, output = _run(command, copy, _environment(copy) | guarded, limit_s)
    seconds = time.monotonic() - began
    if code is None:
        return Ran(Verdict.ERROR, "", seconds, f"it ran longer than {limit_s:.0f} s:\n{output}")
    if code == 0:
        return Ran(Verdict.SURVIVED, "", seconds)
    first = json.loads(report.read_text()) if report.exists() else {"test": "", "when": "", "broken": []}
    if code == 1 and first["when"] == "call" and not first["broken"]:
        return Ran(Verdict.KILLED, first["test"], seconds, output)
    why = f"{', '.join(first['broken']) or first['when'] or f'pytest ended with code {code}'}: no failure of a test"
    return Ran(Verdict.ERROR, first["test"], seconds, f"{why}\n{output}")


def play_histories(copy: Path, histories: int, *, limit_s: float = TIME_LIMIT_S) -> Ran:
    """Plays random histories of the protocol in a private copy, until one does not end well.

    Args:
        copy: Root of the copy.
        histories: How many at most. The first seed is another one in each run.
        limit_s: Time limit in seconds. The run is ended after it, which is an error.
    """
    began = time.monotonic()
    command = [sys.executable, "-m", "state_engine.testing.simulation_campaign", "--stop", "--processes", "1"]
    code, output = _run([*command, "--histories", str(histories)], copy, _environment(copy), limit_s)
    seconds = time.monotonic() - began
    played = re.search(r"^(\d+) histories, seeds \d+ to \d+, .*\n\d+ x (.+)", output, re.MULTILINE)
    if code == 1 and played:
        return Ran(Verdict.KILLED, f"within {played[1]} histories: {played[2]}", seconds, output)
    return Ran(Verdict.SURVIVED if code == 0 else Verdict.ERROR, "", seconds, output)


def _environment(copy: Path) -> dict[str, str]:
    """Returns the variables of a process in a copy; those that it starts, and Spark's workers, inherit them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(copy)}


def _run(command: list[str], folder: Path, environment: dict[str, str], limit_s: float) -> tuple[int | None, str]:
    """Returns the exit code (None after the time limit), and the output of the process."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
