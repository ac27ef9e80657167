"""Output that is delivered before its epoch is sealed: it is repeated after a kill, and its `EpochId` shows repeats."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash_to_function import given_job
from support import Input, by_n, count_job, counted, run_all, state_of

from state_engine.api import CheckpointConfig, CheckpointingMode
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import SinkError
from state_engine.spark import ForeachEpochSink
from state_engine.spark.worker.kill_at import CRASH_AT

pytestmark = pytest.mark.spark
SCRIPT = Path(__file__).parent / "crash_to_function.py"
AT_LEAST_ONCE = CheckpointConfig().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)


def run_in_a_process(folder: Path, mode: str, crash_at: str | None = None) -> None:
    """Runs the job in its own process, which is killed at a crash point of the protocol."""
    environment = {k: v for k, v in os.environ.items() if k != CRASH_AT} | ({CRASH_AT: crash_at} if crash_at else {})
    command = [sys.executable, str(SCRIPT), str(folder), mode]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == (-signal.SIGKILL if crash_at else 0), done.stderr[-4000:]


class Cut:
    """Ends a run at a crash point of the protocol, by an exception."""

    def __init__(self, crash_at: str | None) -> None:
        self.crash_at = crash_at

    def at(self, point: CrashPoint, epoch: int) -> None:
        if f"{point.name}@{epoch}" == self.crash_at:
            raise RuntimeError(f"cut at {self.crash_at}")


Run = Callable[[Path, str, str | None], None]


@pytest.fixture(params=["cut", pytest.param("killed", marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the job of `crash_to_function.py` to its end, or to a crash point of the protocol."""
    if request.param == "killed":
        return run_in_a_process
    spark = request.getfixturevalue("spark")

    def run_here(folder: Path, mode: str, crash_at: str | None) -> None:
        monkeypatch.setattr("state_engine.spark.driver.startup.crash_from_environment", lambda: Cut(crash_at))
        client = given_job(spark, folder, CheckpointingMode[mode]).start(available_now=True)
        if crash_at is None:
            assert client.await_termination(120)
        else:
            with pytest.raises(RuntimeError, match=f"cut at {crash_at}"):
                client.await_termination(120)

    return run_here


def got(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "got.jsonl").read_text().splitlines()]


def times_of(source: Input) -> dict[str, int]:
    """Returns how often each key has come."""
    return {k: times for _, k, times in counted(source.all)}


def rows_of(calls: list[dict[str, Any]]) -> list[Any]:
    return by_n(row for call in calls for row in call["rows"])


def test_it_repeats_after_a_kill_and_counts_once(run: Run, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    run(tmp_path, "AT_LEAST_ONCE", "E6_BEFORE_PUT@3")
    assert [call["epoch"] for call in got(tmp_path)] == [2, 3], "the second had left when the process died"
    source.add_many(1)
    run(tmp_path, "AT_LEAST_ONCE", "E7_COMMITTED@4")  # epoch 3 is the claim of this start
    run(tmp_path, "AT_LEAST_ONCE", None)
    calls = got(tmp_path)
    assert len(rows_of(calls)) > len(counted(source.all)), "output that was not sealed has come again"
    tries = [call["attempt"] for call in calls if (call["generation"], call["previous_epoch"]) == (1, 2)]
    assert len(tries) > len(set(tries)) > 1, (
        "an attempt that was not sealed, one that was, and that one again after the kill"
    )
    once = {(call["generation"], call["previous_epoch"]): call for call in calls}
    assert rows_of(list(once.values())) == counted(source.all)
    assert state_of(tmp_path / "root", "given", "count", "count") == times_of(source)


def test_exactly_once_waits_for_the_seal(run: Run, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(2)
    run(tmp_path, "EXACTLY_ONCE", "E6_BEFORE_PUT@3")
    assert [call["epoch"] for call in got(tmp_path)] == [2]
    run(tmp_path, "EXACTLY_ONCE", None)
    once = {(call["generation"], call["epoch"]): call for call in got(tmp_path)}
    assert rows_of(list(once.values())) == counted(source.all)
    assert {(call["previous_epoch"], call["attempt"]) for call in got(tmp_path)} == {(None, "")}


def test_what_the_function_refuses_is_not_sealed(spark, tmp_path: Path) -> None:
    calls: list[int] = []
    broken = [True]

    def take(epoch: Any, table: Any) -> None:
        calls.append(epoch.epoch)
        if broken[0]:
            raise ConnectionError("the other side is away")

    root, source = tmp_path / "root", Input(tmp_path / "in").add_many(1)
    job = count_job(source.stream(spark), root, "early", ForeachEpochSink(take), checkpoint_config=AT_LEAST_ONCE)
    with pytest.raises(SinkError, match="the other side is away") as caught:
        job.start(available_now=True).await_termination(120)
    assert "not sealed" in caught.value.action
    broken[0] = False
    run_all(count_job(source.stream(spark), root, "early", ForeachEpochSink(take), checkpoint_config=AT_LEAST_ONCE))
    assert state_of(root, "early", "count", "count") == times_of(source)
    assert len(calls) == 2, "delivered once, and not again after the seal"
