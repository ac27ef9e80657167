"""What the documentation site makes of a page, and which faults of a page it reports: small sites, built by Sphinx."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONF = """
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_external_toc",
              "diagrams", "docstrings", "repository_links"]
external_toc_path = "navigation.yml"
external_toc_exclude_missing = False
myst_heading_anchors = 4
nitpicky = True
exclude_patterns = ["_site"]
html_theme = "basic"
import sys
sys.path[:0] = ["docs/_site", "."]
"""
# The module has a name of ours: classes of other packages need no entry.
SHOP = '''
class Shop:
    """A shop; see `Shop.sell` and `no_such_name`, or `Shop`s of others.

    ```python
    Shop().sell()
    ```
    """

    def sell(self) -> "Shop":
        """Returns the shop."""


def open_shop() -> Shop:
    """Returns a shop."""
'''
PICTURE = "<svg>drawn</svg>"


def build(folder: Path, page: str, *options: str, more: dict[str, str] | None = None) -> tuple[str, str]:
    """Builds a site of one page, and returns the page and the warnings."""
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs" / "_site", docs / "_site", ignore=shutil.ignore_patterns("__pycache__", "*.svg"))
    files = {
        "conf.py": CONF,
        "navigation.yml": "root: index\n",
        "index.md": page,
        "../lakestate.py": SHOP,
        **(more or {}),
    }
    for name, text in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", *options, "docs", "out"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=200)
    return (folder / "out" / "index.html").read_text(encoding="utf-8"), ended.stderr


def test_a_link_to_a_file_of_the_repository_shows_its_path(tmp_path: Path) -> None:
    html, warnings = build(
        tmp_path, "# Page\n\nRead [the code](../lakestate.py), [all](../docs) and [a part](#page).\n"
    )
    assert not warnings
    assert '<abbr class="repository-file" title="lakestate.py in the repository">' in html
    assert 'title="docs in the repository"' in html
    assert 'href="#page"' in html
    assert not (tmp_path / "out" / "_downloads").exists()


def test_with_an_address_of_the_repository_it_is_a_link(tmp_path: Path) -> None:
    page = "# Page\n\nRead [the code](../lakestate.py) and [a part](../README.md#a-part).\n"
    html, warnings = build(
        tmp_path, page, "-D", "repository_address=https://host/tree/", more={"../README.md": "# A part"}
    )
    assert not warnings
    assert 'href="https://host/tree/lakestate.py"' in html
    assert 'href="https://host/tree/README.md#a-part"' in html


def test_a_diagram_is_shown_as_its_picture(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "docs" / "_site"))
    from diagrams import picture_of

    block = "flowchart LR\n  a --> b\n"
    picture = f"_site/diagrams/{picture_of(block).name}"
    html, warnings = build(tmp_path, f"# Page\n\n```mermaid\n{block}```\n", more={picture: PICTURE})
    assert not warnings
    assert PICTURE in html
    assert "flowchart" not in html


def test_docstrings_are_markdown_and_their_names_are_links(tmp_path: Path) -> None:
    html, warnings = build(tmp_path, "# Page\n\n````{eval-rst}\n.. autoclass:: lakestate.Shop\n   :members:\n````\n")
    assert not warnings
    assert 'href="#lakestate.Shop.sell"' in html
    assert "no_such_name" in html
    assert "highlight-python" in html
    assert "`" not in html.split("<body>")[1]


FAULTS = {
    "page": ("[gone](gone.md)", "cross-reference target not found: 'gone.md'"),
    "file": ("[gone](../gone.py)", "cross-reference target not found: '../gone.py'"),
    "anchor": ("[gone](#gone)", "target not found: 'gone'"),
    "anchor of a page": ("[gone](other.md#gone)", "local id not found in doc 'other': 'gone'"),
    "image": ("![gone](gone.png)", "image file not readable: gone.png"),
    "diagram": ("```mermaid\nflowchart LR\n```", "no picture of this diagram: run `make diagrams`"),
    "class without entry": (
        "````{eval-rst}\n.. autofunction:: lakestate.open_shop\n````",
        "reference target not found: lakestate.Shop",
    ),
}
"""What is wrong in a page, and the warning about it, which `make docs` turns into an error."""


@pytest.fixture(scope="module")
def warnings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Sphinx reports about one page with all faults."""
    more = {"other.md": "# Other\n", "navigation.yml": "root: index\nentries:\n  - file: other\n"}
    page = "\n\n".join(["# Page", *(text for text, _ in FAULTS.values())])
    return build(tmp_path_factory.mktemp("faults"), page, more=more)[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported(warnings: str, fault: str) -> None:
    assert FAULTS[fault][1] in warnings


def test_a_page_that_the_navigation_misses_is_reported(tmp_path: Path) -> None:
    _, warnings = build(tmp_path, "# Page\n", more={"other.md": "# Other\n"})
    assert "other.md: WARNING: document isn't included in any toctree" in warnings
