"""Reads the commands in blocks of `sh` and `console`, and checks that each exists with the options that it is given.

Nothing is run here. Words such as `JOB` and `<id>` stand for what a reader puts there.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import typer
from blocks import ROOT, Block, blocks_of, prose_of

PROMPT = "$ "
_SEPARATORS = {"|", "||", "&&", ";", "&"}
_OF_OTHERS = {
    "cat", "cd", "cp", "curl", "docker", "du", "echo", "export", "flink", "git", "head", "java", "kill", "kubectl",
    "ls", "mkdir", "mv", "pip", "rm", "sleep", "sort", "source", "systemctl", "tail", "touch", "unzip", "uv",
}  # fmt: skip


class Line(NamedTuple):
    """One line that a reader types, with its continuations and its here-document.

    Attributes:
        number: The line of the page on which it begins, from 1.
        text: What is typed.
        commands: The simple commands in it, as words: program and arguments, without variables in front of them.
        output: What the page shows below it, in a block of `console`.
    """

    number: int
    text: str
    commands: list[list[str]]
    output: str


class WrongCommandError(Exception):
    """A command on a page cannot be run as it is shown."""


def lines_of(block: Block) -> Iterator[Line]:
    """Yields what is typed in a block, in order. In a block of `console` it follows the prompt `$ `.

    Raises:
        WrongCommandError: A line is no command of a shell.
    """
    lines, at = block.text.splitlines(), 0
    while at < len(lines):
        begun, text = at, lines[at]
        if block.language == "console":
            if not text.startswith(PROMPT):
                raise WrongCommandError(f"{block.place}: a block of console begins with {PROMPT!r}, not with {text!r}")
            text = text.removeprefix(PROMPT)
        at += 1
        while at < len(lines) and _goes_on(text):
            text, at = f"{text}\n{lines[at].removeprefix('> ')}", at + 1
        typed = text
        if document := re.search(r"<<-?\s*(['\"]?)(\w+)\1", text):
            end = lines.index(document[2], at) + 1
            typed, at, text = "\n".join([text, *lines[at:end]]), end, text.replace(document[0], "")
        output = []
        while block.language == "console" and at < len(lines) and not lines[at].startswith(PROMPT):
            output.append(lines[at])
            at += 1
        number = block.line + begun
        yield Line(number, typed, list(_simple_commands(text.replace("\\\n", " "), number)), "\n".join(output))


def _goes_on(text: str) -> bool:
    """Returns whether a command goes on in the next line: after a backslash, or within quotes."""
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _simple_commands(text: str, line: int) -> Iterator[list[str]]:
    """Yields the commands of one line: those of a pipe, those after one another, and those whose output is a value."""
    for inner in re.findall(r"\$\((.+)\)", text):
        yield from _simple_commands(inner, line)
    lexer = shlex.shlex(re.sub(r"\$\(.+\)", "VALUE", text), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError as error:
        raise WrongCommandError(f"line {line}: {error}") from error
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _SEPARATORS:
            command.append(word)
            continue
        while command and re.match(r"\w+=", command[0]):  # a variable for this command
            command = command[1:]
        if command:
            yield command
        command = []


def check_block(block: Block, page: str) -> None:
    """Checks that the commands of a block can be run as they are shown.

    Raises:
        WrongCommandError: A line is no command of a shell, or its program, verb or options do not exist.
    """
    for line in lines_of(block):
        for words in line.commands:
            try:
                check(words, page)
            except WrongCommandError as error:
                raise WrongCommandError(f"{page}:{line.number}: {error}") from error


def check(words: list[str], page: str) -> None:
    """Checks that a command can be run as it is shown.

    Raises:
        WrongCommandError: Its program, verb or options do not exist.
    """
    program, *arguments = words
    program = Path(program).name
    check_arguments = CHECKS.get(program)
    if check_arguments is not None:
        check_arguments(_without_redirections(arguments), page)
    elif program not in _OF_OTHERS and not (Path(sys.prefix) / "bin" / program).exists():
        raise WrongCommandError(f"{program} is not a program that tests/pages/shell.py knows")


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or re.fullmatch(r"[<>&]+", word):
            skip = not skip
        else:
            kept.append(word)
    return kept


def _check_lakestate(arguments: list[str], page: str) -> None:
    parse(lakestate(), arguments, "lakestate")


def parse(command: click.Command, arguments: list[str], name: str) -> None:
    """Parses arguments as the command would, and does not run it.

    Raises:
        WrongCommandError: The command refuses them.
    """
    at: click.Command | None = command
    try:
        while at is not None:
            context = at.make_context(name, list(arguments))
            if not isinstance(at, click.Group) and not hasattr(at, "commands"):
                return
            name, at, arguments = at.resolve_command(context, [*context._protected_args, *context.args])
    except (click.exceptions.Exit, typer.Exit):
        return  # --help and --version
    except Exception as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        raise WrongCommandError(f"{name} {shlex.join(arguments)}: {said}") from error


@cache
def lakestate() -> click.Command:
    """Returns the command `lakestate`."""
    from lakestate.cli import app

    return typer.main.get_command(app)


@cache
def _benchmarks() -> click.Command:
    sys.path.append(str(ROOT))  # `benchmarks` is run from the root folder, never installed
    from benchmarks.__main__ import app

    return typer.main.get_command(app)


@cache
def verbs_of_make() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _check_make(arguments: list[str], page: str) -> None:
    variables = dict(word.split("=", 1) for word in arguments if "=" in word)
    for verb in (word for word in arguments if "=" not in word and not word.startswith("-")):
        if verb not in verbs_of_make():
            raise WrongCommandError(f"make has no verb {verb}")
        given = shlex.split(variables.get("ARGS", ""))
        if verb == "bench":
            parse(_benchmarks(), given, "benchmarks")
        elif verb in ("up", "down", "demo"):
            _check_lakestate([verb, *given], page)
        elif verb in ("test", "test-long", "check"):
            _check_pytest(given, page)


def _check_pytest(arguments: list[str], page: str) -> None:
    for word in arguments:
        if word.startswith("tests/") and not (ROOT / word.partition("::")[0]).exists():
            raise WrongCommandError(f"{word} does not exist")


def _check_python(arguments: list[str], page: str) -> None:
    """A module can be imported; a script is a file of the repository, or one that the page tells to write."""
    match arguments:
        case ["-m", module, *_]:
            from importlib.util import find_spec

            if find_spec(module) is None:
                raise WrongCommandError(f"python -m {module}: there is no such module")
        case [script, *_] if script.endswith(".py"):
            if not (ROOT / script).exists() and not any(script in text for text in _pages_beside(page)):
                raise WrongCommandError(f"python {script}: no page beside this one says what is in this file")


def _pages_beside(page: str) -> Iterator[str]:
    """Yields the running text and the titles of blocks of the pages in the folder of a page."""
    for path in (ROOT / page).parent.glob("*.md"):
        beside = str(path.relative_to(ROOT))
        yield "\n".join([prose_of(beside), *(block.title for block in blocks_of(beside))])


CHECKS: Mapping[str, Callable[[list[str], str], None]] = {
    "lakestate": _check_lakestate,
    "make": _check_make,
    "pytest": _check_pytest,
    "python": _check_python,
    "python3": _check_python,
}
