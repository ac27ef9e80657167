"""`lakestate init`: a new project."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import make_console, named_errors


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new or empty folder; its name becomes the package's.")
    ],
) -> None:
    """Create a project: one stream, its test, and its definitions for Dagster."""
    with named_errors():
        # Imported here, so that the command line starts quickly.
        from lakestate.init.project import create_project

        written = create_project(folder)
        console = make_console()
        for file in written:
            console.print(Text(str(folder / file)))
        console.print()
        for command, what in (
            (f"cd {os.fspath(folder)}", ""),
            ("pytest", "the tests; pip install pytest"),
            ("dg dev", "Dagster; pip install 'lakestate[dagster]' dagster-dg-cli"),
            ("lakestate start clicks --root state", "the stream, which Dagster can start, too"),
            ("lakestate status clicks --root state", "what it does"),
        ):
            console.print(Text(f"  {command:<40}{'# ' + what if what else ''}".rstrip()))


__all__ = ["init"]
