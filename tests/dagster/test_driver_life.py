"""The life of a driver under a real daemon: started detached, killed, overdue, started again, given up."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from graphql_client import metadata_of
from live_job import truth

from lakestate.policies import FixedDelay, StreamPolicies
from lakestate.resources import JobControlResource
from lakestate.supervision import Condition, StartRequest
from state_engine.savepoint import SavepointRequest, list_savepoints

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

PATIENCE_S = 400
SECOND = timedelta(seconds=1)
OBSERVATIONS = """query ($path: [String!]!) { assetOrError(assetKey: {path: $path}) { ... on Asset {
  assetObservations(limit: 20) { metadataEntries { ...Entries } } } } }"""


def observations(client, job):
    """Returns the metadata of what was observed of `<job>/checkpoint`, oldest first."""
    found = client.ask(OBSERVATIONS, path=[job, "checkpoint"])["assetOrError"].get("assetObservations", ())
    return [metadata_of(one["metadataEntries"]) for one in reversed(found)]


def members(group):
    """Returns the processes of a group that have not ended."""
    processes = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                state, _, pgrp = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(pgrp) == group and state != "Z":
                processes.append(int(process.name))
    return processes


def test_a_driver_that_is_killed_is_overdue_and_then_restarted_from_its_newest_epoch(live_dagster, new_live_stream):
    restart = FixedDelay(attempts=5, delay=timedelta(milliseconds=100))
    policies = StreamPolicies(
        report_every=SECOND, watch_every=SECOND, fresh_within=timedelta(minutes=1), restart=restart
    )
    stream = new_live_stream(policies=policies)
    client, control, job = live_dagster.client, JobControlResource(root=stream.root), stream.job
    asset, sensor = f"{job}/checkpoint", f"{job}_health"
    stream.feed(3)
    control.start(job)
    stream.wait_until_read(PATIENCE_S)
    client.wait_for(lambda: client.freshness(asset) == "HEALTHY", "a fresh checkpoint", PATIENCE_S)
    client.wait_for(lambda: any("runs as process" in str(one["skipReason"]) for one in client.ticks(sensor)), "a look")

    client.stop_sensor(sensor)
    killed, sealed = control.status(job), stream.newest
    os.kill(killed.pid, signal.SIGKILL)
    stream.feed(2)
    stream.wait_for(lambda: not members(killed.pid), "the end of its JVM")
    client.wait_for(lambda: client.freshness(asset) == "DEGRADED", "an overdue checkpoint", PATIENCE_S)
    assert control.status(job).condition is Condition.FAILED
    assert stream.newest == sealed, "it was not restarted, since the sensor is off"

    client.start_sensor(sensor)
    stream.wait_until_read(PATIENCE_S)
    restarted = control.status(job)
    assert restarted.condition is Condition.RUNNING
    assert restarted.pid != killed.pid
    assert (stream.newest.generation, stream.newest.epoch > sealed.epoch) == (sealed.generation, True)
    assert (stream.tally(), stream.totals()) == truth(stream.rows)
    [told] = observations(client, job)
    assert (told["health"], told["restarts"], told["pid"]) == ("restarted", 1, restarted.pid)
    assert "as if it was killed" in told["cause"]
    client.wait_for(lambda: client.freshness(asset) == "HEALTHY", "a fresh checkpoint again", PATIENCE_S)

    live_dagster.kill("daemon")
    live_dagster.kill("code-server")  # which has started the driver
    stream.feed(2).wait_until_read(PATIENCE_S)
    assert control.status(job).pid == restarted.pid
    live_dagster.restart("code-server")
    live_dagster.restart("daemon")

    location = control.stop(job, savepoint=SavepointRequest(label="the end"))
    [savepoint] = list_savepoints(stream.root, job)
    assert savepoint.label == "the end"
    assert location.endswith(savepoint.savepoint_id)
    client.wait_for(
        lambda: "was stopped by request" in str(client.ticks(sensor)[0]["skipReason"]), "a look at the stopped job"
    )
    assert control.status(job).condition is Condition.STOPPED
    assert (stream.tally(), stream.totals()) == truth(stream.rows)


def test_a_job_that_fails_at_each_start_is_given_up_and_that_is_reported(live_dagster, new_live_stream):
    restart = FixedDelay(attempts=1, delay=timedelta(milliseconds=100))
    stream = new_live_stream(policies=StreamPolicies(report_every=SECOND, watch_every=SECOND, restart=restart))
    client, control, job = live_dagster.client, JobControlResource(root=stream.root), stream.job
    sensor = f"{job}_health"
    stream.feed(1)
    control.start(job, StartRequest(rest_address="0.0.0.0"))  # refused without a token, before there is a JVM

    def failed_ticks():
        return [tick for tick in client.ticks(sensor) if tick["status"] == "FAILURE"]

    client.wait_for(failed_ticks, "the strategy to come to its end", PATIENCE_S)
    client.wait_for(lambda: "is not restarted" in str(client.ticks(sensor)[0]["skipReason"]), "a later look")
    [failed] = failed_ticks()
    [why] = [cause["message"] for cause in failed["error"]["causes"]]
    assert "2 failures; fixed-delay allows 1 restarts." in why
    assert "UnsafeAddressError: The REST server would listen on 0.0.0.0" in why
    assert [one["health"] for one in observations(client, job)] == ["restarted", "failed"]
    wanted = control.status(job).wanted
    assert len(wanted.attempts) == 2

    control.start(job)
    stream.wait_until_read(PATIENCE_S)
    assert (stream.tally(), stream.totals()) == truth(stream.rows)
    control.stop(job)
