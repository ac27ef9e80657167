"""Links of pages to files of the repository that are no pages of the site, such as code and the README of a room.

In the repository browser such a link is relative. The site cannot follow it, so it becomes a link below
`repository_address`, or, without an address, text that shows the file's path to a pointer. A file that does not exist
is a warning, thus an error of `make docs`.
"""

import os
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class RepositoryLinks(SphinxTransform):
    """Replaces the links to files outside docs/, and to files in it that are no pages."""

    default_priority = 50  # before Sphinx collects the files that pages offer for download

    def apply(self, **kwargs: object) -> None:
        """Looks at each link that MyST has found and not identified as the address of another host."""
        for node in list(self.document.findall(lambda found: isinstance(found, nodes.Element))):
            if node.get("reftype") == "myst" and (path := self.path_of(node)):
                node.replace_self(self.replacement(node, path))

    def path_of(self, link: nodes.Element) -> Path | None:
        """Returns the existing file or folder to which a link leads; None for pages, and for anchors within a page."""
        target = str(link["reftarget"]).partition("#")[0]
        suffix = ".md" if link.get("refdomain") == "doc" else ""
        if not target or (suffix and target in self.env.found_docs):
            return None
        folder = Path(self.env.doc2path(self.env.docname)).parent
        path = Path(os.path.normpath(folder / f"{target}{suffix}"))
        return path if path.exists() else None

    def replacement(self, link: nodes.Element, path: Path) -> nodes.Element:
        """Returns a link to a file, or the text of the link with the file's path as its explanation."""
        root = Path(self.env.srcdir).parent
        name = path.relative_to(root).as_posix()
        address = self.config.repository_address.rstrip("/")
        if address:
            anchor = link.get("reftargetid") or str(link["reftarget"]).partition("#")[2]
            uri = f"{address}/{name}" + (f"#{anchor}" if anchor else "")
            return nodes.reference("", "", *link.children, refuri=uri, internal=False)
        return nodes.abbreviation(
            "", "", *link.children, explanation=f"{name} in the repository", classes=["repository-file"]
        )


def setup(app: Sphinx) -> dict[str, object]:
    """Registers the setting and the transform with Sphinx."""
    app.add_config_value("repository_address", "", "env", str)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
