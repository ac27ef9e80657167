"""Docstrings of this project for Sphinx: they are Markdown in single backticks and fences, with Google's sections.

A name in single backticks becomes a link if the API pages have it, and stays code if they do not. In signatures, names
of other packages stay text, since their documentation is not available when the site is built; so do type variables
and names with an underscore.
"""

import builtins
import re
from itertools import takewhile

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

FENCE = re.compile(r"^(\s*)```(\w*)$")
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)(?=(\w?))")
QUOTED = "\0"
"""Stands for a backtick within a fenced block."""
NAME = re.compile(r"[A-Za-z_][\w.]*")
TYPE_VARIABLE = re.compile(r"\.(?:[A-Z]\d?|IN|OUT|KEY)$")


def spans_to_roles(span: re.Match[str]) -> str:
    """Returns the text in backticks as a reference, if it is a name, or else as code."""
    text = f":py:obj:`{span[1]}`" if NAME.fullmatch(span[1]) else f"``{span[1].strip()}``"
    return text + ("\\ " if span[2] else "")  # a plural's s may follow


def from_markdown(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turns the backticks and fences of a docstring into reStructuredText, in place."""
    translated: list[str] = []
    inside = False
    for line in lines:
        fence = FENCE.match(line)
        if fence and not inside:
            translated += ["", f"{fence[1]}.. code-block:: {fence[2] or 'text'}", ""]
        elif fence:
            translated.append("")
        else:
            translated.append(f"    {line.replace('`', QUOTED)}" if inside and line else line)
        inside = inside != bool(fence)
    text = SPAN.sub(spans_to_roles, "\n".join(translated))
    lines[:] = text.replace(QUOTED, "`").split("\n")


def code_without_target(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Returns the name itself if it is in backticks, or if no page can have it; None is an error."""
    if node.get("refdomain") != "py":
        return None
    package, _, name = str(node["reftarget"]).partition(".")
    foreign = bool(name) and package not in ("state_engine", "lakestate")
    private = name.rpartition(".")[2].startswith("_") or bool(TYPE_VARIABLE.search(name))
    return content if node["reftype"] == "obj" or foreign or private else None


def in_common(one: list[str], other: list[str]) -> int:
    """Returns how many parts of two dotted names are equal, from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class QualifiedNames(SphinxPostTransform):
    """Gives the bare names of classes in signatures their module: `DataStream` is a class of several modules."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: object) -> None:
        """Chooses the class whose module has the most of its path in common with the one that names it."""
        objects = self.env.domains["py"].data["objects"]
        for node in self.document.findall(pending_xref):
            name = str(node.get("reftarget", ""))
            if node.get("refdomain") != "py" or node["reftype"] == "obj" or "." in name:
                continue
            places = [place for place in objects if place.rpartition(".")[2] == name]
            if hasattr(builtins, name):
                node["reftarget"] = f"builtins.{name}"
            elif places:
                near = str(node.get("py:module")).split(".")
                node["reftarget"] = max(places, key=lambda place: (in_common(place.split("."), near), -len(place)))


def setup(app: Sphinx) -> dict[str, object]:
    """Registers the handlers; napoleon reads the sections after the fences are gone."""
    app.connect("autodoc-process-docstring", from_markdown, priority=400)
    app.add_post_transform(QualifiedNames)
    app.connect("missing-reference", code_without_target)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
