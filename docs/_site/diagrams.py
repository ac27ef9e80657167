"""Diagrams: shows a ```mermaid block of a page as the picture that `scripts/render_diagrams.py` has drawn of it.

Pages thus need neither a script of another host nor a browser when the site is built. A picture is named after the
digest of its source, so a changed block without a new picture is an error.
"""

import hashlib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

PICTURES = Path(__file__).parent / "diagrams"

logger = logging.getLogger(__name__)


def picture_of(source: str) -> Path:
    """Returns where the picture of a diagram is stored."""
    return PICTURES / f"{hashlib.sha256(source.strip().encode()).hexdigest()[:16]}.svg"


class Diagrams(SphinxTransform):
    """Replaces blocks of the language mermaid."""

    default_priority = 50

    def apply(self, **kwargs: object) -> None:
        """Puts the picture into the page itself, so that its text can be found, copied and read aloud."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") != "mermaid":
                continue
            picture = picture_of(block.astext())
            if picture.is_file():
                svg = picture.read_text(encoding="utf-8")
                block.replace_self(nodes.raw("", f'<div class="diagram">{svg}</div>', format="html"))
            else:
                logger.warning("no picture of this diagram: run `make diagrams`", location=block)


def setup(app: Sphinx) -> dict[str, object]:
    """Registers the transform."""
    app.add_transform(Diagrams)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
