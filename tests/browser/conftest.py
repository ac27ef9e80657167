"""Dagster's pages in Debian's Chromium. Where there is none the tests are skipped, or fail if CI asks for a browser."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NO_BROWSER = "no chromium on the PATH; Debian: apt-get install chromium"
WAIT_MS = 60_000


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program. Playwright's own downloads are not used."""
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("LAKESTATE_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A browser for the tests of one module: Playwright's event loop must not stay for those of others."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page, large enough that nothing hides in a menu."""
    expect.set_options(timeout=WAIT_MS)
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(WAIT_MS)
    yield context.new_page()
    context.close()
