"""Says what this machine lacks before anything is installed. Standard library only; runs on any Python since 3.8."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, List, Optional, Tuple

PYTHON_NEEDED = (3, 11)
JAVA_NEEDED = 17
JAVA_TESTED = (17, 21)
DISK_NEEDED = 3 * 1024**3

INSTALL_JAVA = (
    "Install a JDK or JRE, version 17 or 21 (Debian/Ubuntu: `sudo apt-get install openjdk-17-jre-headless`, "
    "macOS: `brew install openjdk@17`), and set JAVA_HOME if it is not the first `java` on PATH."
)


class Problem:
    """Something that is missing, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"missing: {self.what}\n remedy: {self.remedy}"


def check_python(version: Tuple[int, ...] = tuple(sys.version_info[:2])) -> Optional[Problem]:
    if version[:2] >= PYTHON_NEEDED:
        return None
    return Problem(
        "Python {}.{} or newer; this is {}.{} ({})".format(*PYTHON_NEEDED, *version[:2], sys.executable),
        "Install Python 3.11 or newer and name it: `make setup PYTHON=python3.11`.",
    )


def check_venv(has: Callable[[str], bool] = lambda name: find_spec(name) is not None) -> Optional[Problem]:
    absent = [name for name in ("venv", "ensurepip") if not has(name)]
    if not absent:
        return None
    return Problem(
        "the Python module{} {}".format("s" if len(absent) > 1 else "", " and ".join(absent)),
        "Debian and Ubuntu ship them apart from Python: `sudo apt-get install python3-venv`.",
    )


def java_command(env: Optional[dict] = None) -> Optional[str]:
    """The java that Spark will start: JAVA_HOME's, otherwise the first on PATH."""
    env = dict(os.environ) if env is None else env
    home = env.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=env.get("PATH"))


def java_major(report: str) -> Optional[int]:
    """Reads the first line that `java -version` prints; 1.8 is 8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', report)
    if not found:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def java_report(command: str) -> Optional[str]:
    try:
        done = subprocess.run(
            [command, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def check_java(
    env: Optional[dict] = None, report: Callable[[str], Optional[str]] = java_report
) -> Tuple[Optional[Problem], Optional[str]]:
    """Returns a problem, or a note about a version that was not tested."""
    command = java_command(env)
    if command is None:
        return Problem("Java (JAVA_HOME is not set and PATH has no `java`)", INSTALL_JAVA), None
    text = report(command)
    if text is None:
        return Problem(f"Java: `{command} -version` does not run", INSTALL_JAVA), None
    major = java_major(text)
    if major is None:
        return None, f"note: the version of {command} is not known; Spark needs Java {JAVA_NEEDED} or newer"
    if major < JAVA_NEEDED:
        return Problem(f"Java {JAVA_NEEDED} or newer; {command} is Java {major}", INSTALL_JAVA), None
    if major not in JAVA_TESTED:
        return None, f"note: Java {major} was not tested; 17 and 21 were"
    return None, None


def check_disk(
    folder: Path, free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(str(folder)).free
) -> Optional[Problem]:
    free = free_bytes(folder)
    if free >= DISK_NEEDED:
        return None
    return Problem(
        f"3 GB of free disk; {folder} has {free / 1024**3:.1f} GB",
        "Free some space, or clone to another disk (all packages together take about 2.7 GB).",
    )


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-java", action="store_true", help="for verbs that never start Spark")
    options = parser.parse_args(arguments)

    problems = [check_python(), check_venv(), check_disk(Path.cwd())]
    if not options.no_java:
        problem, note = check_java()
        problems.append(problem)
        if note:
            print(note, file=sys.stderr)
    found = [problem for problem in problems if problem is not None]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
