"""Backfills that restore running streams, through a real daemon: only what was chosen changes."""

import time

import pytest
from live_job import MAX_PARALLELISM, truth
from live_restores import backfill, partitions, restore_three_of_sixteen, take_savepoint

from lakestate.assets.ranges import RANGES
from lakestate.supervision import StartRequest, start_driver, stop_driver
from state_engine.inspect import open_job
from state_engine.key_groups import key_group_of
from state_engine.storage.open import open_storage

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_backfill_restores_three_of_sixteen_ranges_of_a_stopped_stream(live_dagster, new_live_stream):
    stream = new_live_stream("part").feed(3).start().wait_until_read()
    restore_three_of_sixteen(live_dagster, stream, running=False)
    stream.stop()


@pytest.mark.parametrize("running", [False, True])
def test_a_full_restore_with_rewind_ends_with_the_results_of_a_batch(live_dagster, new_live_stream, running):
    stream, client = new_live_stream("rewind"), live_dagster.client
    stream.feed(3)
    root = str(live_dagster.root)
    start_driver(root, stream.job, StartRequest(options={"checkpoint_interval_ms": "300"}))
    stream.wait_until_read()
    savepoint_id, at_savepoint = take_savepoint(live_dagster, stream)
    stream.feed(3).wait_until_read()
    if not running:
        stop_driver(root, stream.job)
    done = backfill(live_dagster, stream, range(RANGES), rewind=True)
    assert len(done["runs"]) == 1
    metadata = client.materializations(f"{stream.job}/restored_state")[0]["metadata"]
    assert metadata["landed_in"].startswith("2/")
    assert (metadata["savepoint_id"], metadata["job_was_running"]) == (savepoint_id, running)
    if not running:
        assert stream.newest.generation == 2
        assert not stream.changed_keys(at_savepoint, stream.place)
        assert len(stream.tally()) == 180, "the Delta sinks were rewound"
        start_driver(root, stream.job, StartRequest())
    stream.feed(1).wait_until_read()
    assert stream.newest.generation == 2
    assert (stream.tally(), stream.totals()) == truth(stream.rows)
    stop_driver(root, stream.job)


def damage(stream, savepoint_id):
    """Changes a byte of the newest file of a savepoint; returns its path."""
    storage = open_storage(stream.root, stream.job)
    (pin,) = [one for one in open_job(stream.root, stream.job).savepoints() if one.savepoint_id == savepoint_id]
    path, _ = pin.handles[-1]
    data = bytearray(storage.get(path))
    data[-9] ^= 0xFF
    storage.delete(path)
    storage.put_exclusive(path, bytes(data))
    return path


def test_what_cannot_be_restored_is_refused_and_changes_nothing(live_dagster, new_live_stream):
    stream, other, client = new_live_stream("refused"), new_live_stream("other"), live_dagster.client
    other.feed(1).start(available_now=True)
    # Nothing is inlined, so that there is a file to damage whether or not a checkpoint is published by then.
    stream.feed(1).start(available_now=True, data_inline_threshold="0")
    assert (stream.wait_for_end(), other.wait_for_end()) == (0, 0)
    taken, _ = take_savepoint(live_dagster, stream, "first")
    stream.feed(1).start(available_now=True)
    assert stream.wait_for_end() == 0
    take_savepoint(live_dagster, stream, "second")
    others, _ = take_savepoint(live_dagster, other)
    client.add_partition(f"{stream.job}_savepoints", others)
    damaged = damage(stream, taken)
    before, asset = stream.place, f"{stream.job}/restored_state"

    def said_of(chosen, count):
        done = client.wait_for_backfill(client.launch_backfill(asset, chosen), succeeds=False)
        assert len(done["runs"]) == count
        return [" ".join(client.failures(run["runId"])) for run in done["runs"]]

    for said in said_of([*partitions([1, 2, 3], "first"), *partitions([4, 5, 6], "second")], 2):
        assert "spans 2 savepoints: first, second" in said
    (said,) = said_of(partitions([1, 2, 3], "first"), 1)
    assert "is damaged, so nothing was restored" in said
    assert damaged in said
    (said,) = said_of(partitions([1, 2, 3], others), 1)
    assert f"is one of job '{other.job}', not of '{stream.job}'" in said
    assert stream.place == before
    assert client.materializations(asset) == []


