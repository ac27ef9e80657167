"""`lakestate init`: writes a Dagster project with one stream."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, make_console, named_errors, print_json

_NEXT = """\
cd {folder}
pip install --editable ".[dev]"
pytest
lakestate run clicks --root state -o input=data/clicks -o output=data --available-now
lakestate sql "select user, value from count.clicks" --root state --job clicks --live
LAKESTATE_ROOT="$PWD/state" dg dev"""


def init(
    name: Annotated[str, typer.Argument(help="Name of the project and its package, such as my_streams.")],
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Where to write it. [default: a folder NAME]", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a Dagster project with one stream and its tests. It needs no other service, and runs at once."""
    with named_errors():
        from lakestate.init import write_project

        folder = directory if directory is not None else Path(name)
        written = write_project(name, folder)
    if as_json:
        print_json({"folder": str(folder), "files": [str(path) for path in written]})
        return
    console = make_console()
    console.print(Text(f"Wrote {len(written)} files to {folder}. Next:\n\n{_NEXT.format(folder=folder)}"))


__all__ = ["init"]
