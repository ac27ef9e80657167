"""Configuration of the documentation site: `make docs` builds it into build/docs.

The decision for Sphinx, and what was compared: `adr/0034-documentation-site.md`. The four parts of the site, and the
names of pages in it, are in `navigation.yml`.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
# The extensions of this site, then the checkout: a page never describes another installed version.
sys.path[:0] = [str(DOCS / "_site"), str(DOCS.parent), str(DOCS.parent / "platform")]

import state_engine
import state_engine.spark

# autodoc asks a module for its attributes; this one loads them on first use.
vars(state_engine.spark).update({name: getattr(state_engine.spark, name) for name in state_engine.spark.__all__})

project = "Lakestate"
author = "The authors of Lakestate"
copyright = "the authors of Lakestate"
release = version = state_engine.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_external_toc",
    "diagrams",
    "docstrings",
    "repository_links",
]
exclude_patterns = ["_site"]
suppress_warnings = ["etoc.glob"]  # a pattern of the navigation may match no page
root_doc = "index"
external_toc_path = "navigation.yml"
external_toc_exclude_missing = False  # a page that the navigation misses is an error

# Strict: make docs turns warnings into errors, and a reference without a target is a warning.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:class", r"Collecting|Input|SparkSession"),  # imported for type checkers alone
    # Rooms that users do not import: their types may occur in signatures, but have no page.
    (r"py:.*", r"state_engine\.(checkpoint|clock|epoch|key_groups|log|runtime|serialization|storage)\..*"),
    (r"py:.*", r"state_engine\.flink\.(differences|keys|nodes)\..*"),
    (r"py:.*", r"state_engine\.spark\.(driver|graph|session)\..*"),
    (r"py:.*", r"state_engine\.savepoint\.(holding|source|stop|writers)\..*"),
    (r"py:.*", r"state_engine\.(inspect\.scan|testing\.operator_records)\..*"),
    (r"py:.*", r"state_engine\.api\.(types\.Carrier|windows\.(assigners\.MergeCallback|windows\.Merging))"),
    (r"py:.*", r"state_engine\.api\.windows\.functions\.Context"),  # autodoc loses the class around it
    (r"py:.*", r"lakestate\.(assets|rest|running_job|start_request|supervision)\..*"),
]

# Pages are GitHub's Markdown, so that the repository browser shows them as well.
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields of a dataclass are described once, in the docstring of the class

# Where a browser finds the repository's files; empty: links to them show the path instead.
repository_address = ""

html_theme = "pydata_sphinx_theme"
html_title = "Lakestate"
html_static_path = ["_site/static"]
html_css_files = ["lakestate.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_depth": 3,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}  # light or dark, as the browser prefers
