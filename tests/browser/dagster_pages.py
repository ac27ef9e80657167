"""Dagster's pages as a person uses them."""

import re
from collections.abc import Sequence

from playwright.sync_api import Locator, Page, expect


class AssetPage:
    """The page of one asset.

    Args:
        page: Of the browser.
        url: Of the web server.
        asset: Its key, with slashes.
    """

    def __init__(self, page: Page, url: str, asset: str) -> None:
        self._page, self._url = page, f"{url}/assets/{asset}"

    def open(self, view: str = "overview", **query: str) -> Locator:
        """Opens one of its tabs; returns what the page shows."""
        self._page.goto(
            self._url + "?" + "&".join(f"{name}={value}" for name, value in {"view": view, **query}.items())
        )
        return self._page.locator("body")

    def materialize_new_partition(self, name: str) -> None:
        """Clicks Materialize, adds a partition, and launches its run."""
        self.open()
        self._page.get_by_role("button", name="Materialize").click()
        self._page.get_by_role("button", name="Add a partition").click()
        self._page.get_by_placeholder("name").or_(self._page.get_by_role("dialog").get_by_role("textbox")).last.fill(
            name
        )
        self._page.get_by_role("button", name="Save").click()
        self._page.get_by_role("button", name="Launch 1 run").click()
        expect(self._page.get_by_text(re.compile("Launched run"))).to_be_visible()


def shows(where: Locator, texts: Sequence[str]) -> None:
    """Waits until all these texts are there."""
    for text in texts:
        expect(where).to_contain_text(text)
