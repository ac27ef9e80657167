"""What a person sees of a stream, and can do: the graph, a checkpoint, a savepoint by a click, a restore by clicks."""

from typing import Any

import pytest
from dagster_pages import AssetPage, Lineage, shows
from playwright.sync_api import Page
from restores import chosen_of, restore_by_clicks, take_last_nights
from wide_plan import WIDE

from lakestate.assets.names import lineage_path
from lakestate.assets.ranges import range_name
from state_engine.inspect import diff_states, open_job
from state_engine.key_groups import key_group_of
from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
JOB = "flights"


def place(stream: Any) -> str:
    """Returns the newest epoch of a job, in the form that `diff_states` takes."""
    newest = open_job(stream.state_store.root, stream.job).newest()
    assert newest is not None
    return f"epoch:{newest.manifest.generation}/{newest.manifest.epoch}"


@pytest.mark.long  # a later test of this file opens the lineage, by its link
def test_a_link_opens_the_lineage_with_the_group_of_a_job_expanded(live: Any, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 2_000})  # Dagster draws what its window has room for
    graph = Lineage(page, live.url).open(lineage_path(JOB))
    graph.shows(["checkpoint", "savepoint", "restored_state", "rescaled_state", "retention", "compaction"])
    graph.shows(["sources", "states", "sinks"])
    graph.hides(["flights_source", "aircraft.legs", "legs_sink"])


@pytest.mark.long  # `dagster/test_stream_plan.py` has the nodes and edges of the job
def test_every_node_of_a_job_of_ten_states_and_six_sinks_has_a_name_of_its_own(live_dagster: Any, page: Page) -> None:
    live_dagster.declare("wide", plan=WIDE)
    page.set_viewport_size({"width": 1440, "height": 4_500})
    graph = Lineage(page, live_dagster.url).open(lineage_path("wide", nested=True))
    graph.shows(["alerts.threshold", "sessions.count", "totals.count", "flights_source", "flights_sink", "checkpoint"])
    names = graph.nodes(2 + 1 + 10 + 6 + 5)
    assert len(names) == len(set(names))
    graph.edges(2 + 10 + 6 + 1)  # sources to checkpoint, checkpoint to states and sinks, savepoint to restored state


@pytest.mark.parametrize(
    "asset",
    [
        "states/aircraft.legs",
        pytest.param("checkpoint", marks=pytest.mark.long),
        pytest.param("savepoint", marks=pytest.mark.long),
    ],
)
def test_the_page_of_an_asset_has_a_link_to_the_lineage(live: Any, page: Page, asset: str) -> None:
    AssetPage(page, live.url, f"{JOB}/{asset}").open()
    link = page.locator(f"a[href='{lineage_path(JOB)}']").first
    with page.context.expect_page() as opened:
        link.click()
    shows(opened.value.locator("body"), ["Global asset lineage", "checkpoint", "restored_state"])


def test_the_group_of_a_job_lists_what_can_be_done_with_it(live: Any, page: Page) -> None:
    page.goto(f"{live.url}/locations/live/asset-groups/{JOB}/list")
    shows(page.locator("body"), ["checkpoint", "savepoint", "restored_state", "rescaled_state", "retention"])


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


def test_a_backfill_by_clicks_restores_the_chosen_key_groups_and_no_others(
    live_dagster: Any, harbour: Any, page: Page
) -> None:
    take_last_nights(live_dagster, harbour.job)
    harbour.checkpoints(5, 6)
    before, groups = place(harbour), harbour.log.max_parallelism

    restored = restore_by_clicks(live_dagster, page, harbour.job)

    (diff,) = diff_states(harbour.state_store.root, harbour.job, before, place(harbour), examples=100)
    changed = {next(iter(one.entry.values())) for one in diff.examples}
    assert changed == {
        key for key in (f"N{n}" for n in range(20)) if key_group_of((key,), ["string"], groups) in chosen_of(groups)
    }
    assert 0 < len(changed) < 20
    shows(restored.open("partitions"), ["Materialized (3)", "Missing (13)", range_name(3)])
    shows(restored.open("events"), ["last-night", "key_groups"])
