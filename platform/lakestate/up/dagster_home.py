"""Runs Dagster as processes of this machine: code server, web server and daemon, with their own DAGSTER_HOME.

`dagster dev` starts the same three. Here they are started separately, so that each can be ended by itself, and one that
has crashed can be restarted alone.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from lakestate.up.checks import LOOPBACK
from lakestate.up.errors import ForeignFolderError

LOCATION = "lakestate"
_LONGEST_SOCKET = 100  # bytes; systems take 104 to 108
_PATIENCE_S = 5.0
_LOADED = "{ assetNodes { groupName } }"

SETTINGS: dict[str, Any] = {
    "sensors": {"use_threads": True, "num_workers": 4},
    "schedules": {"use_threads": True, "num_workers": 4},
    "concurrency": {"pools": {"default_limit": 1, "granularity": "run"}},
    "run_monitoring": {
        "enabled": True,
        "start_timeout_seconds": 180,
        "max_runtime_seconds": 3600,
        "poll_interval_seconds": 30,
    },
    "freshness": {"enabled": True},
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
}
"""`dagster.yaml` of the repository without its paths: everything is stored in the home folder."""


def write_home(home: Path) -> None:
    """Creates Dagster's home: the settings, the address of the code server, and the storage. Existing files stay.

    Raises:
        ForeignFolderError: The path of the folder is too long for a socket in it.
    """
    if len(os.fsencode(code_socket(home))) > _LONGEST_SOCKET:
        raise ForeignFolderError(
            f"{home} is too long a path for the socket of Dagster's code server.",
            action="Give --dir a folder with a shorter path.",
        )
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)  # the code server serves every process that can open its socket
    location = {"grpc_server": {"socket": str(code_socket(home)), "location_name": LOCATION}}
    for path, content in ((home / "dagster.yaml", SETTINGS), (_workspace(home), {"load_from": [location]})):
        if not path.exists():
            path.write_text(json.dumps(content, indent=2) + "\n")  # JSON is YAML
    _create_storage(home)


def commands(home: Path, port: int) -> dict[str, list[str]]:
    """Returns the command lines of Dagster's processes by name, in the order in which they are started."""
    workspace = ["--workspace", str(_workspace(home))]
    return {
        "code-server": [
            *(sys.executable, "-m", "dagster", "api", "grpc", "--module-name", "lakestate.definitions"),
            *("--socket", str(code_socket(home)), "--location-name", LOCATION, "--use-python-environment-entry-point"),
        ],
        "web-server": [
            *(sys.executable, "-m", "dagster_webserver", "--host", LOOPBACK, "--port", str(port)),
            *workspace,
        ],
        "daemon": [sys.executable, "-m", "dagster._daemon", "run", *workspace],
    }


def code_socket(home: Path) -> Path:
    """Returns where the code server listens: a socket file that no other user can open."""
    return home / "code.sock"


def asset_groups(url: str) -> set[str] | None:
    """Returns the groups of the assets that the address shows; null if it does not answer, or has none yet."""
    body = json.dumps({"query": _LOADED}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy: it is this machine
    try:
        with opener.open(request, timeout=_PATIENCE_S) as response:
            nodes = json.load(response)["data"]["assetNodes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {node["groupName"] for node in nodes} or None


def _create_storage(home: Path) -> None:
    """Creates the tables of Dagster's history. Otherwise web server and daemon would both do it, and one would fail."""
    ready = home / ".storage-is-there"
    if not ready.exists():
        from dagster import DagsterInstance

        with DagsterInstance.from_config(str(home)) as instance:
            instance.get_runs_count()
        ready.touch()


def _workspace(home: Path) -> Path:
    return home / "workspace.yaml"


__all__ = ["LOCATION", "SETTINGS", "asset_groups", "code_socket", "commands", "write_home"]
