"""A client for the GraphQL requests that Dagster's page sends, for tests of a live Dagster."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

LOCATION = "live"
REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}
FAILED = ("FAILURE", "CANCELED")
SETTLED = 10
"""The number of looks, half a second apart, that must find the same newest tick of a sensor that is off."""

ENTRIES = """fragment Entries on MetadataEntry { __typename label
  ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue } ... on BoolMetadataEntry { boolValue }
  ... on TextMetadataEntry { text } ... on TimestampMetadataEntry { timestamp } ... on UrlMetadataEntry { url }
  ... on JsonMetadataEntry { jsonString } ... on MarkdownMetadataEntry { mdStr } ... on PathMetadataEntry { path }
  ... on TableMetadataEntry { table { records } } }"""
ASSETS = "{ assetNodes { assetKey { path } } }"
ADD_PARTITION = """mutation ($repository: RepositorySelector!, $definition: String!, $key: String!) {
  addDynamicPartition(repositorySelector: $repository, partitionsDefName: $definition, partitionKey: $key) {
    __typename ... on PythonError { message } } }"""
PARTITIONS = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) { ... on AssetNode {
  partitionKeys } } }"""
LAUNCH_RUN = """mutation ($parameters: ExecutionParams!) { launchRun(executionParams: $parameters) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } ... on InvalidSubsetError { message } } }"""
LAUNCH_BACKFILL = """mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } } ... on PartitionKeysNotFoundError { message } } }"""
RUN = """query ($id: ID!) { runOrError(runId: $id) {
  ... on Run { runId status startTime endTime tags { key value } } } }"""
RUNS = """query ($filter: RunsFilter) { runsOrError(filter: $filter) {
  ... on Runs { results { runId status startTime endTime tags { key value } } } } }"""
LOGS = """query ($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events { __typename
  ... on MessageEvent { message }
  ... on ExecutionStepFailureEvent {
    error { message } failureMetadata { description metadataEntries { ...Entries } } } } } } }"""
BACKFILL = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) { __typename
  ... on PartitionBackfill { status error { message } runs(limit: 100) { runId status } } } }"""
TERMINATE = "mutation ($id: String!) { terminateRun(runId: $id) { __typename } }"
EVENTS = """query ($path: [String!]!, $limit: Int!) { assetOrError(assetKey: {path: $path}) { ... on Asset {
  assetMaterializations(limit: $limit) {
    runId timestamp partition tags { key value } metadataEntries { ...Entries } } } } }"""
CHECKS = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) { ... on AssetNode {
  assetChecksOrError { ... on AssetChecks { checks { name executionForLatestMaterialization { runId status
    evaluation { success severity description metadataEntries { ...Entries } } } } } } } } }"""