def test_a_dry_run_and_a_wrong_config_change_nothing(live_dagster, new_live_stream):
    stream, client = new_live_stream("dry"), live_dagster.client
    stream.feed(2).start().wait_until_read()
    take_savepoint(live_dagster, stream)
    stream.stop()
    before, asset = stream.place, f"{stream.job}/restored_state"
    tags = {
        "dagster/asset_partition_range_start": partitions([0], "nightly")[0],
        "dagster/asset_partition_range_end": partitions([RANGES - 1], "nightly")[0],
    }
    client.wait_for_run(client.launch_run(asset, config={"dry_run": True, "rewind": True}, tags=tags))
    done = backfill(live_dagster, stream, range(RANGES), succeeds=False, rewind=True, operators=["tally"])
    said = [client.failures(run["runId"]) for run in done["runs"]]
    assert any("for all operators" in one for of_run in said for one in of_run), (done, said)
    assert stream.place == before
    assert client.materializations(asset) == []


@pytest.mark.parametrize(("point", "is_whole"), [("before restore", False), ("after restore", True)])
def test_a_killed_restore_has_happened_whole_or_not_at_all_and_frees_the_pool(
    live_dagster, new_live_stream, point, is_whole
):
    stream, client = new_live_stream("killed"), live_dagster.client
    stream.feed(2).start(available_now=True)
    assert stream.wait_for_end() == 0
    take_savepoint(live_dagster, stream)
    stream.feed(2).start(available_now=True)
    assert stream.wait_for_end() == 0
    before, asset = stream.place, f"{stream.job}/restored_state"
    tags = {
        "dagster/asset_partition_range_start": partitions([4], "nightly")[0],
        "dagster/asset_partition_range_end": partitions([7], "nightly")[0],
    }
    live_dagster.hold(point)
    try:
        run_id = client.launch_run(asset, tags={**tags, "dagster/max_runtime": "60"})
        live_dagster.wait_until_held()
        live_dagster.kill("code-server")  # and the run, which is its child
    finally:
        live_dagster.release()
    killed = time.monotonic()
    live_dagster.restart("code-server")
    changed = {key for _, _, key in stream.changed_keys(before, stream.place)}
    chosen = {one.k for one in stream.rows[120:] if 16 <= key_group_of((one.k,), ["string"], MAX_PARALLELISM) < 32}
    assert chosen
    assert not changed or changed - {f"s{n}" for n in range(5)} == chosen
    assert bool(changed) == is_whole

    again = client.launch_run(asset, tags=tags)
    client.wait_for(lambda: client.run(again)["status"] not in ("QUEUED", "NOT_STARTED"), "the pool", 120)
    assert time.monotonic() - killed < 120
    assert client.run(run_id)["status"] == "FAILURE"
    client.wait_for_run(again)
    assert {key for _, _, key in stream.changed_keys(before, stream.place)} - {f"s{n}" for n in range(5)} == chosen


def test_rescale_and_restore_of_one_job_take_turns_and_another_job_goes_on(live_dagster, new_live_stream):
    stream, other, client = new_live_stream("turns"), new_live_stream("other"), live_dagster.client
    other.feed(1).start()
    stream.feed(2).start().wait_until_read()
    take_savepoint(live_dagster, stream)
    stream.feed(2).wait_until_read()
    before = stream.place
    tags = {
        "dagster/asset_partition_range_start": partitions([0], "nightly")[0],
        "dagster/asset_partition_range_end": partitions([7], "nightly")[0],
    }
    client.add_partition(f"{other.job}_savepoints", "meanwhile")
    other.feed(2)
    runs = [
        client.launch_run(f"{stream.job}/rescaled_state", config={"parallelism": 3}),
        client.launch_run(f"{stream.job}/restored_state", tags=tags),
    ]
    elsewhere = client.launch_run(f"{other.job}/savepoint", partition="meanwhile")
    for run_id in (*runs, elsewhere):
        client.wait_for_run(run_id)
    first, second = sorted((client.run(run_id) for run_id in runs), key=lambda run: run["startTime"])
    assert first["endTime"] <= second["startTime"]
    assert client.run(elsewhere)["startTime"] < second["endTime"], "it did not wait for the other job's pool"
    assert {uid: one.parallelism for uid, one in stream.newest.operators.items()} == {"tally": 3, "totals": 3}
    changed = {key for uid, _, key in stream.changed_keys(before, stream.place) if uid == "tally"}
    assert changed
    assert all(key_group_of((key,), ["string"], MAX_PARALLELISM) < 32 for key in changed)
    other.wait_until_read()
    assert (other.tally(), other.totals()) == truth(other.rows)
    stream.feed(1).wait_until_read()
    stream.stop()
    other.stop()
