"""Savepoints and retention in a live Dagster: every savepoint becomes a partition with its checks passed."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from live_job import truth
from live_savepoints import NONE, SECOND, events, policies, wait_for_savepoint

from lakestate.policies import RescalePolicy, SavepointPolicy, StreamPolicies, StreamRetention
from state_engine.checkpoint.failure_reasons import FailureReason
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.rows import ended_row
from state_engine.checkpoint.table import CheckpointTable
from state_engine.clock import SystemClock
from state_engine.epoch.ports import Mark
from state_engine.savepoint import list_savepoints
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


def test_one_by_cron_within_a_minute_of_its_time(live_dagster, new_live_stream):
    stream = new_live_stream(policies=policies(cron="* * * * *"))
    stream.feed(2).start().wait_until_read()
    event = wait_for_savepoint(live_dagster, stream, "policy:cron")
    due = datetime.strptime(event["partition"], "cron-%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    taken = next(one for one in list_savepoints(stream.root, stream.job) if one.label == event["partition"])
    assert timedelta(0) <= datetime.fromtimestamp(taken.created_at / 1000, UTC) - due <= timedelta(seconds=60)
    stream.stop()


def test_every_n_checkpoints_and_growth(live_dagster, new_live_stream):
    stream = new_live_stream(policies=policies(every_n_checkpoints=2))
    stream.feed(2).start().wait_until_read()
    stream.feed(3).wait_until_read()
    stream.wait_for(lambda: stream.checkpoint >= 2, "two checkpoints")
    event = wait_for_savepoint(live_dagster, stream, "policy:every_n_checkpoints")
    assert event["metadata"]["checkpoint_id"] >= 2
    live_dagster.declare(stream.job, policies=policies(growth_percent=5))
    stream.feed(1, rows=5_000).wait_until_read()
    grown = wait_for_savepoint(live_dagster, stream, "policy:growth_percent")
    assert grown["metadata"]["state_bytes"] > event["metadata"]["state_bytes"]
    stream.stop()


def test_a_new_code_version(live_dagster, new_live_stream):
    client, stream = live_dagster.client, new_live_stream(policies=policies(on_new_code_version=True))
    stream.feed(2).start().wait_until_read()
    sensor = f"{stream.job}_savepoint_triggers"
    client.wait_for(lambda: any(tick["cursor"] for tick in client.ticks(sensor)), "the version to be seen")
    assert list_savepoints(stream.root, stream.job) == []
    metadata = live_dagster.folder / "live_jobs-1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1", "Version: 2"))
    client.reload()
    event = wait_for_savepoint(live_dagster, stream, "policy:on_new_code_version")
    seen = {tick["cursor"] for tick in client.ticks(sensor) if tick["cursor"]}
    assert event["metadata"]["code_version"] not in seen
    stream.stop()


def test_one_before_a_rescale_that_a_sensor_sees_to(live_dagster, new_live_stream):
    idle = RescalePolicy(
        action="act", by_busy_alone=True, busy_below=0.95, busy_above=1.0, min_parallelism=2, max_parallelism=4,
        looks=2, look_every=SECOND,
    )  # fmt: skip
    savepoints = SavepointPolicy(before_rescale=True, record_taken_elsewhere=True, spacing=NONE, look_every=SECOND)
    wanted = StreamPolicies(report_every=SECOND, savepoints=savepoints, rescale=idle)
    client, stream = live_dagster.client, new_live_stream(policies=wanted)
    stream.feed(2).start(parallelism=4).wait_until_read()
    event = wait_for_savepoint(live_dagster, stream, "policy:before_rescale")
    rescaled = f"{stream.job}/rescaled_state"
    (done,) = client.wait_for(lambda: client.materializations(rescaled), "the rescale")
    assert done["metadata"]["savepoint_id"] == event["metadata"]["savepoint_id"]
    assert "busy for" in done["metadata"]["reason"]
    assert {one.parallelism for one in stream.newest.operators.values()} == {2}
    stream.feed(2).wait_until_read()
    assert (stream.tally(), stream.totals()) == truth(stream.rows)
    stream.stop()


def test_checkpoints_that_failed_in_a_row(live_dagster, new_live_stream):
    stream = new_live_stream(policies=policies(failures_in_a_row=2))
    stream.feed(2).start().wait_until_read()
    stream.stop()
    storage = open_storage(stream.root, stream.job)
    rows, head, first = CheckpointTable(storage, open_tables(storage)), stream.head(), stream.checkpoint + 1
    for number in (first, first + 1):
        row = ended_row(head, Mark(checkpoint_id=number), FailureReason.FINALIZE_CHECKPOINT_FAILURE, _now(), "full")
        rows.append([_numbered(row, number)], app_id=f"test/{number}", version=1)
    event = wait_for_savepoint(live_dagster, stream, "policy:failures_in_a_row")
    assert event["metadata"]["epoch"] == stream.newest.epoch


def test_retention_removes_what_the_policy_says_and_says_how_much(live_dagster, new_live_stream):
    rules = RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=1), grace_ms=0)
    client = live_dagster.client
    stream = new_live_stream(policies=policies(StreamRetention(policy=rules), every_n_checkpoints=1))
    stream.feed(2).start().wait_until_read()
    client.add_partition(f"{stream.job}_savepoints", "mine")
    client.wait_for_run(client.launch_run(f"{stream.job}/savepoint", partition="mine"))

    def by_policy():
        return [name for name in events(live_dagster, stream) if name.startswith("every_n_checkpoints")]

    while len(by_policy()) < 3:
        before = len(by_policy())
        stream.feed(1).wait_until_read()
        client.wait_for(lambda before=before: len(by_policy()) > before, "a savepoint of the policy")
    stream.stop()
    live_dagster.declare(stream.job, policies=policies(StreamRetention(policy=rules)))  # no further savepoint
    client.wait_for(lambda: not client.runs("STARTED", "QUEUED", "STARTING"), "runs to end")
    before = sizes(stream)
    kept = max(list_savepoints(stream.root, stream.job), key=lambda one: (one.trigger != "dagster", one.created_at))
    dry = client.launch_run(f"{stream.job}/retention", config={"dry_run": True})
    client.wait_for_run(dry)
    assert sizes(stream) == before
    client.wait_for_run(client.launch_run(f"{stream.job}/retention"))
    done, planned = client.materializations(f"{stream.job}/retention")
    gone = {path: size for path, size in before.items() if path not in sizes(stream)}
    assert (planned["metadata"]["dry_run"], planned["metadata"]["removed_bytes"]) == (True, 0)
    assert done["metadata"]["removed_bytes"] == planned["metadata"]["bytes"] == sum(gone.values()) > 0
    assert {one.label for one in list_savepoints(stream.root, stream.job)} == {"mine", kept.label}
    assert set(client.partitions(f"{stream.job}/savepoint")) == {"mine", kept.label}
    stream.start().feed(1).wait_until_read()
    stream.stop()


def sizes(stream):
    """Returns the length of every file of the job, except those of its process."""
    folder = Path(stream.root) / stream.job
    files = [path for path in folder.rglob("*") if path.is_file() and "_control" not in path.parts]
    return {str(path.relative_to(folder)): os.path.getsize(path) for path in files}


def _now():
    return SystemClock().now_ms()


def _numbered(row, number):
    return msgspec.structs.replace(row, id=str(number), checkpoint_id=number)
