"""A restore of a running stream, as a person starts it: a backfill over key group ranges of one savepoint."""

from typing import Any

import pytest
from dagster_pages import shows
from live_job import MAX_PARALLELISM
from playwright.sync_api import Page
from restores import chosen_of, restore_by_clicks, take_last_nights

from state_engine.key_groups import key_group_of

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


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
