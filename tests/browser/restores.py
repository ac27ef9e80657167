"""What tests of a restore by clicks share: the chosen ranges, the savepoint and the clicks."""

from typing import Any

from dagster_pages import AssetPage
from playwright.sync_api import Page

from lakestate.assets.ranges import key_groups_of, range_name

CHOSEN = (3, 4, 11)
"""Numbers of the ranges that are restored."""


def chosen_of(groups: int) -> set[int]:
    """Returns the key groups of the chosen ranges of a job with this number of key groups."""
    ranges = (key_groups_of(index, groups) for index in CHOSEN)
    return {group for one in ranges for group in range(one.first, one.last + 1)}


def restore_by_clicks(live: Any, page: Page, job: str) -> AssetPage:
    """Sets up a backfill of the chosen ranges by clicks, and waits for its event; returns the page."""
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
