"""A Kafka broker of one node in KRaft mode, on the loopback: for the example and for tests."""

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from lakestate.up.errors import NotUpError

_STARTS_WITHIN = 60.0
_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class KafkaBroker:
    """A broker.

    Args:
        folder: Its folder; one that a broker has used before is gone on with.
        port: Its port; the controller takes the next one.
        settings: Further lines of `server.properties`.
    """

    def __init__(self, folder: Path, port: int, settings: Mapping[str, str | int] | None = None) -> None:
        self._folder = folder
        self.port = port
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker prints."""
        return self._folder / "broker.log"

    @property
    def listens(self) -> bool:
        """Whether something listens at its port."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def prepare(self) -> list[str]:
        """Writes the broker's settings and makes its storage, if there is none; returns the command that runs it.

        Raises:
            NotUpError: The storage cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not (self._folder / "data" / "meta.properties").exists():
            cluster = uuid.uuid4().hex[:22]
            self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        return self._command("kafka.Kafka", str(properties))

    def start(self) -> None:
        """Starts the broker as a child process, and waits until it listens.

        Raises:
            NotUpError: It has ended, or does not listen within a minute.
        """
        command = self.prepare()
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._process = process
        self.await_start(lambda: process.poll() is None)

    def await_start(self, is_alive: Callable[[], bool], log: Path | None = None) -> None:
        """Waits until the broker listens.

        Args:
            is_alive: Whether its process lives.
            log: What its process prints, if that is another file than `log`.

        Raises:
            NotUpError: It has ended, or does not listen within a minute.
        """
        until = time.monotonic() + _STARTS_WITHIN
        while not (self.listens and is_alive()):  # another process may have its port
            if not is_alive() or time.monotonic() > until:
                raise NotUpError(
                    f"The Kafka broker does not listen at {self.servers}.",
                    action=f"Read what it says: {log or self.log}.",
                )
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops the broker; SIGKILL is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)

    def _properties(self) -> dict[str, str | int]:
        controller = f"127.0.0.1:{self.port + 1}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "broker.session.timeout.ms": 2000,  # a broker that starts again after a crash waits for its old session
            "broker.heartbeat.interval.ms": 500,
            "auto.create.topics.enable": "false",
            **self._settings,
        }

    def _command(self, main: str, *arguments: str) -> list[str]:
        from state_engine.spark.jars import broker_jars  # they are not needed to end a broker

        return ["java", *_OPTIONS, "-cp", os.pathsep.join(map(str, broker_jars())), main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._command(main, *arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotUpError(f"{main} failed: {done.stdout[-500:]}{done.stderr[-500:]}", action="Read what it says.")


__all__ = ["KafkaBroker"]
