"""Draws the pictures of the ```mermaid blocks in docs/, which the documentation site shows in their place.

`make diagrams`, after a block has changed. It needs npm, which fetches Mermaid, and Debian's chromium; the site itself
needs neither. Pictures of blocks that no page has any more are removed.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))

from diagrams import PICTURES, picture_of  # noqa: E402

MERMAID = "mermaid@11.17.2"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Labels are text of the picture, not HTML in it, so that every viewer of SVG shows them.
SETTINGS = """{startOnLoad: false, theme: "neutral", htmlLabels: false, flowchart: {htmlLabels: false},
               fontFamily: "system-ui, sans-serif"}"""


def load_mermaid(page: Page, folder: Path) -> None:
    """Loads Mermaid, as npm fetches it, into a page."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not on the PATH; it fetches Mermaid. Debian: apt-get install npm")
    subprocess.run([npm, "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        script = archive.extractfile("package/dist/mermaid.min.js")
        assert script is not None
        page.add_script_tag(content=script.read().decode())
    page.evaluate(f"() => mermaid.initialize({SETTINGS})")


def main() -> None:
    """Draws what has no picture, and removes what has no block."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    blocks = [block for page in pages for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    wanted = {picture_of(block): block for block in blocks}
    missing = {picture: block for picture, block in wanted.items() if not picture.is_file()}
    if missing:
        chromium = shutil.which("chromium") or sys.exit("no chromium on the PATH; Debian: apt-get install chromium")
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_content("<body></body>")
            load_mermaid(page, Path(folder))
            for picture, block in missing.items():
                # The id is the picture's own: its styles apply to nothing else on a page.
                drawn = "async ([id, text]) => (await mermaid.render(id, text)).svg"
                svg = page.evaluate(drawn, [f"diagram-{picture.stem}", block])
                picture.write_text(svg + "\n", encoding="utf-8")
                print(f"drawn: {picture.relative_to(ROOT)}")
            browser.close()
    for stale in set(PICTURES.glob("*.svg")) - set(wanted):
        stale.unlink()
        print(f"removed: {stale.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
