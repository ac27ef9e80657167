"""Backfills that restore a live stream to a savepoint, for the tests that launch them."""

from live_job import MAX_PARALLELISM, truth

from lakestate.assets.ranges import key_groups_of, range_name
from state_engine.key_groups import key_group_of

CHOSEN = [2, 3, 9]
GROUPS = {
    group
    for index in CHOSEN
    for group in range(key_groups_of(index, MAX_PARALLELISM).first, key_groups_of(index, MAX_PARALLELISM).last + 1)
}


def is_chosen(key):
    return key_group_of((key,), ["string"], MAX_PARALLELISM) in GROUPS


def partitions(ranges, savepoint):
    return [f"{range_name(index)}|{savepoint}" for index in ranges]


def take_savepoint(live_dagster, stream, name="nightly"):
    """Takes a savepoint through Dagster; returns its id and its epoch."""
    client = live_dagster.client
    client.add_partition(f"{stream.job}_savepoints", name)
    client.wait_for_run(client.launch_run(f"{stream.job}/savepoint", partition=name))
    metadata = client.materializations(f"{stream.job}/savepoint")[0]["metadata"]
    return metadata["savepoint_id"], f"epoch:{metadata['generation']}/{metadata['epoch']}"


def backfill(live_dagster, stream, ranges, savepoint="nightly", *, succeeds=True, **config):
    client = live_dagster.client
    backfill_id = client.launch_backfill(
        f"{stream.job}/restored_state", partitions(ranges, savepoint), config=config or None
    )
    return client.wait_for_backfill(backfill_id, succeeds=succeeds)


def restore_three_of_sixteen(live_dagster, stream, *, running):
    """Takes a savepoint, feeds the stream, restores three ranges to it by a backfill, and feeds the stream once more.

    Asserts that exactly the chosen key groups were restored, timers included, and that the stream goes on from there.

    Args:
        live_dagster: The Dagster in which the stream is declared.
        stream: A stream that runs and has read its input.
        running: Whether it runs during the backfill.
    """
    savepoint_id, at_savepoint = take_savepoint(live_dagster, stream)
    saved = len(stream.rows)
    stream.feed(3).wait_until_read()
    if not running:
        stream.stop()
    before = stream.place
    since = stream.changed_keys(at_savepoint, before)
    assert any(not is_chosen(key) for _, _, key in since)

    done = backfill(live_dagster, stream, CHOSEN)
    assert len(done["runs"]) == 2, "Dagster makes one run for each group of consecutive ranges"
    after = stream.place
    changed = stream.changed_keys(before, after)
    assert changed == {one for one in since if is_chosen(one[2])}
    assert any("timer" in state for _, state, _ in changed)
    assert not {one for one in stream.changed_keys(at_savepoint, after) if is_chosen(one[2])}
    assert stream.newest.generation == 1
    _assert_recorded(live_dagster.client, stream, savepoint_id, running)

    if not running:
        stream.start()
    fed = len(stream.rows)
    stream.feed(1).wait_until_read()
    whole = truth(stream.rows)[0]
    assert [row for row in stream.tally() if not is_chosen(row[1])] == [row for row in whole if not is_chosen(row[1])]
    gone = {row.n for row in stream.rows[saved:fed] if is_chosen(row.k)}
    partly = truth(row for row in stream.rows if row.n not in gone)[0]
    later = [row for row in partly if row[0] >= fed and is_chosen(row[1])]
    assert [row for row in stream.tally() if row[0] >= fed and is_chosen(row[1])] == later


def _assert_recorded(client, stream, savepoint_id, running):
    events = client.materializations(f"{stream.job}/restored_state")
    assert {event["partition"] for event in events} == set(partitions(CHOSEN, "nightly"))
    metadata = [event["metadata"] for event in events]
    assert {one["savepoint_id"] for one in metadata} == {savepoint_id}
    assert {one["key_groups"] for one in metadata} == {"8–15", "36–39"}
    assert {one["job_was_running"] for one in metadata} == {running}
    assert all(one["timers"] > 0 and one["rows_before"] >= one["dagster/row_count"] > 0 for one in metadata)
    assert all("not replayed" in one["input"] and len(one["states"]) <= 20 for one in metadata)
