"""What a person sees of a stream, and does: the graph, a checkpoint, a savepoint by a click."""

from typing import Any

import pytest
from dagster_pages import AssetPage, shows
from playwright.sync_api import Page

from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
JOB = "flights"


def test_the_graph_shows_the_assets_of_a_job_as_one_group(live: Any, page: Page) -> None:
    group = f"{live.url}/locations/live/asset-groups/{JOB}"
    page.goto(f"{group}/lineage")  # which draws what its window has room for
    shows(page.locator("body"), [JOB, "Asset Group", "checkpoint", "Spark", "Delta Lake"])
    page.goto(f"{group}/list")
    shows(page.locator("body"), ["checkpoint", "savepoint", "restored_state", "rescaled_state", "retention", "legs"])


def test_the_page_of_a_checkpoint_shows_what_it_is(live: Any, page: Page) -> None:
    shown = AssetPage(page, live.url, f"{JOB}/checkpoint").open("events")
    shows(shown, ["Checkpoint 4 at epoch 8 of generation 1.", "state_bytes", "changed_rows", "duration_s", "keys"])


def test_a_savepoint_is_taken_by_a_click(live: Any, page: Page) -> None:
    savepoint = AssetPage(page, live.url, f"{JOB}/savepoint")
    savepoint.materialize_new_partition("before-upgrade")
    (event,) = live.client.wait_for(lambda: live.client.materializations(f"{JOB}/savepoint"), "the run")
    (pin,) = list_savepoints(str(live.root), JOB)
    assert event["metadata"]["savepoint_id"] == pin.savepoint_id
    shown = savepoint.open("partitions", partition="before-upgrade")
    shows(shown, ["Materialized (1)", "before-upgrade", "savepoint_id", pin.savepoint_id, "20"])
    live.client.wait_for_run(event["run_id"])
    blocking = {"checksums", "complete", "keys_in_their_key_groups", "row_counts"}
    passed = {name for name, check in live.client.checks(f"{JOB}/savepoint").items() if check and check["success"]}
    assert blocking <= passed
    shows(savepoint.open("checks"), [*blocking, "Checks (5)", "Succeeded", pin.savepoint_id])
