"""A stream on a cluster goes on whatever is killed, joins or leaves, and counts each record once."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from deltalake import DeltaTable

from state_engine.inspect import open_job

EPOCHS = 100
"""Sealed after each event."""

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1500)]


class Stream:
    """A driver in a process group of its own, and its input.

    Args:
        cluster: Where its executors run.
        folder: For input, state, table and logs.
    """

    def __init__(self, cluster: Any, folder: Path, source: Any) -> None:
        self._cluster, self._folder = cluster, folder
        self.source, self.table = source, folder / "table"
        self._starts = 0
        self.start()

    def start(self) -> None:
        """Starts the driver."""
        self._starts += 1
        script = Path(__file__).parent / "cluster_job.py"
        command = [sys.executable, script, "runs", self._cluster.address, self._folder, sys.executable]
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def log(self) -> Path:
        """Standard error of the newest driver."""
        return self._folder / f"driver-{self._starts}.log"

    def kill(self) -> None:
        """Kills the driver with its JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=30)

    def feed(self, files: int) -> None:
        """Adds files of five records, and waits until they are sealed, one in each epoch."""
        self.source.add_many(files, rows=5)
        until = time.monotonic() + 300
        while self.records() < len(self.source.all):
            assert self._process.poll() is None, self.log.read_text()[-5000:]
            assert time.monotonic() < until, self.log.read_text()[-5000:]
            time.sleep(0.5)

    def records(self) -> int:
        """How many records are in the output."""
        if not DeltaTable.is_deltatable(str(self.table)):
            return 0
        count: int = DeltaTable(str(self.table)).to_pyarrow_dataset().count_rows()
        return count

    def epoch(self) -> int:
        """The newest sealed epoch."""
        head = open_job(str(self._folder / "root"), "counted").newest()
        return head.manifest.epoch if head is not None else 0

    def stop(self) -> None:
        """Stops the stream in order."""
        (self._folder / "stop").touch()
        said, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, self.log.read_text()[-5000:]
        assert json.loads(said.splitlines()[-1])["state"] == "CANCELED"


@pytest.fixture
def support() -> Any:
    """What the tests of Spark share; imported late, since their own `conftest.py` has to be the first."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))
    return importlib.import_module("support")


def test_a_stream_goes_on_whatever_is_killed_joins_or_leaves(cluster: Any, support: Any, tmp_path: Path) -> None:
    last = cluster.add_worker()
    with Stream(cluster, tmp_path, support.Input(tmp_path / "in")) as stream:

        def kill_an_executor() -> None:
            os.kill(cluster.executors()[0], signal.SIGKILL)

        def kill_the_driver() -> None:
            stream.kill()
            stream.start()

        events: list[Callable[[], object]] = [
            kill_an_executor,
            lambda: cluster.kill(last),
            cluster.add_worker,
            lambda: cluster.kill("worker-1", signal.SIGTERM),
            kill_the_driver,
        ]
        stream.feed(5)
        for event in events:
            before = stream.epoch()
            event()
            stream.feed(EPOCHS)
            assert stream.epoch() >= before + EPOCHS
        stream.stop()
    expected = support.counted(stream.source.all)
    assert support.table_rows(str(stream.table)) == expected
    counts = support.state_of(tmp_path / "root", "counted", "count", "count")
    assert counts == {k: times for _, k, times in expected}
