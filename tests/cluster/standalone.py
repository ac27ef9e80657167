"""Starts and ends the processes of a standalone cluster, which listen on loopback at ports that the system chooses."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pyspark

EXTRA = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of a session for it."""

SPARK_HOME = Path(pyspark.__file__).parent
MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
REGISTERED = "Successfully registered with master"


class Standalone:
    """A master, and as many workers as are added.

    Args:
        folder: For logs and the workers' folders.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.address = ""
        self._workers = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.address = self._wait_for("master", MASTER_AT)[1]
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(30)

    def add_worker(self, cores: int = 1) -> str:
        """Starts a worker, and returns its name."""
        self._workers += 1
        name = f"worker-{self._workers}"
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--memory", "1g", "--cores", str(cores)]
        self._start(name, "worker.Worker", *options, "--work-dir", str(self.folder / name), self.address)
        self._wait_for(name, re.compile(REGISTERED))
        return name

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Ends the process of a worker or the master, by SIGKILL or another signal."""
        process = self._processes.pop(name)
        process.send_signal(number)
        process.wait(30)

    def executors(self) -> list[int]:
        """Returns the processes of its executors; those of other clusters have other working folders."""
        return [int(process.name) for process in Path("/proc").glob("[0-9]*") if self._is_executor(process)]

    def _is_executor(self, process: Path) -> bool:
        try:
            place, words = os.readlink(process / "cwd"), (process / "cmdline").read_bytes()
        except OSError:
            return False
        return place.startswith(str(self.folder)) and EXECUTOR in words

    def _start(self, name: str, main: str, *arguments: str) -> None:
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME)}
        for ours in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environment.pop(ours, None)
        with open(self.folder / f"{name}.log", "wb") as log:
            self._processes[name] = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", *arguments],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_for(self, name: str, pattern: re.Pattern[str], timeout_s: float = 60) -> Any:
        log, end = self.folder / f"{name}.log", time.monotonic() + timeout_s
        while (found := pattern.search(log.read_text())) is None:
            assert time.monotonic() < end, log.read_text()
            assert self._processes[name].poll() is None, log.read_text()
            time.sleep(0.05)
        return found
