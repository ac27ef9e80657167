"""`--costs FILE` writes a table of where the time of a run goes: per folder its tests, seconds, JVMs and queries.

A JVM is counted by a script named `java` that this plugin puts before the real one on PATH, so JVMs of processes that
tests start are counted too. Queries are counted only if the test's own process starts them, and so is the time that its
main thread sleeps. The last line says how long the last worker was alone at the end.
"""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

LOG = "LAKESTATE_TEST_COSTS"
COLUMNS = ("tests", "seconds", "setup", "JVMs", "queries", "asleep")
JAVA = """#!/bin/sh
echo "JVMs\t$PYTEST_CURRENT_TEST\t1" >> "${log}"
exec {java} "$@"
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("lakestate").addoption("--costs", metavar="FILE", help="write a table of where the time goes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.pluginmanager.register(_Costs(config), "lakestate-costs")


class _Costs:
    """Appends lines (what, which test, how much) to one file in each process; the controller sums them up."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._ended: dict[str, float] = {}  # per worker of xdist, when its last test ended
        if not self._is_worker:
            self._folder = tempfile.mkdtemp(prefix="lakestate-costs-")
            os.environ[LOG] = str(Path(self._folder, "log"))
            self._wrap_java()
        self._watch_sleep()

    def _wrap_java(self) -> None:
        java = shutil.which("java")
        if java is not None and "JAVA_HOME" not in os.environ:
            script = Path(self._folder, "java")
            script.write_text(JAVA.format(log=LOG, java=java))
            script.chmod(0o755)
            os.environ["PATH"] = f"{self._folder}{os.pathsep}{os.environ['PATH']}"

    def _watch_sleep(self) -> None:
        sleep = time.sleep

        def watched(seconds: float) -> None:
            if threading.current_thread() is threading.main_thread():
                _log("asleep", os.environ.get("PYTEST_CURRENT_TEST", ""), seconds)
            sleep(seconds)

        time.sleep = watched

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Counts queries from the first session on: before it there is no Spark to patch."""
        if fixturedef.argname == "spark":
            _watch_queries()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self._is_worker:
            _log("seconds", report.nodeid, report.duration)
            _log("setup" if report.when == "setup" else "", report.nodeid, report.duration)
            _log("tests" if report.when == "call" else "", report.nodeid, 1)
            self._ended[getattr(report, "worker_id", "")] = time.monotonic()

    def pytest_sessionfinish(self) -> None:
        if not self._is_worker:
            self._write()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self) -> None:
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        for line in Path(os.environ[LOG]).read_text().splitlines():
            what, test, amount = line.split("\t")
            for folder in ("/".join(test.split("/")[:2]), "all"):
                sums[folder][what] += float(amount)  # type: ignore[assignment]
        ordered = sorted(sums, key=lambda folder: -sums[folder]["seconds"])
        rows = [f"| {folder} | " + " | ".join(f"{sums[folder][c]:.0f}" for c in COLUMNS) + " |" for folder in ordered]
        head = [f"| folder | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
        alone = max(self._ended.values()) - min(self._ended.values()) if self._ended else 0.0
        last = f"\nOne worker alone at the end: {alone:.0f} s"
        Path(self._config.getoption("--costs")).write_text("\n".join([*head, *rows, last]) + "\n")


def _log(what: str, test: str, amount: float) -> None:
    if what:
        with open(os.environ[LOG], "a") as log:
            log.write(f"{what}\t{test}\t{amount}\n")


def _watch_queries() -> None:
    from pyspark.sql.streaming import DataStreamWriter

    start = DataStreamWriter.start
    if getattr(start, "watched", False):
        return

    def watched(*args: object, **kwargs: object) -> object:
        _log("queries", os.environ.get("PYTEST_CURRENT_TEST", ""), 1)
        return start(*args, **kwargs)

    watched.watched = True
    DataStreamWriter.start = watched
