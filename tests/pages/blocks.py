"""Finds the pages of the repository and the blocks of code in them, as CommonMark defines these."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
_NOT_PAGES = {"changes", "build", "dist"}  # fragments of the change log, and what tools have built
_TITLE = re.compile(r'(?:title|filename)="([\w.-]+)"')


class Block(NamedTuple):
    """A block of code.

    Attributes:
        page: Where it is, below the root.
        line: The line of the page on which its text begins, from 1.
        language: The first word behind the fence; empty without one, or if the block is only indented.
        text: Its lines, without those of the fence.
        title: The name of the file that a reader saves it as (`title="job.py"` behind the language), if there is one.
        heading: The heading above it.
    """

    page: str
    line: int
    language: str
    text: str
    title: str
    heading: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Returns all Markdown pages below the root, as paths relative to it."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(str(path) for path in found if path.is_file() and not _is_hidden(path) and _is_own(path))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") or part in ("node_modules", "__pycache__") for part in path.parts)


def _is_own(path: Path) -> bool:
    """Returns whether a page is not one of `_NOT_PAGES`, nor reached by a link to a folder whose own path comes too."""
    linked = any((ROOT / folder).is_symlink() for folder in path.parents)
    return path.parts[0] not in _NOT_PAGES and not linked


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """Returns the blocks of code of a page, from top to bottom."""
    return tuple(_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def _blocks(page: str, text: str) -> Iterator[Block]:
    heading, in_heading = "", False
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "inline" and in_heading:
            heading = token.content
        in_heading = token.type == "heading_open"
        if token.map is None or token.type not in ("fence", "code_block"):
            continue
        fenced = token.type == "fence"
        language, _, rest = token.info.strip().partition(" ") if fenced else ("", "", "")
        title = _TITLE.search(rest)
        yield Block(page, token.map[0] + 1 + fenced, language, token.content, title[1] if title else "", heading)


def prose_of(page: str) -> str:
    """Returns the text of a page without its blocks of code."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    for token in MarkdownIt("commonmark").parse("\n".join(lines)):
        if token.map is not None and token.type in ("fence", "code_block"):
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
    return "\n".join(lines)


def spans_of(page: str) -> list[str]:
    """Returns the code in the running text of a page: what is between backquotes."""
    inline = (token for token in MarkdownIt("commonmark").enable("table").parse(prose_of(page)) if token.children)
    return [child.content for token in inline for child in token.children or () if child.type == "code_inline"]
