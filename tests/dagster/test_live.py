"""One live Dagster and one stream that runs: savepoints of it, and a restore into it.

`make test` does the same by clicks, in `tests/browser/test_pages.py`, with a stopped stream.
"""

import pytest
from live_job import truth
from live_restores import restore_three_of_sixteen
from live_savepoints import assert_checked, events, policies, savepoint_of, wait_for_savepoint

from lakestate.rest.bodies import savepoint_trigger
from lakestate.running_job import RunningJob
from state_engine.savepoint import SavepointRequest, trigger_savepoint

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def running(new_shared_stream):
    """A running stream; the tests of this file take savepoints of it and restore it."""
    return new_shared_stream(policies=policies()).feed(3).start().wait_until_read()


def test_one_by_hand_of_a_running_job_is_of_its_next_epoch(live_dagster, running):
    client, stream = live_dagster.client, running
    before = stream.newest.epoch
    stream.feed()  # an idle job with a checkpoint of its newest epoch has no next one
    client.add_partition(f"{stream.job}_savepoints", "by hand")
    config = {"note": "why", "kind": "canonical"}
    client.wait_for_run(client.launch_run(f"{stream.job}/savepoint", partition="by hand", config=config))
    event = events(live_dagster, stream)["by hand"]
    taken = savepoint_of(stream, "by hand")
    assert (taken.trigger, taken.note, taken.kind) == ("dagster", "why", "canonical")
    assert event["metadata"]["savepoint_id"] == taken.savepoint_id
    assert taken.epoch > before
    assert_checked(client, stream, event)
    assert stream.runs


def test_one_of_the_job_itself_and_one_of_a_program(live_dagster, running):
    stream = running
    wanted = SavepointRequest(label="by REST")
    location = RunningJob(stream.root, stream.job).operate("savepoints", body=savepoint_trigger(wanted)).result
    event = wait_for_savepoint(live_dagster, stream, "rest")
    assert event["partition"] == location.rpartition("/")[2]
    taken = trigger_savepoint(stream.root, stream.job, label="by a program")
    event = wait_for_savepoint(live_dagster, stream, "user")
    assert (event["partition"], event["metadata"]["label"]) == (taken.savepoint_id, "by a program")


def test_a_backfill_restores_three_of_sixteen_ranges_of_a_stream_that_runs(live_dagster, running):
    restore_three_of_sixteen(live_dagster, running, running=True)


def test_a_stream_is_fed_and_reported_and_is_in_a_savepoint(live_dagster, new_live_stream):
    stream = new_live_stream()
    client = live_dagster.client
    assert {f"{stream.job}/checkpoint", f"{stream.job}/savepoint"} <= client.assets()
    stream.feed(3).start().wait_until_read()
    first = stream.place
    stream.feed(1).wait_until_read()
    assert (stream.tally(), stream.totals()) == truth(stream.rows)
    assert {(diff.uid, diff.state) for diff in stream.differences(first, stream.place) if not diff.is_equal} >= {
        ("tally", "times"), ("tally", "recent"), ("tally", "by_sub"), ("totals", "total"),
    }  # fmt: skip
    timers = [diff for diff in stream.differences(first, stream.place) if "timer" in diff.state and diff.uid == "tally"]
    assert sum(diff.added for diff in timers) > 10

    client.wait_for(lambda: client.materializations(f"{stream.job}/checkpoint"), "the checkpoint sensor")
    assert client.ticks(f"{stream.job}_checkpoints")
    client.add_partition(f"{stream.job}_savepoints", "one")
    run_id = client.launch_run(f"{stream.job}/savepoint", partition="one")
    client.wait_for_run(run_id)
    (event,) = client.materializations(f"{stream.job}/savepoint")
    assert (event["run_id"], event["partition"], event["metadata"]["label"]) == (run_id, "one", "one")
    stream.stop()


def test_daemon_and_code_server_come_back_from_a_kill(live_dagster, new_live_stream):
    stream = new_live_stream()
    stream.feed(2).start()
    client, asset = live_dagster.client, f"{stream.job}/checkpoint"

    def reported():
        return max((event["metadata"]["checkpoint_id"] for event in client.materializations(asset)), default=0)

    client.wait_for(reported, "the checkpoint sensor")
    live_dagster.kill("daemon")
    live_dagster.kill("code-server")
    before = reported()
    stream.feed(2).wait_until_read()
    stream.wait_for(lambda: stream.checkpoint > before, "a checkpoint")
    assert reported() == before, "the stream goes on, and nothing reports it"
    live_dagster.restart("code-server")
    live_dagster.restart("daemon")
    client.wait_for(lambda: reported() >= stream.checkpoint, "the checkpoint sensor")
    stream.stop()
