"""Chooses the tests of a run and their order: longest files first, or until a budget of time is spent.

`make test` runs everything but tests marked `long`. `make test-long` passes `--long`: tests marked `long`, and the
tests of Hypothesis once more with more examples. With `--budget 20m` the files come in an order that follows from the
commit's hash, and tests that would end after the budget are skipped, so each commit runs another part of the whole.
`make check` passes `--quick`: tests without a JVM, in files that take no more than a second or two.
"""

import hashlib
import json
import re
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parents[1] / "durations.json"
UNITS = {"s": 1, "m": 60, "h": 3600}
SLOW_S = 20.0
"""The seconds of a test that takes longer than this are recorded separately, so that it is not begun too late."""
QUICK_S = 1.2
"""`--quick` leaves out files with longer recorded times."""


def seconds_of(text: str) -> float:
    """Reads `90s`, `20m` or `2h`.

    Raises:
        pytest.UsageError: It is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None:
        raise pytest.UsageError(f"--budget {text}: say a number and s, m or h, such as 20m")
    return float(match[1]) * UNITS[match[2]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lakestate")
    group.addoption("--long", action="store_true", help="run the tests of the long run instead of those of `make test`")
    group.addoption("--quick", action="store_true", help="run what takes no JVM and hardly any time")
    group.addoption("--budget", metavar="TIME", help="end after this time, such as 20m; files in hash order")
    group.addoption("--part", metavar="TEXT", help="what the order of --budget follows from (default: the commit)")
    group.addoption(
        "--record-durations", action="store_true", help=f"write the seconds of files and slow tests to {DURATIONS}"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Selection(config), "lakestate-selection")


class _Selection:
    """One run, in the controller or in a worker of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._long: bool = config.getoption("--long")
        self._quick: bool = config.getoption("--quick")
        budget = config.getoption("--budget")
        shared = getattr(config, "workerinput", {})
        self._ends: float | None = shared.get("ends") or (budget and time.time() + seconds_of(budget))
        self._part: str = shared.get("part") or config.getoption("--part") or (_commit() if budget else "")
        self._known: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Gives each worker of xdist the end of the budget that began with the controller."""
        node.workerinput.update(ends=self._ends, part=self._part)  # type: ignore[attr-defined]

    def pytest_report_header(self) -> list[str]:
        return [f"order of files: by the hash of {self._part!r} (--part)"] if self._ends else []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        unwanted = [item for item in items if not self._wants(item)]
        if unwanted:
            self._config.hook.pytest_deselected(items=unwanted)
        wanted = [item for item in items if self._wants(item)]

        def order(item: pytest.Item) -> tuple[object, str]:
            file = _file_of(item.nodeid)
            by_hash = hashlib.sha256(f"{self._part} {file}".encode()).hexdigest()
            return by_hash if self._ends else -self._known.get(file, 0.0), file

        items[:] = sorted(wanted, key=order)  # the sort is stable: the order within a file stays

    def _wants(self, item: pytest.Item) -> bool:
        marked = item.get_closest_marker("long") is not None
        if self._chosen_by_hand:
            return True
        if self._quick:
            is_slow = any(item.get_closest_marker(name) is not None for name in ("spark", "slow"))
            return not (marked or is_slow or self._known.get(_file_of(item.nodeid), 0.0) > QUICK_S)
        if self._long:
            drawn = bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
            return marked or drawn or item.get_closest_marker("hypothesis") is not None
        return not marked

    @property
    def _chosen_by_hand(self) -> bool:
        """Returns whether the command line chooses tests by marks, keywords or names: these run, long or not."""
        option = self._config.option
        return bool(option.markexpr or option.keyword) or any("::" in argument for argument in self._config.args)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._ends and time.time() + self._known.get(item.nodeid, 0.0) > self._ends:
            pytest.skip("the budget of time is spent")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file_of(report.nodeid)] += report.duration
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._config.getoption("--record-durations") and not hasattr(self._config, "workerinput"):
            # A file has other tests in the long run than in the short one, and its recorded seconds are of the latter.
            new = {what: s for what, s in self._seconds.items() if "::" in what or not self._long}
            durations = self._known | {what: round(seconds, 1) for what, seconds in new.items()}
            kept = {what: s for what, s in sorted(durations.items()) if s >= (SLOW_S if "::" in what else 0.5)}
            DURATIONS.write_text(json.dumps(kept, indent=0) + "\n")


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=DURATIONS.parent, capture_output=True, text=True)
    return done.stdout.strip() or "no commit"
