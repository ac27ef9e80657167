"""The fraud example as a stream: killed, restored from a savepoint by its next release, compared with the recount."""

import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestate.demo_report import check_tables, read_output
from lakestate.examples.compare import Truth
from lakestate.examples.fraud import job
from lakestate.examples.fraud.data import write_files
from lakestate.examples.fraud.truth import compute_truth
from lakestate.runner_events import Failed
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest
from state_engine.inspect import open_job, read_state

BEFORE, AFTER = 4, 3  # files that the first release and the next one read

NEXT_RELEASE = (
    ("LARGE = 8", "LARGE = 5"),
    (
        "        self.place = runtime_context",
        '        self.alerts = runtime_context.get_state(ValueStateDescriptor("alerts", long))\n'
        "        self.place = runtime_context",
    ),
    (
        "            yield *payment, rule, detail\n",
        "            yield *payment, rule, detail\n            yield from self.count_alert(payment)\n",
    ),
    (
        "    def is_large(",
        "    def count_alert(self, payment: tuple[Any, ...]) -> Iterator[Any]:\n"
        "        alerts = (self.alerts.value() or 0) + 1\n"
        "        self.alerts.update(alerts)\n"
        "        if alerts == 3:\n"
        '            yield *payment, "block", f"{alerts} alerts"\n\n'
        "    def is_large(",
    ),
)
"""Changes of `job.py`: another threshold, one more state."""

DRIVER = """
import sys
from fraud_next.job import build
from state_engine.spark import local_session
root, input, tables, savepoint = sys.argv[1:]
job = build(local_session(), root, {"input": input, "tables": tables})
job.start(available_now=True, restore=savepoint, parallelism=3).await_termination()
"""


class Fraud:
    """The job in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.tables, self.input = folder / "state", folder / "tables", folder / "input"
        self._folder = folder

    def run(self, *, parallelism: int, crash_at: str | None = None) -> int:
        options = {"input": str(self.input), "tables": str(self.tables)}
        request = StartRequest(options=options, parallelism=parallelism, available_now=True)
        command = runner_command("fraud", self.root, request)
        with RunnerProcess(command, log=self._folder / "runner.log", crash_at=crash_at) as process:
            for event in process.events():
                assert not isinstance(event, Failed), event
            return process.wait()

    def take_savepoint(self) -> str:
        command = [sys.executable, "-m", "lakestate.cli", "savepoint", "fraud", "--root", str(self.root)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()[0]

    def run_next_release(self, savepoint: str) -> None:
        package = self._folder / "next" / "fraud_next"
        package.mkdir(parents=True)
        source = Path(job.__file__).read_text()
        for old, new in NEXT_RELEASE:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        (package / "job.py").write_text(source)
        environment = os.environ | {"PYTHONPATH": f"{package.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        command = [sys.executable, "-c", DRIVER, str(self.root), str(self.input), str(self.tables), savepoint]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr[-4000:]

    def check(self, truth: Truth) -> None:
        """Compares tables and states with the recount.

        A run ends with its input, maybe before the epoch in which timers fire that are due: so sessions count whether
        they have ended or are open. `check_windows` does the same for windows.
        """
        checks = check_tables(truth, self.root, self.tables, "fraud")
        timed = {"sessions", "card/session", "merchants", "late_alerts", "card/spent"}
        wrong = [check for check in checks if any(check.difference) and check.name not in timed]
        assert not wrong
        assert {check.name for check in checks if not check.rows} <= {"late_alerts"}
        spent = next(check.difference for check in checks if check.name == "card/spent")
        assert (spent.lost, spent.differing) == (0, 0)  # what has expired may still be there
        sessions = read_output(self.tables / "sessions", pa.schema([])).to_pylist()
        open_ = read_state(str(self.root), "fraud", "card", "session").to_pylist()
        found = [tuple(row.values()) for row in sessions] + [(row["card"], *row["value"].values()) for row in open_]
        expected = [tuple(row.values()) for row in truth.outputs["sessions"].to_pylist()]
        expected += [(row["card"], *row["value"].values()) for row in truth.states["card", "session"].to_pylist()]
        assert sorted(found) == sorted(expected)


def with_next_release(truth: Truth, before: Truth) -> Truth:
    """Adds what the new state brings: a row for the third alert of a card since the savepoint, and the counts."""
    alerts = truth.outputs["alerts"].to_pylist()
    known = {(alert["id"], alert["rule"]) for alert in before.outputs["alerts"].to_pylist()}
    counts: Counter[str] = Counter()
    blocks: list[dict[str, Any]] = []
    for alert in alerts:
        if (alert["id"], alert["rule"]) not in known:
            counts[alert["card"]] += 1
            if counts[alert["card"]] == 3:
                blocks.append(alert | {"rule": "block", "detail": "3 alerts"})
    assert blocks
    table = pa.Table.from_pylist([*alerts, *blocks], truth.outputs["alerts"].schema)
    states = truth.states | {("card", "alerts"): pa.table({"card": list(counts), "value": list(counts.values())})}
    return truth._replace(outputs=truth.outputs | {"alerts": table}, states=states)


def windows_of(table: pa.Table, late: pa.Table) -> dict[tuple[Any, Any], int]:
    """Returns how many alerts each merchant has in each window, without the late ones."""
    dropped = {(row["id"], row["rule"]) for row in late.to_pylist()}
    windows: dict[tuple[Any, Any], int] = defaultdict(int)
    for row in table.to_pylist():
        if (row["id"], row["rule"]) not in dropped:
            at = row["at"]
            windows[row["merchant"], at.replace(minute=at.minute // 5 * 5, second=0, microsecond=0)] += 1
    return windows


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_and_restored_by_the_next_release_nothing_is_lost_doubled_or_different(tmp_path: Path) -> None:
    fraud = Fraud(tmp_path)
    write_files(BEFORE, fraud.input)
    assert fraud.run(parallelism=2, crash_at="E5_CHANGE_FILE_WRITTEN@3") == -signal.SIGKILL
    assert fraud.run(parallelism=2) == 0
    before = compute_truth(fraud.input)
    fraud.check(before)

    savepoint = fraud.take_savepoint()
    write_files(1, fraud.input)
    assert fraud.run(parallelism=1) == 0  # goes on; the restore abandons this
    write_files(AFTER - 1, fraud.input)
    fraud.run_next_release(savepoint)

    newest = open_job(str(fraud.root), "fraud").newest()
    assert newest is not None
    assert (newest.manifest.generation, newest.manifest.operators["card"].parallelism) == (2, 3)
    truth = with_next_release(compute_truth(fraud.input, large=lambda file: 8 if file <= BEFORE else 5), before)
    assert ("card", "alerts") in truth.states
    fraud.check(truth)
    check_windows(fraud)


def check_windows(fraud: Fraud) -> None:
    """Compares the windows that have fired, and those that are open, with the alerts in the table."""
    empty = pa.schema([])
    tables = {name: read_output(fraud.tables / name, empty) for name in ("alerts", "merchants", "late_alerts")}
    expected = windows_of(tables["alerts"], tables["late_alerts"])
    found = {(row["merchant"], row["window_start"]): row["alerts"] for row in tables["merchants"].to_pylist()}
    for row in read_state(str(fraud.root), "fraud", "merchant", "count").to_pylist():
        start = pa.scalar(int(row["namespace"].split("/")[0]), pa.timestamp("ms", tz="UTC")).as_py()
        found[row["merchant"], start] = row["value"]
    assert found == dict(expected)
    assert tables["late_alerts"].num_rows
