"""A Dagster for tests: code server, web server and daemon, each a process of its own on a free port of the loopback.

`test_dagster_dev.py` has the one that a person starts. Here the intervals are short, and each process can be killed and
started again by itself.
"""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import urllib.error
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import dagster as dg
import pytest
import yaml
from graphql_client import LOCATION, GraphQLClient
from live_stream import announce

from lakestate.policies import SavepointPolicy, StreamPolicies

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "LIVE_DAGSTER"
HOLD, HELD = "hold", "held"
HERE = Path(__file__).resolve().parent
SECRETS = ("DAGSTER_HOME", "LAKESTATE_ROOT", "LAKESTATE_URL", "LAKESTATE_REST_TOKEN")
MONITORED_S = 2
_POLICIES = StreamPolicies(report_every=timedelta(seconds=1), savepoints=SavepointPolicy(record_taken_elsewhere=True))
EXAMPLES = ("flights", "orders")
"""Jobs that are registered also without tests."""

Part = Literal["code-server", "webserver", "daemon"]
PARTS: tuple[Part, ...] = ("code-server", "webserver", "daemon")


class LiveDagster:
    """The processes and what they share; use as a context manager, which ends them by their ids.

    Attributes:
        root: Folder of the states of all jobs.
        client: A client of the web server.

    Args:
        folder: An empty folder, which will contain everything.
        environment: More variables for all processes.
        max_runtime_s: Runs without another limit fail after this time.
        settings: The file from which Dagster's own settings are taken.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        max_runtime_s: int = 600,
        settings: Path = ROOT / "dagster.yaml",
    ) -> None:
        self.folder = folder
        self.root = folder / "state"
        self.root.mkdir()
        (folder / "home").mkdir()
        self._declared: dict[str, dict[str, Any]] = {}
        self._processes: dict[Part, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(("code-server", "webserver"), free_ports(2), strict=True))
        self.url = f"http://127.0.0.1:{self._ports['webserver']}"
        self.client = GraphQLClient(self.url, self.check)
        path = os.pathsep.join([str(HERE), str(folder), *filter(None, sys.path)])
        kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
        self.environment = kept | {"DAGSTER_HOME": str(folder / "home"), FOLDER: str(folder), "PYTHONPATH": path}
        self.environment["FRESHNESS_DAEMON_INTERVAL_SECONDS"] = "2"
        self.environment |= environment or {}
        self._write_settings(settings, max_runtime_s)
        self._write_jobs()

    def _write_settings(self, source: Path, max_runtime_s: int) -> None:
        settings = yaml.safe_load(source.read_text())
        home = self.folder / "home"
        if "sqlite" in settings["storage"]:
            settings["storage"]["sqlite"]["base_dir"] = str(home / "storage")
        settings["local_artifact_storage"]["config"]["base_dir"] = str(home)
        settings["compute_logs"]["config"]["base_dir"] = str(home / "compute_logs")
        settings["run_monitoring"] |= {
            "start_timeout_seconds": 60,
            "max_runtime_seconds": max_runtime_s,
            "poll_interval_seconds": MONITORED_S,
        }
        settings["run_coordinator"] = {
            "module": "dagster.core.run_coordinator",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        }
        (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self._create_storage(home)
        server = {"host": "127.0.0.1", "port": self._ports["code-server"], "location_name": LOCATION}
        (self.folder / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))

    def _create_storage(self, home: Path) -> None:
        """Opens the instance once: several processes must not create one database at the same time."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            with dg.DagsterInstance.from_config(str(home)):
                pass

    def _write_jobs(self) -> None:
        announce(self.folder, *(job for job in self._declared if job not in EXAMPLES))
        draft = self.folder / ".jobs.pickle"
        draft.write_bytes(pickle.dumps(self._declared))
        draft.rename(self.folder / "jobs.pickle")

    def __enter__(self) -> "LiveDagster":
        try:
            self.start("code-server")
            self.start("webserver")
            self.start("daemon")
            self.wait_until_ready()
        except BaseException:
            self.end()
            print(self.logs())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if error is not None:
            print(self.logs())

    # Processes --------------------------------------------------------------------------------------------------------

    def start(self, part: Part) -> None:
        """Starts one of the processes."""
        tools = Path(sys.executable).parent
        command = {
            "code-server": [tools / "dagster", "code-server", "start", "-h", "127.0.0.1", "-p",
                            self._ports["code-server"], "-m", "live_definitions", "--location-name", LOCATION],
            "webserver": [tools / "dagster-webserver", "-h", "127.0.0.1", "-p", self._ports["webserver"], "-w",
                          self.folder / "workspace.yaml"],
            "daemon": [sys.executable, "-m", "live_daemon", "run", "-w", self.folder / "workspace.yaml"],
        }[part]  # fmt: skip
        with (self.folder / f"{part}.log").open("ab") as log:
            self._processes[part] = subprocess.Popen(
                [*map(str, command)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, part: Part) -> None:
        """Kills a process and all that it started in its session; for the code server, these are the runs."""
        process = self._processes.pop(part)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def restart(self, part: Part) -> None:
        """Starts a process that was killed, and waits until it answers."""
        self.start(part)
        if part == "code-server":
            self.client.wait_for(self.client.is_reloaded, "the code location to be loaded again")
        self.wait_until_ready()

    def mend(self) -> None:
        """Starts again the processes that a failed test has left killed; lets held runs go on."""
        self.release()
        for part in PARTS:
            if part not in self._processes:
                self.restart(part)

    def hold(self, point: str) -> None:
        """Makes a run wait at a place that `live_definitions` names, until `release`."""
        (self.folder / HELD).unlink(missing_ok=True)
        (self.folder / HOLD).write_text(point)

    def wait_until_held(self, timeout_s: float = 300) -> None:
        """Waits until a run waits at the place."""
        self.client.wait_for((self.folder / HELD).exists, "a run to be held", timeout_s)

    def release(self) -> None:
        """Lets runs go on."""
        (self.folder / HOLD).unlink(missing_ok=True)

    def end(self) -> None:
        """Kills all processes. No test reads the database afterwards, and Dagster takes seconds to end by itself."""
        for part in list(self._processes):
            self.kill(part)

    def check(self) -> None:
        """Fails if a process is gone that no test killed."""
        gone = [part for part, process in self._processes.items() if process.poll() is not None]
        assert not gone, f"gone: {gone}\n{self.logs()}"

    def logs(self, characters: int = 6_000) -> str:
        """Returns the ends of what the processes printed."""
        log_files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-characters:]}" for path in log_files)

    def wait_until_ready(self, timeout_s: float = 300) -> None:
        """Waits until the web server has loaded the code location, and all daemons that run are healthy."""

        def is_ready() -> bool:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                has_daemon = "daemon" not in self._processes or all(self.client.daemons().values())
                return has_daemon and "live" in self.client.assets()
            return False

        self.client.wait_for(is_ready, "Dagster to be ready", timeout_s)

    # Jobs -------------------------------------------------------------------------------------------------------------

    def declare(self, job: str, **arguments: Any) -> None:
        """Adds a job to the code location, or declares it anew, and waits until it is loaded.

        Args:
            job: Its name: letters and digits.
            arguments: Of `build_stream_definitions`; by default policies that report checkpoints every second.
        """
        self._declared[job] = {"policies": _POLICIES, **arguments}
        self._load()

    def retire(self, job: str) -> None:
        """Removes a job from the code location when the next one is declared; each load costs a new code server."""
        del self._declared[job]

    def _load(self) -> None:
        self._write_jobs()
        if "webserver" in self._processes:
            self.client.reload()


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback that are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
