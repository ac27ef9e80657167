"""A real daemon that is killed in the middle of a tick reports no checkpoint twice and loses none."""

import signal

import pytest

from lakestate.resources import StateStoreResource

KILLER = '''
"""Kills the daemon after a materialisation that it has written."""

import os
import signal

if "KILL_BEHIND_EVENT" in os.environ:
    from dagster import DagsterInstance

    left = int(os.environ["KILL_BEHIND_EVENT"])
    report = DagsterInstance.report_runless_asset_event

    def report_and_die(self, event):
        global left
        report(self, event)
        left -= type(event).__name__ == "AssetMaterialization"
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    DagsterInstance.report_runless_asset_event = report_and_die
'''
LAST_OF_A_TICK = 2  # the checkpoint comes after the state

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def dagster(tmp_path):
    from live_dagster import LiveDagster

    folder = tmp_path / "live"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(KILLER)
    with LiveDagster(folder) as live:
        live.declare("flights")
        yield live


@pytest.fixture
def written(new_stream, dagster):
    return new_stream(dagster.root)


def reported(dagster, asset):
    """Returns (checkpoint id, skipped) of all events of an asset, oldest first."""
    events = dagster.client.materializations(f"flights/{asset}", limit=1_000)[::-1]
    return [(event["metadata"]["checkpoint_id"], event["metadata"]["skipped_checkpoints"]) for event in events]


def assert_each_was_told_once(dagster, newest):
    for asset in ("checkpoint", "states/aircraft.legs"):
        ids = [checkpoint_id for checkpoint_id, _ in reported(dagster, asset)]
        assert ids == sorted(set(ids)), asset
        assert ids[-1] == newest
        assert sum(skipped + 1 for _, skipped in reported(dagster, asset)) == newest, asset


def test_a_daemon_killed_inside_a_tick(dagster, written):
    client = dagster.client
    written.checkpoints(1, 1)
    client.wait_for(lambda: reported(dagster, "checkpoint"), "the first checkpoint")
    newest = 1
    for events in (1, LAST_OF_A_TICK, 1):
        dagster.kill("daemon")
        written.checkpoints(newest + 1, newest + 2)
        newest += 2
        dagster.environment["KILL_BEHIND_EVENT"] = str(events)
        dagster.start("daemon")
        killed = dagster._processes.pop("daemon")
        assert killed.wait(120) == -signal.SIGKILL, dagster.logs()
        del dagster.environment["KILL_BEHIND_EVENT"]
        dagster.restart("daemon")
        client.wait_for(lambda: client.ticks("flights_checkpoints")[0]["status"] != "STARTED", "a tick")
        client.wait_for(lambda: reported(dagster, "checkpoint")[-1][0] == newest, "the newest checkpoint")  # noqa: B023
        assert_each_was_told_once(dagster, newest)


def test_a_dagster_that_was_away_reports_the_newest_and_counts_the_others(dagster, written):
    client = dagster.client
    written.checkpoints(1, 1)
    client.wait_for(lambda: reported(dagster, "checkpoint"), "the first checkpoint")
    for part in ("daemon", "code-server", "webserver"):
        dagster.kill(part)
    written.checkpoints(2, 21)
    for part in ("code-server", "webserver", "daemon"):
        dagster.start(part)
    dagster.wait_until_ready()
    client.wait_for(lambda: reported(dagster, "checkpoint")[-1][0] == 21, "the newest checkpoint")
    assert reported(dagster, "checkpoint") == reported(dagster, "states/aircraft.legs") == [(1, 0), (21, 19)]
    rows = StateStoreResource(root=str(dagster.root)).open_job("flights").checkpoints()
    assert [(row.checkpoint_id, row.status) for row in rows] == [(number, "completed") for number in range(1, 22)]
