"""`dagster dev` as a person starts it, in a folder of its own, and the requests of its page in the browser."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

ADD_PARTITION = """
mutation ($partition: String!) {
  addDynamicPartition(
    repositorySelector: {repositoryLocationName: "lakestate", repositoryName: "__repository__"}
    partitionsDefName: "flights_savepoints"
    partitionKey: $partition
  ) { __typename }
}
"""
LAUNCH = """
mutation ($partition: String!) {
  launchRun(executionParams: {
    selector: {
      repositoryLocationName: "lakestate", repositoryName: "__repository__", pipelineName: "__ASSET_JOB",
      assetSelection: [{path: ["flights", "savepoint"]}]
    }
    mode: "default"
    executionMetadata: {tags: [{key: "dagster/partition", value: $partition}]}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""
RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
EVENTS = """
query ($name: String!) {
  assetOrError(assetKey: {path: ["flights", $name]}) { ... on Asset { assetMaterializations(limit: 100) {
    partition
    metadataEntries { label
      ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text } ... on BoolMetadataEntry { boolValue } }
  } } }
}
"""


class DagsterDev:
    """Web server and daemon on a port of the loopback; use as a context manager.

    Args:
        folder: The folder to start in, with copies of `workspace.yaml` and `dagster.yaml`.
        root: Root of the state of the jobs.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        folder.mkdir()
        for name in ("workspace.yaml", "dagster.yaml"):
            shutil.copy(ROOT / name, folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}/graphql"
        self._log = folder / "log"
        environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        command = [str(Path(sys.executable).with_name("dagster")), "dev", "--host", "127.0.0.1", "--port", str(port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment | {"LAKESTATE_ROOT": str(root)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> "DagsterDev":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_until_ready(self) -> None:
        """Waits for the web server and the code location."""

        def is_ready() -> bool:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                nodes = self.ask("{ assetNodes { assetKey { path } } }")["assetNodes"]
                return {"path": ["flights", "savepoint"]} in [node["assetKey"] for node in nodes]
            return False

        self.wait_for(is_ready, "the code location")

    def ask(self, query: str, **variables: Any) -> Any:
        """Returns the answer to a GraphQL query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def events(self, asset: str) -> list[dict[str, Any]]:
        """Returns the metadata of the materialisations of `flights/<asset>`, newest first."""
        metadata_list = []
        for event in self.ask(EVENTS, name=asset)["assetOrError"].get("assetMaterializations", ()):
            metadata: dict[str, Any] = {"partition": event["partition"]}
            for entry in event["metadataEntries"]:
                label = entry.pop("label")
                metadata[label] = next(iter(entry.values()), None)
            metadata_list.append(metadata)
        return metadata_list

    def take_savepoint(self, name: str) -> dict[str, Any]:
        """Adds a partition and launches a run of it, as the dialog does; returns what the run recorded."""
        self.ask(ADD_PARTITION, partition=name)
        launched = self.ask(LAUNCH, partition=name)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = launched["run"]["runId"]

        def has_succeeded() -> bool:
            status = self.ask(RUN, id=run_id)["runOrError"]["status"]
            assert status not in ("FAILURE", "CANCELED"), self._log.read_text()
            return bool(status == "SUCCESS")

        self.wait_for(has_succeeded, "the run")
        return self.events("savepoint")[0]

    def wait_for(self, condition: Any, what: str, timeout_s: float = 120) -> None:
        """Waits until `condition()` is true."""
        until = time.monotonic() + timeout_s
        while not condition():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, f"waited for {what}\n{self._log.read_text()}"
            time.sleep(0.1)
