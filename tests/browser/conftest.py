"""Dagster's pages in Debian's Chromium. Without it the tests are skipped, or fail if CI requires a browser."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

# The live Dagster is in the folder of Dagster's tests, which is no package.
DAGSTER = Path(__file__).parents[1] / "dagster"
sys.path += [str(Path(__file__).parent), str(DAGSTER)]
_spec = importlib.util.spec_from_file_location("conftest_of_dagster", DAGSTER / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_conftest = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _conftest
_spec.loader.exec_module(_conftest)
new_stream, new_live_stream = _conftest.new_stream, _conftest.new_live_stream

NO_BROWSER = "no chromium on the PATH; Debian: apt-get install chromium"
WAIT_MS = 60_000


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program; Playwright's own downloads are not used."""
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("LAKESTATE_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A browser for the tests of one module: Playwright's event loop must not stay for other modules."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page, large enough that no menu hides anything."""
    expect.set_options(timeout=WAIT_MS)
    context = browser.new_context(viewport={"width": 1440, "height": 1400})
    context.set_default_timeout(WAIT_MS)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def live_dagster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Dagster with daemon and web server for the tests of one module."""
    from live_dagster import LiveDagster

    with LiveDagster(tmp_path_factory.mktemp("live")) as live:
        yield live


@pytest.fixture(scope="module")
def live(live_dagster: Any) -> Any:
    """The live Dagster with a job `flights` that was stopped after four checkpoints."""
    _stopped(live_dagster, "flights")
    return live_dagster


@pytest.fixture(scope="module")
def harbour(live_dagster: Any) -> Any:
    """The log of another stopped job, with savepoints and restores of its own."""
    return _stopped(live_dagster, "harbour")


def _stopped(live_dagster: Any, job: str) -> Any:
    stream = _conftest.Stream(live_dagster.root, job)
    stream.checkpoints(1, 4)
    live_dagster.declare(job)
    client = live_dagster.client
    client.wait_for(lambda: client.materializations(f"{job}/checkpoint"), "the checkpoint sensor")
    return stream
