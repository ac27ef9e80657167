"""A stream from Kafka to Kafka and Delta on a cluster, its root in a bucket: each record once, whatever is killed."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from standalone import EXTRA

from lakestate.examples.visits.topic import VISITS, ClicksWriter, create_topics
from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.inspect import open_job
from state_engine.testing.s3_server import S3Server

EPOCHS = 100
"""Sealed after each event."""
ROOT, TABLES = "s3://bucket/state", "s3://bucket/tables"
LAKESTATE = Path(sys.executable).parent / "lakestate"

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(2400)]


class Visits:
    """The driver of the example *visits*, in a process group of its own.

    Args:
        cluster: Where its executors run.
        servers: The brokers.
        folder: For logs.
    """

    def __init__(self, cluster: Any, servers: str, folder: Path) -> None:
        self._cluster, self._servers, self._folder = cluster, servers, folder
        self._writer = ClicksWriter(servers)
        self._starts, self.parts = 0, 0
        self.start()

    def start(self) -> None:
        """Starts the driver."""
        self._starts += 1
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command("records_per_epoch=60"), cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def _log(self) -> Path:
        return self._folder / f"driver-{self._starts}.log"

    def _command(self, option: str) -> list[str]:
        conf = [f"--conf={name}={value}" for name, value in EXTRA.items()]
        options = ["-o", f"servers={self._servers}", "-o", f"tables={TABLES}", "-o", option]
        command = [str(LAKESTATE), "run", "visits", "--root", ROOT, "--parallelism", "4", *options]
        return [*command, "--trigger-interval-ms", "0", "--master", self._cluster.address, *conf]

    def kill(self) -> None:
        """Kills the driver with its JVM."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def epoch(self) -> int:
        """The newest sealed epoch."""
        head = open_job(ROOT, "visits").newest()
        return head.manifest.epoch if head is not None else 0

    def run_to(self, epoch: int, *, write: bool = True) -> None:
        """Waits until an epoch is sealed, and writes clicks meanwhile."""
        until, given = time.monotonic() + 600, self.epoch()
        while (now := self.epoch()) < epoch:
            assert self._process.poll() is None, self._log.read_text()[-5000:]
            assert time.monotonic() < until, self._log.read_text()[-5000:]
            if write and now + 10 > given:  # a part has clicks for some 25 epochs
                self.parts, given = self._writer.write_next(), max(given, now) + 25
            time.sleep(0.5)

    def drain(self) -> None:
        """Kills the driver, runs the job until all is read, and ends all windows."""
        self.kill()
        self._run([*self._command("records_per_epoch=100000"), "--available-now"])
        before = self.epoch()
        self.start()
        self.run_to(before + 1, write=False)
        self._run([str(LAKESTATE), "stop", "visits", "--root", ROOT, "--drain"])
        self._process.wait(120)

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    broker = KafkaBroker(tmp_path / "kafka", any_kafka_port())
    broker.start()
    create_topics(broker.servers)
    yield broker.servers
    broker.stop()


def test_kafka_to_kafka_and_delta_whatever_is_killed(s3: S3Server, cluster: Any, servers: str, tmp_path: Path) -> None:
    last = cluster.add_worker()
    with Visits(cluster, servers, tmp_path) as visits:

        def kill_an_executor() -> None:
            os.kill(cluster.executors()[0], signal.SIGKILL)

        def kill_the_driver() -> None:
            visits.kill()
            visits.start()

        events: list[Callable[[], object]] = [
            kill_an_executor,
            lambda: cluster.kill(last),
            cluster.add_worker,
            lambda: cluster.kill("worker-1", signal.SIGTERM),
            kill_the_driver,
        ]
        visits.run_to(5)
        for event in events:
            before = visits.epoch()
            event()
            visits.run_to(before + EPOCHS)
        visits.drain()
    sys.path.append(str(Path(__file__).parents[1] / "connectors"))
    importlib.import_module("visits_output").check_output(servers, VISITS, TABLES, visits.parts)
