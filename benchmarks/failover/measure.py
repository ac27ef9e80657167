"""Workload `failover`: kills a driver and its workers under a stream that never rests, and measures how long it stands.

Files of 1,000 records come each 200 ms, whether the stream runs or not. The pause is the time from a SIGKILL to the
entry in the Delta table's log that has the first rows of a file that came after it.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.failover.child import READY
from benchmarks.failover.model import ENGINES, FAILOVER, PEER_KEYS, FailoverCase, FailoverRow, Killed
from benchmarks.latency.feed import Feed, table_of, times_of
from benchmarks.latency.model import Engine
from benchmarks.latency.table import TableWatch, is_right
from benchmarks.processes import end_session, processes_of, workers_of
from benchmarks.runner import EngineFailedError, child_environment, ended_with

ABOUT = "From the SIGKILL of a driver, or of a Python worker, to the next rows in a Delta table."
_EACH_MS = 200.0
_SETTLED_S = 3.0
"""How long a stream runs after a kill before the next one."""
_PATIENCE_S = 1_800.0
_MANY_FILES = 1_000_000
"""More than are fed before the feed is ended."""


class Plan(NamedTuple):
    """What is measured: engines, numbers of keys (peers have `PEER_KEYS`), and how often each is killed."""

    engines: Sequence[Engine] = ENGINES
    keys: Sequence[int] = (10_000, 1_000_000, 10_000_000)
    kills: int = 3


class FailoverReport(NamedTuple):
    """Rows, and failures."""

    results: list[FailoverRow]
    failures: list[str]


class Driver:
    """The process of a case, which can be killed and started again.

    Args:
        case: The case; its folder exists.
    """

    def __init__(self, case: FailoverCase) -> None:
        self._work = Path(case.work)
        (self._work / "case.json").write_bytes(msgspec.json.encode(case))
        self._name = case.engine
        self.start()

    def start(self) -> None:
        """Starts it."""
        command = [sys.executable, "-m", "benchmarks.failover.child", str(self._work / "case.json")]
        with (self._work / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._work, env=child_environment(), stdout=log, stderr=log, start_new_session=True
            )

    def check(self) -> None:
        """Looks whether it runs.

        Raises:
            EngineFailedError: It has ended.
        """
        if (status := self._process.poll()) is not None:
            raise ended_with(self._name, status, self._work / "log.txt")

    def kill(self) -> None:
        """Kills the driver, its JVM and all workers, at once."""
        for process in processes_of(self._process.pid):
            with suppress(ProcessLookupError):  # a worker ends by itself once its driver is gone
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()
        end_session(self._process.pid)

    def kill_worker(self) -> None:
        """Kills the Python worker with the most memory, which has state."""
        workers = workers_of(processes_of(self._process.pid))
        os.kill(max(workers, key=workers.__getitem__), signal.SIGKILL)

    def stop(self) -> None:
        """Stops the stream in order."""
        self._process.terminate()
        self._process.wait(120)
        end_session(self._process.pid)

    def end(self) -> None:
        """Ends whatever is left of it."""
        self._process.kill()
        self._process.wait()
        end_session(self._process.pid, patience=0)


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> FailoverReport:
    """Runs all cases, one after the other.

    Args:
        plan: What is measured.
        folder: Folder for input, state and tables.
        tell: Called with lines of progress.
    """
    report = FailoverReport([], [])
    for engine in plan.engines:
        for keys in plan.keys if engine.startswith("lakestate") else [min(PEER_KEYS, *plan.keys)]:
            tell(f"{FAILOVER}: {engine}, {keys:,} keys")
            work = folder / f"{engine.replace('/', '-')}-{keys}"
            case = FailoverCase(engine=engine, keys=keys, kills=plan.kills, work=str(work))
            try:
                report.results.extend(_run(case, tell))
            except EngineFailedError as error:
                tell(str(error))
                report.failures.append(str(error))
                continue
            shutil.rmtree(work)
    return report


def _run(case: FailoverCase, tell: Callable[[str], None]) -> list[FailoverRow]:
    work = Path(case.work)
    (work / "in").mkdir(parents=True)
    pq.write_table(table_of(np.arange(case.keys, dtype=np.int64), -1), work / "in" / "first.parquet")
    watch, driver = TableWatch(work / "table"), Driver(case)
    feed: subprocess.Popen[bytes] | None = None
    try:
        _await(driver, lambda: (work / READY).exists())
        feed = _feed(case)
        pauses: dict[Killed, list[float]] = {}
        for what in _killable(case.engine):
            pauses[what] = [_pause_of(driver, work, watch, what) for _ in range(case.kills)]
            tell(f"  {what}: " + ", ".join(f"{seconds:.1f} s" for seconds in pauses[what]))
        feed.terminate()
        feed.wait()
        files = len(list((work / "in").glob("f[0-9]*.parquet")))
        _await(driver, lambda: _has_come(watch, files - 1))
        driver.stop()
    finally:
        driver.end()
        if feed is not None:
            feed.kill()
            feed.wait()
    rows = pa.concat_tables(watch.rows, promote_options="permissive")
    right = is_right(rows, case.keys, files, counted=case.engine != "spark/delta")
    return [_row(case, what, seconds, right=right) for what, seconds in pauses.items()]


def _killable(engine: Engine) -> Sequence[Killed]:
    """A copy has no Python workers, and on one machine Spark runs no task again: its query ends with the worker."""
    return get_args(Killed) if engine.startswith("lakestate") else ("driver",)


def _pause_of(driver: Driver, work: Path, watch: TableWatch, what: Killed) -> float:
    """Kills, waits until the stream goes on, and returns how long it stood still, in seconds."""
    time.sleep(_SETTLED_S + random.random())
    killed_ns = time.time_ns()
    if what == "driver":
        driver.kill()
        driver.start()
    else:
        driver.kill_worker()
    _await(driver, lambda: _goes_on(work, watch, killed_ns))
    pause = _pause(work, watch, killed_ns)
    assert pause is not None
    return pause


def _goes_on(work: Path, watch: TableWatch, killed_ns: int) -> bool:
    watch.look()
    return _pause(work, watch, killed_ns) is not None


def _has_come(watch: TableWatch, number: int) -> bool:
    watch.look()
    return number in watch.files


def _await(driver: Driver, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        driver.check()
        if time.monotonic() > deadline:
            raise EngineFailedError("The stream did not go on.")
        time.sleep(0.1)


def _feed(case: FailoverCase) -> "subprocess.Popen[bytes]":
    work = Path(case.work)
    feed = Feed(
        folder=str(work / "in"), log=str(work / "feed.log"), first=0, files=_MANY_FILES, keys=case.keys,
        pace_ms=_EACH_MS, jitter=0.25,
    )  # fmt: skip
    (work / "feed.json").write_bytes(msgspec.json.encode(feed))
    command = [sys.executable, "-m", "benchmarks.latency.feed", str(work / "feed.json")]
    return subprocess.Popen(command, env=child_environment())


def _pause(work: Path, watch: TableWatch, killed_ns: int) -> float | None:
    """Returns the seconds from a kill to the first rows of a file that came after it; None if there are none yet."""
    fed = times_of(work / "feed.log")
    came = [watch.files[number] for number, fed_ns in fed.items() if fed_ns > killed_ns and number in watch.files]
    return (min(came) - killed_ns) / 1e9 if came else None


def _row(case: FailoverCase, what: Killed, pauses: Sequence[float], *, right: bool) -> FailoverRow:
    return FailoverRow(
        engine=case.engine,
        keys=case.keys,
        killed=what,
        kills=len(pauses),
        seconds=round(median(pauses), 2),
        worst_seconds=round(max(pauses), 2),
        results_equal=right,
    )


def show(rows: Sequence[FailoverRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    for head in ("engine", "keys", "killed", "kills", "seconds", "worst", "results"):
        shown.add_column(head, justify="left" if head in ("engine", "killed") else "right", no_wrap=True)
    for row in rows:
        results = "equal" if row.results_equal else "WRONG"
        figures = f"{row.seconds:.1f}", f"{row.worst_seconds:.1f}"
        shown.add_row(row.engine, f"{row.keys:,}", row.killed, str(row.kills), *figures, results)
    console.print(shown, highlight=False)


__all__ = ["ABOUT", "FailoverReport", "Plan", "measure", "show"]
