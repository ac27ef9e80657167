"""The pages of the command have every verb of the command with exactly the options that it has."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from lakestate.cli import app

PAGES = ("command-line.md", "try-it.md", "dagster/command-line.md")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
SECTIONS = {
    heading.split("`")[1]: text for heading, text in re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE)
}


def verbs(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from verbs(below, f"{name} {word}")


VERBS = dict(verbs(typer.main.get_command(app), "lakestate"))


def heading_of(name: str, command: click.Command) -> str:
    shown = [one for one in command.params if one.param_type_name == "argument" and not getattr(one, "hidden", False)]
    arguments = [(one.metavar or one.name or "").upper() for one in shown]
    return " ".join([name, *arguments])


def options_in(text: str) -> set[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `--")]
    return {option for row in rows for option in re.findall(r"`(--?[\w-]+)", row)}


SHARED = options_in(PAGE.split("\n## ")[0])


def test_the_page_has_the_verbs_that_there_are() -> None:
    assert sorted(SECTIONS) == sorted(heading_of(name, command) for name, command in VERBS.items())


@pytest.mark.parametrize("name", VERBS)
def test_the_page_has_the_options_that_a_verb_has(name: str) -> None:
    command = VERBS[name]
    has = {text for one in command.params if one.param_type_name == "option" for text in one.opts} - {"--help"}
    told = options_in(SECTIONS[heading_of(name, command)])
    assert told <= has
    assert has - told <= SHARED


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_and_option_says_what_it_is_for(name: str) -> None:
    command = VERBS[name]
    assert command.help
    silent = [one.name for one in command.params if one.param_type_name == "option" and not getattr(one, "help", None)]
    assert not silent
