"""Blocks and pages that are not read by the test of this folder, each with its reason: a sentence, or another test."""

from fnmatch import fnmatch

from blocks import Block

EXCUSED: dict[tuple[str, str], str] = {}
"""Blocks, by page and first line: why there is nothing to run."""

WALKED = {
    "README.md": "tests/readme/test_first_five_minutes.py",
    "docs/guides/dagster/pipes.md": "tests/dagster/test_dagster_guides.py",
    "docs/start/*.md": "tests/tutorial",
    "docs/guides/fraud-detector/*.md": "tests/tutorial",
}
"""Pages whose files and commands another test writes and types in a process of its own, as a reader does."""


def key_of(block: Block) -> tuple[str, str]:
    """Returns what names a block in `EXCUSED`."""
    return block.page, block.text.split("\n")[0]


def walked_by(page: str) -> str | None:
    """Returns the test that walks a page, if there is one."""
    return next((test for pattern, test in WALKED.items() if fnmatch(page, pattern)), None)