FRESHNESS = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) { ... on AssetNode {
  freshnessStatusInfo { freshnessStatus } } } }"""
START_SENSOR = """mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) {
  __typename ... on Sensor { id } ... on PythonError { message } } }"""
START_SCHEDULE = """mutation ($schedule: ScheduleSelector!) { startSchedule(scheduleSelector: $schedule) {
  __typename ... on PythonError { message } } }"""
SENSOR = """query ($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) { ... on Sensor {
  id sensorState { id status ticks(limit: 50) {
    status timestamp skipReason cursor runIds error { message causes { message } } } } } } }"""
STOP_SENSOR = "mutation ($id: String!) { stopSensor(id: $id) { __typename ... on PythonError { message } } }"
RELOAD = """mutation ($location: String!) { reloadRepositoryLocation(repositoryLocationName: $location) { __typename
  ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } } } }"""
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } } }"
POOL = """query ($pool: String!) { instance { concurrencyLimit(concurrencyKey: $pool) {
  concurrencyKey slotCount limit activeRunIds pendingStepCount } } }"""


class GraphQLClient:
    """Sends requests to the web server of one Dagster. A refusal is an `AssertionError` with the whole answer.

    Args:
        url: Of the web server.
        check: Raises if the processes of this Dagster are gone; called while the client waits.
    """

    def __init__(self, url: str, check: Callable[[], None] = lambda: None) -> None:
        self._url = f"{url}/graphql"
        self._check = check

    def ask(self, query: str, **variables: Any) -> Any:
        """Returns the data of the answer to a query."""
        query += ENTRIES if "...Entries" in query else ""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def wait_for(self, condition: Callable[[], Any], what: str, timeout_s: float = 300, every_s: float = 0.1) -> Any:
        """Waits until `condition()` is true, and returns its result."""
        until = time.monotonic() + timeout_s
        while not (result := condition()):
            self._check()
            assert time.monotonic() < until, f"waited {timeout_s:.0f} s for {what}"
            time.sleep(every_s)
        return result

    # Definitions ------------------------------------------------------------------------------------------------------

    def assets(self) -> set[str]:
        """Returns the keys of all assets, with slashes."""
        return {"/".join(node["assetKey"]["path"]) for node in self.ask(ASSETS)["assetNodes"]}

    def reload(self) -> None:
        """Has the code location loaded again."""
        answer = self._reloaded()
        assert _is_loaded(answer), answer

    def is_reloaded(self) -> bool:
        """Returns whether the code location was loaded again, which fails while its server is being started."""
        return _is_loaded(self._reloaded())

    def _reloaded(self) -> dict[str, Any]:
        return dict(self.ask(RELOAD, location=LOCATION)["reloadRepositoryLocation"])

    def add_partition(self, definition: str, key: str) -> None:
        """Adds a key to a dynamic partitions definition."""
        given = {"repository": REPOSITORY, "definition": definition, "key": key}
        answer = self.ask(ADD_PARTITION, **given)["addDynamicPartition"]
        assert answer["__typename"] == "AddDynamicPartitionSuccess", answer

    def partitions(self, asset: str) -> list[str]:
        """Returns the keys of an asset's partitions."""
        return list(self.ask(PARTITIONS, path=asset.split("/"))["assetNodeOrError"]["partitionKeys"])

    # Runs -------------------------------------------------------------------------------------------------------------

    def launch_run(
        self,
        asset: str,
        *,
        partition: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Launches a run of one asset as its dialog does, and returns its id.

        Args:
            asset: Its key, with slashes.
            partition: If it has partitions.
            config: Of the asset.
            tags: Of the run.
        """
        given = {"dagster/partition": partition} if partition is not None else {}
        selector = {
            **REPOSITORY,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": asset.split("/")}],
        }
        parameters = {
            "selector": selector,
            "mode": "default",
            "runConfigData": run_config(asset, config),
            "executionMetadata": {"tags": _tags({**given, **(tags or {})})},
        }
        answer = self.ask(LAUNCH_RUN, parameters=parameters)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def launch_backfill(self, asset: str, partitions: Sequence[str], *, config: Mapping[str, Any] | None = None) -> str:
        """Launches a backfill of partitions of one asset, and returns its id."""
        parameters = {
            "assetSelection": [{"path": asset.split("/")}],
            "partitionNames": list(partitions),
            "runConfigData": run_config(asset, config),
        }
        answer = self.ask(LAUNCH_BACKFILL, parameters=parameters)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def run(self, run_id: str) -> dict[str, Any]:
        """Returns status, times and tags of a run."""
        found: dict[str, Any] = self.ask(RUN, id=run_id)["runOrError"]
        return {**found, "tags": {tag["key"]: tag["value"] for tag in found["tags"]}}

    def runs(self, *statuses: str, tags: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Returns the runs with one of these statuses and all of these tags, newest first."""
        wanted = {"statuses": list(statuses) or None, "tags": _tags(tags or {})}
        found = self.ask(RUNS, filter=wanted)["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]

    def wait_for_run(self, run_id: str, timeout_s: float = 300, *, succeeds: bool = True) -> dict[str, Any]:
        """Waits for the end of a run, and asserts that it is a success, or with `succeeds=False` that it is not."""
        ended = ("SUCCESS", *FAILED)
        self.wait_for(lambda: self.run(run_id)["status"] in ended, f"run {run_id}", timeout_s)
        run = self.run(run_id)
        assert (run["status"] == "SUCCESS") == succeeds, f"{run['status']}: {self.failures(run_id)}"
        return run

    def terminate(self, run_id: str) -> None:
        """Terminates a run, as the button does."""
        self.ask(TERMINATE, id=run_id)

    def logs(self, run_id: str) -> list[dict[str, Any]]:
        """Returns the events of a run, oldest first."""
        return list(self.ask(LOGS, id=run_id)["logsForRun"]["events"])

    def failures(self, run_id: str) -> list[str]:
        """Returns what the page of a run shows of its failed steps, or its last message."""
        events = self.logs(run_id)
        found = [event for event in events if event["__typename"] == "ExecutionStepFailureEvent"]
        said = [str(event.get("failureMetadata") or event.get("error") or event) for event in found]
        return said or [event["message"] for event in events[-1:]]

    def wait_for_backfill(self, backfill_id: str, timeout_s: float = 400, *, succeeds: bool = True) -> dict[str, Any]:
        """Waits for the end of a backfill; its `runs` have ids and statuses."""

        def look() -> dict[str, Any]:
            found: dict[str, Any] = self.ask(BACKFILL, id=backfill_id)["partitionBackfillOrError"]
            return found

        ended = ("COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
        self.wait_for(lambda: look()["status"] in ended, f"backfill {backfill_id}", timeout_s)
        backfill = look()
        said = [self.failures(run["runId"]) for run in backfill["runs"] if run["status"] in FAILED]
        assert (backfill["status"] == "COMPLETED_SUCCESS") == succeeds, (backfill, said)
        return backfill

    def pool(self, name: str) -> dict[str, Any]:
        """Returns what holds a pool."""
        found: dict[str, Any] = self.ask(POOL, pool=name)["instance"]["concurrencyLimit"]
        return found

    # What was recorded ------------------------------------------------------------------------------------------------

    def materializations(self, asset: str, limit: int = 100) -> list[dict[str, Any]]:
        """Returns the materialisations of an asset, newest first.

        Each has `run_id`, `timestamp`, `partition`, `tags`, and its metadata by label as `metadata`.
        """
        answer = self.ask(EVENTS, path=asset.split("/"), limit=limit)["assetOrError"]
        return [
            {
                "run_id": event["runId"],
                "timestamp": int(event["timestamp"]) / 1000,
                "partition": event["partition"],
                "tags": {tag["key"]: tag["value"] for tag in event["tags"]},
                "metadata": metadata_of(event["metadataEntries"]),
            }
            for event in answer.get("assetMaterializations", ())
        ]

    def checks(self, asset: str) -> dict[str, dict[str, Any] | None]:
        """Returns the newest execution of each check of an asset by name; None of one that never ran.

        An execution has `status`, `success`, `severity`, `description` and `metadata`.
        """
        answer = self.ask(CHECKS, path=asset.split("/"))["assetNodeOrError"]["assetChecksOrError"]
        return {check["name"]: _execution(check["executionForLatestMaterialization"]) for check in answer["checks"]}

    def freshness(self, asset: str) -> str:
        """Returns HEALTHY, WARNING, DEGRADED, UNKNOWN or NOT_APPLICABLE."""
        return str(
            self.ask(FRESHNESS, path=asset.split("/"))["assetNodeOrError"]["freshnessStatusInfo"]["freshnessStatus"]
        )

    # Sensors and schedules --------------------------------------------------------------------------------------------

    def start_sensor(self, name: str) -> None:
        """Switches a sensor on."""
        answer = self.ask(START_SENSOR, sensor={**REPOSITORY, "sensorName": name})["startSensor"]
        assert answer["__typename"] == "Sensor", answer

    def stop_sensor(self, name: str) -> None:
        """Switches a sensor off, and waits for the tick that the daemon had begun by then, or was just to begin."""
        sensor = self.ask(SENSOR, sensor={**REPOSITORY, "sensorName": name})["sensorOrError"]
        answer = self.ask(STOP_SENSOR, id=sensor["sensorState"]["id"])["stopSensor"]
        assert answer["__typename"] == "StopSensorMutationResult", answer
        newest: list[Any] = []

        def has_settled() -> bool:
            newest.extend((tick["timestamp"], tick["status"]) for tick in self.ticks(name)[:1])
            return len(newest) >= SETTLED and len(set(newest[-SETTLED:])) == 1 and newest[-1][1] != "STARTED"

        self.wait_for(has_settled, "the last tick of a sensor", every_s=0.5)

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        """Returns the newest ticks of a sensor: `status`, `timestamp`, `skipReason`, `cursor`, `runIds`, `error`."""
        found = self.ask(SENSOR, sensor={**REPOSITORY, "sensorName": sensor})["sensorOrError"]
        return list(found["sensorState"]["ticks"])

    def start_schedule(self, name: str) -> None:
        """Switches a schedule on."""
        answer = self.ask(START_SCHEDULE, schedule={**REPOSITORY, "scheduleName": name})["startSchedule"]
        assert answer["__typename"] == "ScheduleStateResult", answer

    def daemons(self) -> dict[str, bool]:
        """Returns which of the required daemons are healthy."""
        found = self.ask(DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        return {one["daemonType"]: bool(one["healthy"]) for one in found if one["required"]}


def run_config(asset: str, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the run's config from that of one asset."""
    return {"ops": {asset.replace("/", "__"): {"config": dict(config)}}} if config is not None else {}


def metadata_of(entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns metadata by label; a table is a list of its rows."""
    found = {}
    for entry in entries:
        entry = dict(entry)
        kind, label = entry.pop("__typename"), entry.pop("label")
        value = next(iter(entry.values()), None)
        if kind == "TableMetadataEntry":
            value = [json.loads(row) for row in value["records"]]
        found[label] = json.loads(value) if kind == "JsonMetadataEntry" else value
    return found


def _is_loaded(answer: dict[str, Any]) -> bool:
    return (answer.get("locationOrLoadError") or {}).get("__typename") == "RepositoryLocation"


def _execution(found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    evaluation = found["evaluation"] or {"metadataEntries": ()}
    told = {name: evaluation.get(name) for name in ("success", "severity", "description")}
    return {"status": found["status"], **told, "metadata": metadata_of(evaluation["metadataEntries"])}


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
