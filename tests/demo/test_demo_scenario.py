"""The steps of the demonstration, with a runner that has no engine."""

import contextlib
import io
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakestate import demo_scenario
from lakestate.demo_scenario import DemoError, Scenario
from lakestate.demo_view import DemoView
from lakestate.runner_process import RunnerProcess, runner_command
from state_engine.log.records import Pin

FAKE = Path(__file__).with_name("fake_runner.py")


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*args: Any, **kwargs: Any) -> list[str]:
        return [sys.executable, str(FAKE), *runner_command(*args, **kwargs)[3:]]

    monkeypatch.setattr(demo_scenario, "runner_command", command)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def pin_of(root: Path) -> Pin:
    epoch = int((root / "newest").read_text())
    return Pin(
        savepoint_id=str(epoch),
        job="flights",
        generation=1,
        epoch=epoch,
        manifest="",
        base=None,
        manifests=(),
        handles=(),
        created_at=0,
    )


def scenario(folder: Path, output: io.StringIO) -> Scenario:
    view = DemoView(Console(file=output, width=120), 1_000)
    return Scenario(folder, 16, view, pin_of)


def is_running(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    return False


def test_two_kills_and_a_step_back(tmp_path: Path) -> None:
    output = io.StringIO()
    played = scenario(tmp_path, output)
    pin = played.play()
    assert [run.exit_code for run in played.runs] == [-signal.SIGKILL, 0, -signal.SIGKILL, 0]
    assert played.kills == 2
    first, second, third, fourth = (run.last_epoch for run in played.runs)
    assert first == 4
    assert first < pin.epoch < second
    assert pin.epoch + 3 == third
    assert fourth == 40
    assert played.spark_jobs == first + second + third + fourth
    assert "Killed in epoch 5; the last sealed one is 4." in output.getvalue()
    children = [int(line) for line in (played.root / "children").read_text().split()]
    assert len(children) == 4
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in children)


def test_a_failure_is_reported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FAILS", "1")
    with pytest.raises(DemoError, match=r"The job failed with FencedError: Another\. What to do: Wait\."):
        scenario(tmp_path, io.StringIO()).play()


def test_silence_is_an_error_and_leaves_no_process(tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with RunnerProcess(sleeper, log=tmp_path / "log") as process, pytest.raises(TimeoutError, match="sent no event"):
        list(process.events(silence_s=0.2))
    assert process.wait() == -signal.SIGKILL


def test_standard_error_goes_to_the_log_and_the_crash_to_the_environment(tmp_path: Path) -> None:
    told = "import os, sys; print(os.environ.get('LAKESTATE_CRASH_AT'), file=sys.stderr)"
    for crash_at in ("E6_ACKS_HELD@3", None):
        with RunnerProcess([sys.executable, "-c", told], log=tmp_path / "log", crash_at=crash_at) as process:
            assert list(process.events()) == []
            assert process.wait() == 0
    assert (tmp_path / "log").read_text().split() == ["E6_ACKS_HELD@3", "None"]
