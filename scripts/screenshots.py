"""Makes the pictures of Dagster's pages that the documentation shows, from a Dagster that runs.

Start `lakestate up`, wait until a checkpoint was reported, and then:

    .venv/bin/python scripts/screenshots.py --url http://127.0.0.1:3000 --job flights

It takes a savepoint by clicks and chooses a restore without launching it, in Debian's Chromium, and writes
docs/images/*.png.
"""

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "browser"))

from dagster_pages import AssetPage  # noqa: E402
from playwright.sync_api import Page, expect, sync_playwright  # noqa: E402

WIDTH, HEIGHT = 1440, 1000
SETTLE_MS = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="of Dagster's web server")
    parser.add_argument("--location", default="lakestate", help="the code location")
    parser.add_argument("--job", default="flights")
    parser.add_argument("--state", default="aircraft/legs", help="operator uid and state whose key groups are shown")
    parser.add_argument("--savepoint", default="before-upgrade", help="name of the savepoint that is taken")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("There is no chromium on the PATH. What to do: apt-get install chromium.")
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        take(page, given)
        browser.close()


def take(page: Page, given: argparse.Namespace) -> None:
    """Takes all pictures."""
    page.goto(f"{given.url}/locations/{given.location}/asset-groups/{given.job}/lineage")
    expect(page.locator("body")).to_contain_text("restored_state")
    shoot(page, given.out / "graph.png")

    AssetPage(page, given.url, f"{given.job}/{given.state}").open()
    expect(page.locator("body")).to_contain_text("key_groups")
    shoot(page, given.out / "state.png")

    savepoint = AssetPage(page, given.url, f"{given.job}/savepoint")
    savepoint.materialize_new_partition(given.savepoint)
    savepoint.open("partitions", partition=given.savepoint)
    expect(page.locator("body")).to_contain_text("savepoint_id")
    shoot(page, given.out / "savepoint.png")

    restored = AssetPage(page, given.url, f"{given.job}/restored_state")
    ranges = [f"range_{number:02d}_of_16" for number in (3, 4, 5)]
    restored.choose(savepoint=[given.savepoint], key_groups=ranges)
    shoot(page, given.out / "restore.png")


def shoot(page: Page, path: Path) -> None:
    """Writes what the page shows once it has settled."""
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=path)
    print(f"{path} {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
