"""Shared code of all commands: common options, printing, and exit codes.

Exit codes: 0 success; 1 failure, with a named error; 2 wrong usage, or what was named does not exist or does not run.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from lakestate.errors import AddressError, CodeLocationError, JobNotRunningError, ProjectError, UnknownTriggerError
from state_engine.errors import (
    JobAlreadyRunningError,
    JobDefinitionError,
    LakestateError,
    NothingToRestoreError,
    UnknownOperatorError,
    UnsupportedAddressError,
)
from state_engine.storage.roots import local_path

ROOT_VARIABLE = "LAKESTATE_ROOT"
_WIDE = 1_000


_NOT_THERE = (
    JobDefinitionError,
    NothingToRestoreError,
    UnknownOperatorError,
    JobNotRunningError,
    JobAlreadyRunningError,
    UnknownTriggerError,
    AddressError,
    CodeLocationError,
    ProjectError,
)


class ExitCode(IntEnum):
    """The exit codes of the commands."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2


def checked_root(root: str | None) -> str | None:
    """Returns the root after checking it.

    Raises:
        BadParameter: It contains a secret, which the list of processes and every log would show; or it would lead to
            another place than it seems.
    """
    if root is None:
        return None
    try:
        is_local = local_path(root) is not None
    except UnsupportedAddressError as error:
        raise typer.BadParameter(str(error)) from error
    if not is_local:
        parts = urlsplit(root)
        if parts.username is not None or parts.password is not None or parts.query:
            raise typer.BadParameter(
                "An address must not contain a key or a signature: credentials come from the environment "
                "(docs/configuration.md)."
            )
    return root


Root = Annotated[
    str,
    typer.Option(
        "--root",
        envvar=ROOT_VARIABLE,
        callback=checked_root,
        help="The state root: a folder or the URI of a bucket.",
    ),
]
Job = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job. It may be running.", show_default=False)]
At = Annotated[str, typer.Option("--at", help="latest, checkpoint:<id>, epoch:<generation>/<epoch> or a savepoint id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@contextmanager
def named_errors() -> Iterator[None]:
    """Ends the process with the error's name, message and remedy on standard error, and its exit code."""
    try:
        yield
    except LakestateError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(exit_code_of(error)) from None
    except BrokenPipeError:
        # The reader has read enough (`| head`). Nothing may be flushed into the pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(ExitCode.DONE) from None


def exit_code_of(error: LakestateError) -> ExitCode:
    """Returns 2 if the user has to change the request, 1 if the request was right and failed.

    An error without a class of its own only says that the request was refused, so it is 2.
    """
    return ExitCode.WRONG_USE if isinstance(error, _NOT_THERE) or type(error) is LakestateError else ExitCode.FAILED


def make_console() -> Console:
    """Returns a console on standard output; if that is not a terminal, nothing is cut off or folded."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=_WIDE, highlight=False)


def make_table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """Returns an empty table.

    Args:
        columns: Their headings.
        right: Columns with figures, aligned right.
        fold: Columns that continue on further lines in a narrow terminal; the others are cut off with an ellipsis.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            Text(column),
            justify="right" if column in right else "left",
            no_wrap=column not in fold,
            overflow="fold" if column in fold else "ellipsis",
        )
    return table


def add_row(table: Table, *cells: object) -> None:
    """Adds a row of plain text: no cell is read as markup. A null is an empty cell."""
    table.add_row(*(cell if isinstance(cell, Text) else Text("" if cell is None else str(cell)) for cell in cells))


def print_facts(console: Console, facts: Sequence[tuple[str, object]]) -> None:
    """Prints pairs of name and value below each other; those without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        if value not in (None, ""):
            grid.add_row(Text(name, style="dim"), Text(str(value), overflow="fold"))
    console.print(grid)


def print_title(console: Console, title: str) -> None:
    """Prints the heading of a part of the output."""
    console.print()
    console.print(Text(title, style="bold"))


@contextmanager
def progress_of(title: str) -> Iterator[Callable[[str, float], None]]:
    """Yields a function of (what, share done) that shows progress if standard error is a terminal."""
    console = Console(stderr=True)
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=console, transient=True)
    bar.disable = not console.is_terminal
    with bar:
        task = bar.add_task(title, total=1.0)
        yield lambda what, share: bar.update(task, description=f"{title} {escape(what)}", completed=share)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Shows that a verb waits, if standard error is a terminal."""
    console = Console(stderr=True)
    with console.status(escape(title)) if console.is_terminal else nullcontext():
        yield


def text_of(value: Any) -> str:
    """Returns a value of a state as a cell: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(plain(value)).decode()


def print_json(value: Any) -> None:
    """Prints one JSON document. Records become objects; times are milliseconds since the Unix epoch."""
    typer.echo(msgspec.json.format(msgspec.json.encode(plain(value))).decode())


def print_json_line(value: Any) -> None:
    """Prints one JSON document on one line."""
    typer.echo(msgspec.json.encode(plain(value)).decode())


def plain(value: Any) -> Any:
    """Converts a value of our records to JSON types: structs and named tuples to objects, bytes to hex digits."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


__all__ = [
    "ROOT_VARIABLE",
    "AsJson",
    "At",
    "ExitCode",
    "Job",
    "Root",
    "add_row",
    "checked_root",
    "exit_code_of",
    "make_console",
    "make_table",
    "named_errors",
    "plain",
    "print_facts",
    "print_json",
    "print_json_line",
    "print_title",
    "progress_of",
    "text_of",
    "waiting",
]
