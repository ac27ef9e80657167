"""The browser itself: it draws a page; without it, tests are skipped or fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent


def test_the_browser_draws_a_page(page: Page) -> None:
    page.set_content("<h1>Lakestate</h1><script>document.querySelector('h1').textContent += ' runs'</script>")
    expect(page.get_by_role("heading")).to_have_text("Lakestate runs")


@pytest.mark.parametrize(
    ("wanted", "outcome"), [pytest.param("", "1 skipped", marks=pytest.mark.long), ("required", "1 error")]
)
def test_without_a_browser_tests_are_skipped_unless_it_is_required(tmp_path: Path, wanted: str, outcome: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER), "-k", "draws_a_page"]
    environment = {**os.environ, "PATH": str(tmp_path), "LAKESTATE_BROWSER": wanted}
    done = subprocess.run(command, env=environment, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "apt-get install chromium" in done.stdout
