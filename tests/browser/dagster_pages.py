"""Drives Dagster's pages as a person does."""

from collections.abc import Sequence

from playwright.sync_api import Locator, Page, expect


class AssetPage:
    """The page of one asset.

    Args:
        page: The page of the browser.
        url: The address of the web server.
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
        self._click("Materialize")
        self._click("Add a partition")
        self._page.get_by_role("dialog").get_by_role("textbox").last.fill(name)
        self._click("Save")
        self._click("Launch 1 run")
        expect(self._page.get_by_text("Launched run")).to_be_visible()

    def choose(self, **keys: Sequence[str]) -> None:
        """Clicks Materialize and chooses partition keys of each dimension."""
        self.open()
        self._click("Materialize")
        dialog = self._page.get_by_role("dialog")
        selection, sure = dialog.get_by_text("Partition selection"), dialog.get_by_role("button", name="Confirm")
        expect(selection.or_(sure)).to_be_visible()
        if sure.is_visible():  # the page has not yet noticed that the upstream asset was materialised
            sure.click()
        for dimension in sorted(keys, reverse=True):  # from the bottom: the upper ones still wait for their choice
            dialog.get_by_text("Select a partition or create one").last.click()
            for key in keys[dimension]:
                self._page.get_by_role("menuitem").filter(has_text=key).click()
            dialog.get_by_text("Launch runs to materialize").click()  # closes the menu, which may cover all below it

    def launch_backfill(self) -> None:
        """Launches the chosen backfill."""
        self._click("Launch backfill")
        expect(self._page.get_by_text("Created backfill")).to_be_visible()

    def _click(self, button: str) -> None:
        self._page.get_by_role("button", name=button).click()


class Lineage:
    """The lineage of all assets; it draws only the nodes that its window has room for.

    Args:
        page: The page of the browser.
        url: The address of the web server.
    """

    def __init__(self, page: Page, url: str) -> None:
        self._page, self._url = page, url
        self._names = page.locator("[class*=AssetNode_assetName]")

    def open(self, path: str) -> "Lineage":
        """Opens a path of it; returns itself."""
        self._page.goto(f"{self._url}{path}")
        return self

    def shows(self, names: Sequence[str]) -> None:
        """Waits until there are nodes or collapsed groups of these names."""
        for name in names:
            expect(self._page.locator("foreignObject").get_by_text(name, exact=True).first).to_be_attached()

    def hides(self, names: Sequence[str]) -> None:
        """Waits until there are no nodes of these names."""
        for name in names:
            expect(self._page.locator("foreignObject").get_by_text(name, exact=True)).to_have_count(0)

    def nodes(self, number: int) -> list[str]:
        """Waits for this number of nodes; returns their names."""
        expect(self._names).to_have_count(number)
        return self._names.all_inner_texts()

    def edges(self, number: int) -> None:
        """Waits for this number of edges."""
        expect(self._page.locator("path[marker-end]")).to_have_count(number)


def shows(where: Locator, texts: Sequence[str]) -> None:
    """Waits until all these texts are shown."""
    for text in texts:
        expect(where).to_contain_text(text)
