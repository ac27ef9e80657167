"""A restore as a person starts it: a backfill over ranges of the key groups of one savepoint."""

from typing import Any

import pytest
from dagster_pages import AssetPage, shows
from live_job import MAX_PARALLELISM
from playwright.sync_api import Page

from lakestate.assets.ranges import key_groups_of, range_name
from state_engine.inspect import diff_states, open_job
from state_engine.key_groups import key_group_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CHOSEN = (3, 4, 11)


def place(live: Any) -> str:
    newest = open_job(str(live.root), "flights").newest()
    assert newest is not None
    return f"epoch:{newest.manifest.generation}/{newest.manifest.epoch}"


def chosen_of(groups: int) -> set[int]:
    ranges = (key_groups_of(index, groups) for index in CHOSEN)
    return {group for one in ranges for group in range(one.first, one.last + 1)}


def restore_by_clicks(live: Any, page: Page, job: str) -> AssetPage:
    """Clicks a backfill of the chosen ranges together, and waits for what it recorded; returns the page."""
    asset = f"{job}/restored_state"
    restored = AssetPage(page, live.url, asset)
    restored.choose(savepoint=["last-night"], key_groups=[range_name(index) for index in CHOSEN])
    restored.launch_backfill()
    client = live.client
    client.wait_for(lambda: len(client.materializations(asset)) == len(CHOSEN), "the backfill", 240)
    return restored


def take_last_nights(live: Any, job: str) -> dict[str, Any]:
    """Takes a savepoint through Dagster; returns its metadata."""
    live.client.add_partition(f"{job}_savepoints", "last-night")
    live.client.wait_for_run(live.client.launch_run(f"{job}/savepoint", partition="last-night"))
    return dict(live.client.materializations(f"{job}/savepoint")[0]["metadata"])


def test_a_backfill_by_clicks_restores_the_chosen_key_groups_and_no_others(live: Any, page: Page) -> None:
    take_last_nights(live, "flights")
    live.log.checkpoints(5, 6)
    before, groups = place(live), live.log.log.max_parallelism

    restored = restore_by_clicks(live, page, "flights")

    (diff,) = diff_states(str(live.root), "flights", before, place(live), examples=100)
    changed = {next(iter(one.entry.values())) for one in diff.examples}
    assert changed == {
        key for key in (f"N{n}" for n in range(20)) if key_group_of((key,), ["string"], groups) in chosen_of(groups)
    }
    assert 0 < len(changed) < 20
    shows(restored.open("partitions"), ["Materialized (3)", "Missing (13)", range_name(3)])
    shows(restored.open("events"), ["last-night", "key_groups"])


@pytest.mark.spark
def test_a_backfill_by_clicks_into_a_stream_that_runs(live: Any, page: Page, new_live_stream: Any) -> None:
    stream = new_live_stream("clicked")
    stream.feed(3).start().wait_until_read()
    taken = take_last_nights(live, stream.job)
    at_savepoint = f"epoch:{taken['generation']}/{taken['epoch']}"
    stream.feed(3).wait_until_read()
    before = stream.place
    chosen = chosen_of(MAX_PARALLELISM)
    since = stream.changed_keys(at_savepoint, before)
    theirs = {one for one in since if key_group_of((one[2],), ["string"], MAX_PARALLELISM) in chosen}
    assert any("timer" in state for _, state, _ in theirs)
    assert theirs < since

    restored = restore_by_clicks(live, page, stream.job)
    assert stream.runs
    assert stream.changed_keys(before, stream.place) == theirs
    assert stream.changed_keys(at_savepoint, stream.place) == since - theirs
    shows(restored.open("events"), ["last-night", "job_was_running", "timers"])
    stream.feed(1).wait_until_read()
    stream.stop()
