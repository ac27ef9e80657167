"""Finds the pages of the repository and the blocks of code in them, as CommonMark defines these.

markdown-it parses the pages, because indented code and code in lists must not escape. Libraries that run examples, such
as Sybil and pytest-examples, look for fences by regular expressions, and do not know code without a fence.
"""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
_TITLE = re.compile(r'title="([^"]+)"')
_SAME = {"bash": "sh", "shell": "sh"}


class Block(NamedTuple):
    """A block of code.

    Attributes:
        page: Where it is, below the root.
        line: The line of the page on which its text begins, from 1.
        language: The first word behind the fence, `sh` for all shells; empty without one, or if the block is indented.
        text: Its lines, without those of the fence.
        title: What stands above the block on the site (`title="job.py"` behind the language), if anything.
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


@cache
def pages() -> tuple[str, ...]:
    """Returns all Markdown pages of the repository, also those that git does not know yet, as paths below the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return tuple(sorted(page for page in listed if (ROOT / page).is_file() and not page.startswith("changes/")))


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
        language = _SAME.get(language, language)
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
