"""Commands on pages exist, with the options that they are given: in blocks of code and in running text."""

import re

import click
import pytest
from blocks import blocks_of, pages, prose_of, spans_of
from excused import walked_by
from shell import check_block, lakestate

PAGES = pages()
WITH_COMMANDS = [
    page
    for page in PAGES
    if walked_by(page) is None and any(block.language in ("sh", "console") for block in blocks_of(page))
]
WITH_SPANS = [page for page in PAGES if any(span.startswith("lakestate ") for span in spans_of(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_in_blocks_exist(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "LAKESTATE_ROOT" in prose_of(page):
        monkeypatch.setenv("LAKESTATE_ROOT", "state")
    for block in blocks_of(page):
        if block.language in ("sh", "console"):
            check_block(block, page)


@pytest.mark.parametrize("page", WITH_SPANS)
def test_verbs_and_options_in_running_text_exist(page: str) -> None:
    wrong = [span for span in spans_of(page) if span.startswith("lakestate ") and not exists(span)]
    assert not wrong


def exists(span: str) -> bool:
    """Returns whether a command in running text, which may leave out arguments, has a verb and options that exist."""
    at: click.Command = lakestate()
    words = span.split()[1:]
    while words and hasattr(at, "commands") and words[0] in at.commands:
        at = at.commands[words.pop(0)]
    if words and hasattr(at, "commands") and re.fullmatch(r"[a-z][\w-]*", words[0]):
        return False
    options = {name for param in at.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    return {word for word in words if re.fullmatch(r"--[a-z][\w-]*", word)} <= options


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)])
def test_no_command_hides_in_a_block_of_text(page: str) -> None:
    command = re.compile(rf"^(\$ |lakestate ({'|'.join(lakestate().commands)})\b)", re.MULTILINE)  # type: ignore[attr-defined]
    hidden = [block.place for block in blocks_of(page) if block.language == "text" and command.search(block.text)]
    assert not hidden, "name the language `sh`, or `console` with what the command prints"
