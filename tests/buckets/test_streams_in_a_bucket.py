"""A stream with its root and its tables in a bucket: killed, rescaled, restored, and counted each time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakestate.examples.compare import compare
from lakestate.examples.orders.data import write_files
from lakestate.examples.orders.truth import compute_truth
from state_engine.inspect import open_job
from state_engine.testing.s3_server import S3Server

ROOT, TABLES = "s3://bucket/state", "s3://bucket/tables"
LAKESTATE = Path(sys.executable).parent / "lakestate"

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(900)]


class Orders:
    """The example job `orders`, run by the command line.

    Args:
        folder: For its input and logs.
        files: Number of files of its input.
    """

    def __init__(self, folder: Path, files: int) -> None:
        self._folder, self._input = folder, folder / "orders"
        write_files(files, self._input)
        self._options = [
            "--root",
            ROOT,
            "-o",
            f"input={self._input}",
            "-o",
            f"tables={TABLES}",
            "--log",
            folder / "log",
        ]

    def verb(self, name: str, *arguments: str, code: int = 0) -> str:
        """Runs a verb to its end, and returns what it says."""
        command = [LAKESTATE, name, *arguments]
        environment = os.environ | {"LAKESTATE_ROOT": ROOT}
        done = subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stderr[-5000:]
        assert "a-secret" not in done.stdout + done.stderr
        return done.stdout

    def drain(self, *options: str) -> None:
        """Runs the stream until its input is read."""
        self.verb("run", "orders", *self._options, "--available-now", "--json", *options)

    def kill_at(self, epoch: int) -> None:
        """Runs the stream, and kills its driver with the JVM once an epoch is sealed."""
        command = [LAKESTATE, "run", "orders", *self._options, "-o", "files_per_epoch=1"]
        with open(self._folder / "killed.log", "wb") as log:
            process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True)
        try:
            while self.epoch() < epoch:
                assert process.poll() is None, (self._folder / "killed.log").read_text()[-5000:]
                time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def epoch(self) -> int:
        """The newest sealed epoch."""
        head = open_job(ROOT, "orders").newest()
        return head.manifest.epoch if head is not None else 0

    def check(self) -> None:
        """Compares the tables with a recount of the input."""
        truth = compute_truth(self._input)
        for name, expected in truth.outputs.items():
            actual = DeltaTable(f"{TABLES}/{name}").to_pyarrow_table()
            assert expected.num_rows
            assert compare(actual, expected, truth.keys[name]) == (0, 0, 0), name


@pytest.fixture
def orders(s3: S3Server, tmp_path: Path) -> Orders:
    return Orders(tmp_path, 32)


def test_a_stream_is_killed_rescaled_restored_and_counted(orders: Orders) -> None:
    orders.kill_at(6)
    savepoint: Any = json.loads(
        orders.verb("savepoint", "orders", "--type", "canonical", "--directory", "s3://backup/orders", "--json")
    )
    orders.kill_at(orders.epoch() + 4)
    orders.drain("--parallelism", "3")
    orders.check()
    for source in ("epoch:1/4", savepoint["savepoint_id"]):
        orders.verb("restore", "orders", "--from", source, "--stopped")
        orders.kill_at(orders.epoch() + 4)
        orders.drain()
        orders.check()
    assert '"orders"' in orders.verb("list", "--json")
    assert json.loads(orders.verb("status", "orders", "--json"))["url"] == f"{ROOT}/orders"
    orders.verb("compact", "orders", "--stopped")
    orders.verb("retain", "orders", "--last", "1")
    orders.verb("savepoints", "validate", "orders", savepoint["savepoint_id"], "--without-code")
    orders.drain()
    orders.check()
