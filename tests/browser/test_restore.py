"""A restore as a person starts it: a backfill over ranges of the key groups of one savepoint."""

from typing import Any

import pytest
from dagster_pages import AssetPage, shows
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


def test_a_backfill_by_clicks_restores_the_chosen_key_groups_and_no_others(live: Any, page: Page) -> None:
    client, restored = live.client, AssetPage(page, live.url, "flights/restored_state")
    client.add_partition("flights_savepoints", "last-night")
    client.wait_for_run(client.launch_run("flights/savepoint", partition="last-night"))
    live.log.checkpoints(5, 6)
    before, groups = place(live), live.log.log.max_parallelism

    restored.choose(savepoint=["last-night"], key_groups=[range_name(index) for index in CHOSEN])
    restored.launch_backfill()
    client.wait_for(lambda: len(client.materializations("flights/restored_state")) == len(CHOSEN), "the backfill", 240)

    (diff,) = diff_states(str(live.root), "flights", before, place(live), examples=100)
    changed = {next(iter(one.entry.values())) for one in diff.examples}
    chosen = {group for index in CHOSEN for group in key_groups_of(index, groups)}
    assert changed == {
        key for key in (f"N{n}" for n in range(20)) if key_group_of((key,), ["string"], groups) in chosen
    }
    assert 0 < len(changed) < 20
    shows(restored.open("partitions"), ["Materialized (3)", "Missing (13)", range_name(3)])
    shows(restored.open("events"), ["last-night", "key_groups"])
