"""Event-time timers of a real process that is ended by SIGKILL: each fires once, at whatever point it was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support import newest
from test_event_time import EVENTS_IN_ORDER, Files, expected_sessions

from state_engine.spark.worker.kill_at import CRASH_AT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
SCRIPT = Path(__file__).with_name("crash_sessions.py")


def run(folder: Path, *arguments: str, crash_at: str = "") -> None:
    environment = {k: v for k, v in os.environ.items() if k != CRASH_AT} | ({CRASH_AT: crash_at} if crash_at else {})
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if crash_at else 0), f"{crash_at}: {done.stderr[-4000:]}"


@pytest.mark.timeout(900)
def test_each_timer_fires_once(tmp_path: Path) -> None:
    files, done = Files(tmp_path / "in"), 0
    for point in ("E5_CHANGE_FILE_WRITTEN", "E6_SEALED"):
        files.add(*EVENTS_IN_ORDER[done : done + 2]).add(*EVENTS_IN_ORDER[done + 2 : done + 4])
        done += 4
        head = newest(tmp_path / "root", "sessions")
        run(tmp_path, crash_at=f"{point}@{head.epoch + 3 if head is not None else 2}")
    files.add(*EVENTS_IN_ORDER[done:])
    run(tmp_path, "bounded", crash_at="E7_BEFORE_SINK_COMMIT@*")
    run(tmp_path, "bounded")
    rows = DeltaTable(str(tmp_path / "out")).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == expected_sessions()
    assert newest(tmp_path / "root", "sessions").timers == {}
