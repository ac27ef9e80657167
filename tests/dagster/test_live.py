"""That the live Dagster and the live stream are what other tests take them for."""

import pytest
from live_job import truth

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


def test_a_stream_is_fed_reported_and_stands_in_a_savepoint(live_dagster, new_live_stream):
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
    assert reported() == before, "the stream goes on, and nobody tells"
    live_dagster.restart("code-server")
    live_dagster.restart("daemon")
    client.wait_for(lambda: reported() >= stream.checkpoint, "the checkpoint sensor")
    stream.stop()
