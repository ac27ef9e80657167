"""Makes the pictures of Dagster's pages that the documentation shows, from a Dagster that runs.

Start `lakestate up`, wait until a checkpoint was reported, and then:

    .venv/bin/python scripts/screenshots.py --url http://127.0.0.1:3000 --job flights

It takes a savepoint by clicks, and restores three ranges of key groups from it, in Debian's Chromium, and writes
docs/images/*.png.
"""

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "browser"))

from dagster_pages import AssetPage, Lineage  # noqa: E402
from playwright.sync_api import FloatRect, Page, expect, sync_playwright  # noqa: E402

from lakestate.assets.names import lineage_path  # noqa: E402

WIDTH, HEIGHT = 1440, 1000
SETTLE_MS, TRIES = 5_000, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="of Dagster's web server")
    parser.add_argument("--job", default="flights")
    parser.add_argument("--state", default="aircraft.legs", help="operator uid and state whose key groups are shown")
    parser.add_argument("--savepoint", default="before-upgrade", help="name of the savepoint that is taken")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("There is no chromium on the PATH. What to do: apt-get install chromium.")
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        take(page, given)
        browser.close()


def take(page: Page, given: argparse.Namespace) -> None:
    """Takes all pictures."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT + 150})
    lineage = Lineage(page, given.url).open(lineage_path(given.job))
    lineage.shows(["sources", "states", "sinks", "Materialized"])
    shoot(page, given.out / "graph.png")

    page.set_viewport_size({"width": WIDTH, "height": 4 * HEIGHT})
    AssetPage(page, given.url, f"{given.job}/states/{given.state}").open()
    expect(page.locator("body")).to_contain_text("key_groups")
    page.wait_for_timeout(SETTLE_MS)
    top, end = (page.get_by_text(text, exact=True).first.bounding_box() for text in ("Metadata", "View in graph"))
    assert top is not None
    assert end is not None
    column = {"x": top["x"] - 40, "width": end["x"] + end["width"] - top["x"] + 70}
    shoot(page, given.out / "state.png", {**column, "y": top["y"] - 10, "height": end["y"] - top["y"] - 20})
    page.get_by_text("Plots", exact=True).click()
    plot = page.get_by_text("skew", exact=True).bounding_box()
    assert plot is not None
    shoot(page, given.out / "skew.png", {"x": plot["x"] - 20, "y": plot["y"] - 20, "width": 420, "height": 280})

    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    savepoint = AssetPage(page, given.url, f"{given.job}/savepoint")
    savepoint.materialize_new_partition(given.savepoint)
    open_until(savepoint, "savepoint_id", "partitions", partition=given.savepoint)
    shoot(page, given.out / "savepoint.png")
    savepoint.open("checks")
    expect(page.locator("body")).to_contain_text("keys_in_their_key_groups")
    shoot(page, given.out / "checks.png")

    restored = AssetPage(page, given.url, f"{given.job}/restored_state")
    ranges = [f"range_{number:02d}_of_16" for number in (3, 4, 5)]
    restored.choose(savepoint=[given.savepoint], key_groups=ranges)
    shoot(page, given.out / "restore.png")
    restored.launch_backfill()
    open_until(restored, f"Materialized ({len(ranges)})", "partitions")
    shoot(page, given.out / "restored.png")


def open_until(page: AssetPage, text: str, view: str, **query: str) -> None:
    """Opens a page again and again until a run has brought this text onto it."""
    for _ in range(TRIES):
        try:
            expect(page.open(view, **query)).to_contain_text(text, timeout=2 * SETTLE_MS)
            return
        except AssertionError:
            continue
    sys.exit(f"{text!r} did not come to {view}. What to do: look at the runs.")


def shoot(page: Page, path: Path, clip: FloatRect | None = None) -> None:
    """Writes what the page, or a part of it, shows once it has settled."""
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=path, clip=clip)
    print(f"{path} {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
