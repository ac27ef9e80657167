"""The second example as a stream: killed, resumed at another parallelism, and compared with the truth row by row."""

import signal
import time
from pathlib import Path

import pytest

from lakestate.demo_report import Check, check_tables
from lakestate.examples.orders.data import write_files
from lakestate.examples.orders.truth import compute_truth
from lakestate.runner_events import Failed, Started
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest

PARTS = 48  # twelve days: long enough for cancelled orders and late payments


class Orders:
    """The job in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.tables, self.input = folder / "state", folder / "tables", folder / "input"
        self._log = folder / "runner.log"
        self._options = {"input": str(self.input), "tables": str(self.tables), "files_per_epoch": "12"}

    def process(self, *, crash_at: str | None = None, parallelism: int, available_now: bool = False) -> RunnerProcess:
        request = StartRequest(options=self._options, parallelism=parallelism, available_now=available_now)
        command = runner_command("orders", self.root, request)
        return RunnerProcess(command, log=self._log, crash_at=crash_at)

    def run(self, process: RunnerProcess) -> int:
        with process:
            for event in process.events():
                assert not isinstance(event, Failed), event
            return process.wait()

    def checks(self) -> list[Check]:
        return check_tables(compute_truth(self.input), self.root, self.tables, "orders")


def all_right(checks: list[Check]) -> bool:
    return not any(any(check.difference) for check in checks)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_doubled_or_different(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    write_files(PARTS, orders.input)
    killed = orders.process(crash_at="E5_CHANGE_FILE_WRITTEN@3", parallelism=3, available_now=True)
    assert orders.run(killed) == -signal.SIGKILL
    assert orders.run(orders.process(parallelism=2, available_now=True)) == 0

    # Timers between a subtask's last record and the watermark fire in an epoch without records.
    with orders.process(parallelism=4) as process:
        assert isinstance(next(process.events()), Started)
        until = time.monotonic() + 120
        while not all_right(orders.checks()):
            assert time.monotonic() < until, orders.checks()
            time.sleep(1)
        process.request_stop()
        assert process.wait() == 0
    checks = orders.checks()
    assert all_right(checks), checks
    assert {check.name for check in checks} == {
        "reminders", "cancelled", "returned", "customer/orders", "customer/unpaid", "customer/reminded",
    }  # fmt: skip
    assert all(check.rows > 50 for check in checks), checks
