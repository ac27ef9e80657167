"""Fake drivers that start in a tenth of a second, and the end of every process that a test has started."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakestate.runner_process import runner_command
from lakestate.supervision import Condition, Heartbeat, StartRequest, driver_folder, look, start
from lakestate.supervision.signals import signal_holder
from state_engine.storage.job_lock import holder

FAKE = Path(__file__).with_name("fake_driver.py")
JOB = "flights"


class Drivers:
    """Fake drivers of the registered job `flights` below a root."""

    job = JOB

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.folder = driver_folder(self.root, JOB)

    def start(self, plan: str = "run", **request: Any) -> int:
        """Starts a driver that does what the plan says, and returns its process id."""
        options = {"plan": plan} | request.pop("options", {})
        return start.start_driver(self.root, JOB, StartRequest(options=options, **request)).pid

    def look(self, **arguments: Any) -> Heartbeat:
        return look(self.root, JOB, **arguments)

    def until(self, condition: Condition, **arguments: Any) -> Heartbeat:
        """Waits until a look finds this condition."""
        return wait_for(lambda: seen if (seen := self.look(**arguments)).condition is condition else None)

    def log(self, number: int = 0) -> str:
        return (self.folder / ("driver.log" + (f".{number}" if number else ""))).read_text()

    def kill(self) -> None:
        signal_holder(self.pid, signal.SIGKILL, group=True)
        wait_for(lambda: not self.look_is_alive())

    def pid(self) -> int | None:
        value = holder(self.folder)
        return value.pid if value is not None else None

    def look_is_alive(self) -> bool:
        return self.pid() is not None


def wait_for(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    until = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return value


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drivers]:
    def command(*args: Any, **kwargs: Any) -> list[str]:
        return [sys.executable, str(FAKE), *runner_command(*args, **kwargs)[3:]]

    monkeypatch.setattr(start, "runner_command", command)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    made = Drivers(tmp_path / "state")
    yield made
    made.kill()


@pytest.fixture(scope="session")
def patiently() -> Callable[..., Any]:
    """Waits until a condition holds, and returns its result."""
    return wait_for
